// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/engine/onnx_text.h"

#include <algorithm>
#include <string_view>

namespace gstzc::infer {
namespace {

constexpr size_t kLongest = 500;   // bytes that are kept
constexpr size_t kLookedAt = 8192; // of what may be a dump
constexpr std::string_view kFailed = " was false. ";

bool isDigit(char c) { return c >= '0' && c <= '9'; }

// Where the word at `from` ends; spaces between brackets are part of it, as in "f(int, char)".
size_t wordEnd(const std::string &text, size_t from) {
  int depth = 0;
  size_t i = from;
  for (; i < text.size() && (depth > 0 || text[i] != ' '); ++i) {
    if (text[i] == '(' || text[i] == '<' || text[i] == '[') ++depth;
    if (text[i] == ')' || text[i] == '>' || text[i] == ']') --depth;
  }
  return i;
}

// Where the signature of a function that begins at `from` ends: a few words of its result, then its name with
// arguments, and what qualifies it. `from` where there is none.
size_t signatureEnd(const std::string &text, size_t from) {
  size_t at = from;
  for (int words = 0; words < 6 && at < text.size(); ++words) {
    const size_t end = wordEnd(text, at);
    const std::string word = text.substr(at, end - at);
    at = end + (end < text.size() ? 1 : 0);
    const size_t arguments = word.find('(');
    if (arguments == std::string::npos || word.rfind("::", arguments) == std::string::npos) continue;
    for (const char *const qualifier : {"const ", "[with ", "noexcept "})
      if (text.compare(at, std::string_view(qualifier).size(), qualifier) == 0) {
        const size_t over = wordEnd(text, at);
        at = over + (over < text.size() ? 1 : 0);
      }
    return at;
  }
  return from;
}

// The end of "/a/file.cc:123 ", which begins at `from`; `from` if there is none.
size_t placeEnd(const std::string &text, size_t from) {
  size_t end = std::min(text.find(' ', from), text.size());
  const size_t over = std::min(end + 1, text.size());
  const size_t last = end;
  while (end > from && isDigit(text[end - 1])) --end;
  if (end == last || end == from || text[end - 1] != ':') return from;
  const std::string_view file = std::string_view(text).substr(from, end - 1 - from);
  for (const std::string_view kind : {".cc", ".cpp", ".cu", ".cuh", ".h", ".hpp"})
    if (file.ends_with(kind)) return over;
  return from;
}

// The end of "[ONNXRuntimeError] : 1 : FAIL : ", which begins at `from`; `from` if there is none.
size_t prefixEnd(const std::string &text, size_t from) {
  constexpr std::string_view start = "[ONNXRuntimeError] : ";
  if (text.compare(from, start.size(), start) != 0) return from;
  size_t end = from + start.size();
  for (int parts = 0; parts < 2; ++parts) {
    const size_t colon = text.find(" : ", end);
    if (colon == std::string::npos || colon - end > 32) return from;
    end = colon + 3;
  }
  return end;
}

} // namespace

std::string shortMessage(const std::string &message) {
  std::string text = message.substr(0, std::min(message.find("\nStacktrace"), kLookedAt));
  std::replace_if(text.begin(), text.end(), [](char c) { return c == '\n' || c == '\t' || c == '\r'; }, ' ');
  for (size_t at = 0; at < text.size();) {
    if (const size_t end = prefixEnd(text, at); end != at) {
      text.erase(at, end - at);
    } else if (size_t over = placeEnd(text, at); over != at) {
      over = signatureEnd(text, over);
      // the condition is of no use where words follow it
      if (const size_t failed = text.find(kFailed, over);
          failed != std::string::npos && text.find_first_not_of(' ', failed + kFailed.size()) != std::string::npos)
        over = failed + kFailed.size();
      text.erase(at, over - at);
    } else {
      at = std::min(text.find(' ', at), text.size() - 1) + 1; // the next word
    }
  }
  while (!text.empty() && (text.back() == ' ' || text.back() == '.')) text.pop_back();
  text.erase(0, std::min(text.find_first_not_of(' '), text.size()));
  if (text.size() <= kLongest) return text;
  size_t length = text.rfind(' ', kLongest);
  if (length == std::string::npos)
    for (length = kLongest; length > 0 && (text[length] & 0xc0) == 0x80;) --length; // not inside a character
  return text.substr(0, length) + " …";
}

} // namespace gstzc::infer
