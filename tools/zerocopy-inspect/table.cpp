// SPDX-License-Identifier: LGPL-2.1-or-later
#include "table.h"

#include <algorithm>

#include <glib.h>

namespace gstzc::inspect {
namespace {

constexpr size_t kGap = 2;
constexpr size_t kNarrowest = 24; // of the last column

size_t widthOf(const std::string &text) {
  return g_utf8_validate(text.data(), static_cast<gssize>(text.size()), nullptr)
             ? static_cast<size_t>(g_utf8_strlen(text.data(), static_cast<gssize>(text.size())))
             : text.size();
}

} // namespace

std::vector<std::string> wrap(const std::string &text, size_t width) {
  std::vector<std::string> lines;
  std::string line;
  for (size_t from = 0; from < text.size();) {
    const size_t blank = std::min(text.find(' ', from), text.size());
    const std::string word = text.substr(from, blank - from);
    if (!line.empty() && widthOf(line) + 1 + widthOf(word) > width) {
      lines.push_back(std::move(line));
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
    from = blank + 1;
  }
  if (!line.empty() || lines.empty()) lines.push_back(std::move(line));
  return lines;
}

std::string wrapLines(const std::string &text, size_t indent) {
  std::string result;
  for (size_t from = 0; from < text.size();) {
    const size_t end = std::min(text.find('\n', from), text.size());
    const std::string line = text.substr(from, end - from);
    from = end + 1;
    if (widthOf(line) <= kLineWidth) { // blanks that align are kept
      result += line + "\n";
      continue;
    }
    const size_t lead = std::min(line.find_first_not_of(' '), line.size());
    const auto lines = wrap(line.substr(lead), kLineWidth - std::max(indent, lead));
    for (size_t l = 0; l < lines.size(); ++l) result += std::string(l == 0 ? lead : indent, ' ') + lines[l] + "\n";
  }
  return result;
}

std::string joined(const std::vector<std::string> &entries, size_t most) {
  std::string text;
  const size_t shown = std::min(entries.size(), most);
  for (size_t i = 0; i < shown; ++i) text += (i == 0 ? "" : ", ") + entries[i];
  if (shown < entries.size()) text += " and " + std::to_string(entries.size() - shown) + " more";
  return text;
}

std::string Table::text() const {
  size_t columns = 0;
  for (const auto &row : rows_) columns = std::max(columns, row.size());
  std::vector<size_t> widths(columns, 0);
  for (const auto &row : rows_)
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], widthOf(row[c]));
  size_t before = 0; // the last column
  for (size_t c = 0; c + 1 < columns; ++c) before += widths[c] + kGap;
  const size_t last = std::max(kLineWidth > before ? kLineWidth - before : 0, kNarrowest);

  std::string text;
  for (const auto &row : rows_) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c) {
      if (c + 1 < columns) {
        line += row[c] + std::string(widths[c] + kGap - widthOf(row[c]), ' ');
        continue;
      }
      const auto lines = wrap(row[c], last);
      for (size_t l = 0; l < lines.size(); ++l) line += (l == 0 ? "" : "\n" + std::string(before, ' ')) + lines[l];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

} // namespace gstzc::inspect
