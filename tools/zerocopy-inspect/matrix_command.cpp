// SPDX-License-Identifier: LGPL-2.1-or-later
// matrix: fragments against all profiles of a folder.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include <drm_fourcc.h>

#include "fragment.h"
#include "heat_map.h"
#include "negotiate_report.h"
#include "planes.h"
#include "table.h"
#include "tool.h"

namespace gstzc::inspect {
namespace {

namespace fs = std::filesystem;

constexpr size_t kCellWidth = 60; // characters of a reason in the table

struct Row {
  std::string file; // its path
  DisplaySource source;
  std::vector<NegotiationReport> reports; // one a fragment
};

Result<std::vector<std::string>> profilesIn(const std::string &dir) {
  std::error_code error;
  fs::directory_iterator entries(dir, error);
  if (error) return Error{"list the folder " + dir, error.value(), "Name a folder of profiles (*.json)"};
  std::vector<std::string> files;
  for (const auto &entry : entries)
    if (entry.path().extension() == ".json" && !entry.is_directory(error)) files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  if (files.empty())
    return Error{"the folder " + dir + " has no profiles (*.json)", 0,
                 "zerocopy-inspect record --output FILE.json makes one"};
  return files;
}

// Layout of the frames that were agreed on.
HeatCell cellOf(const DisplaySource &source, const NegotiationReport &report) {
  HeatCell cell;
  cell.detail = report.summary;
  switch (report.negotiation.verdict) {
  case Negotiation::Verdict::Impossible:
    cell.level = Level::Impossible;
    cell.label = "no";
    return cell;
  case Negotiation::Verdict::Untried:
    cell.level = Level::Untried;
    cell.label = "?";
    if (!report.negotiation.errors.empty() && cell.detail.find(" fails: ") == std::string::npos) // says it already
      cell.detail += ": " + report.negotiation.errors.front().text;
    return cell;
  case Negotiation::Verdict::Possible: break;
  }
  cell.label = "yes";
  cell.level = Level::Implicit;
  if (report.frames.empty()) return cell;
  const ExplainedFrame &frame = report.frames.front();
  const DrmFormat format = frame.explanation.choice ? frame.explanation.choice->format : frame.frame.need.format;
  cell.label = fourccName(format.fourcc);
  switch (layoutTier(format.modifier)) {
  case LayoutTier::Compressed: cell.level = Level::Compressed; break;
  case LayoutTier::Tiled: cell.level = Level::Tiled; break;
  case LayoutTier::Linear: cell.level = Level::Linear; break;
  case LayoutTier::Implicit: cell.level = Level::Implicit; break;
  }
  if (frame.explanation.choice)
    if (const std::string &label = source.profile.snapshot.planes[frame.explanation.choice->plane].label;
        !label.empty())
      cell.label += " on " + label;
  return cell;
}

std::string rowName(const Row &row) { return fs::path(row.file).stem().string(); }

HeatMap heatMapOf(const std::vector<Row> &rows, const std::vector<std::string> &fragments) {
  HeatMap map;
  map.title = "What displays take";
  map.columns = fragments;
  for (const Row &row : rows) {
    map.rows.push_back(rowName(row));
    map.cells.emplace_back();
    for (const NegotiationReport &report : row.reports) map.cells.back().push_back(cellOf(row.source, report));
  }
  return map;
}

std::string shortened(const std::string &text) {
  return text.size() <= kCellWidth ? text : text.substr(0, text.rfind(' ', kCellWidth)) + " …";
}

std::string asText(const HeatMap &map) {
  std::string text;
  for (size_t c = 0; c < map.columns.size(); ++c) text += "[" + std::to_string(c + 1) + "] " + map.columns[c] + "\n";
  std::vector<std::string> head = {"PROFILE"};
  for (size_t c = 0; c < map.columns.size(); ++c) head.push_back("[" + std::to_string(c + 1) + "]");
  const bool one = map.columns.size() == 1; // then there is room for the reason
  if (one) head.push_back("BY");
  Table table(head);
  size_t good = 0, all = 0;
  for (size_t r = 0; r < map.rows.size(); ++r) {
    std::vector<std::string> cells = {map.rows[r]};
    for (const HeatCell &cell : map.cells[r]) {
      cells.push_back(possible(cell.level) ? cell.label + ", " + levelName(cell.level)
                                           : std::string(levelName(cell.level)));
      ++all;
      good += possible(cell.level);
    }
    if (one) cells.push_back(shortened(map.cells[r].front().detail));
    table.add(cells);
  }
  return text + "\n" + table.text() + "\n" + std::to_string(good) + " of " + std::to_string(all) + " possible.\n";
}

std::string asJson(const std::vector<Row> &rows, const std::vector<std::string> &fragments, const HeatMap &map) {
  JsonWriter json;
  json.beginObject();
  json.member("fragments", fragments);
  json.key("profiles").beginArray();
  for (size_t r = 0; r < rows.size(); ++r) {
    json.beginObject();
    json.member("profile", map.rows[r]);
    json.member("file", rows[r].file);
    json.member("display", rows[r].source.name);
    json.key("cells").beginArray();
    for (size_t c = 0; c < fragments.size(); ++c) {
      const HeatCell &cell = map.cells[r][c];
      const Negotiation &n = rows[r].reports[c].negotiation;
      json.beginObject();
      json.member("verdict", verdictName(n.verdict));
      json.member("level", levelName(cell.level));
      json.member("label", cell.label);
      json.member("summary", cell.detail);
      json.memberOrNull("caps", n.caps.text());
      json.endObject();
    }
    json.endArray();
    json.endObject();
  }
  json.endArray();
  json.endObject();
  return json.text();
}

} // namespace

Result<Answer> matrix(const CommandLine &line) {
  const std::vector<std::string> fragments(line.arguments.begin() + 1, line.arguments.end());
  // All input is looked at before the first pipeline runs.
  for (const std::string &fragment : fragments)
    if (auto parsed = parseFragment(fragment); !parsed) return parsed.error();
  auto files = profilesIn(line.arguments.front());
  if (!files) return files.error();
  std::vector<Row> rows;
  for (const std::string &file : *files) {
    auto source = openDisplaySource({file, "", ""});
    if (!source) return source.error();
    rows.push_back({file, source.take(), {}});
  }
  for (Row &row : rows)
    for (const std::string &fragment : fragments) {
      auto parsed = parseFragment(fragment);
      if (!parsed) return parsed.error();
      auto result = report(parsed.take(), {row.file, "", ""}, row.source, line.timeout);
      if (!result) return result.error();
      row.reports.push_back(result.take());
    }
  const HeatMap map = heatMapOf(rows, fragments);
  if (!line.svg.empty())
    if (auto written = writeFile(line.svg, toSvg(map)); !written) return written.error();
  if (!line.html.empty())
    if (auto written = writeFile(line.html, toHtml(map)); !written) return written.error();
  // an untried one is bad input, wherever the others stand
  Exit exit = Exit::Shown;
  for (const auto &row : map.cells)
    for (const HeatCell &cell : row)
      if (cell.level == Level::Untried)
        exit = Exit::BadInput;
      else if (!possible(cell.level) && exit == Exit::Shown)
        exit = Exit::Impossible;
  return Answer{exit, line.json ? asJson(rows, fragments, map) : asText(map)};
}

} // namespace gstzc::inspect
