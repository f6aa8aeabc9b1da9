// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/model/literal.h"

#include <charconv>
#include <cmath>

#include <glib.h>

namespace gstzc::infer {
namespace {

constexpr int kMaxDepth = 16;

class Parser {
public:
  explicit Parser(std::string_view text) : text_(text) {}

  bool whole(Literal &out) {
    if (!value(out, 0)) return false;
    skipSpace();
    return at_ == text_.size();
  }

private:
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void skipSpace() {
    while (peek() == ' ' || peek() == '\t' || peek() == '\n' || peek() == '\r') ++at_;
  }
  bool take(char c) {
    skipSpace();
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  bool takeWord(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) return false;
    const size_t end = at_ + word.size();
    if (end < text_.size() && (g_ascii_isalnum(text_[end]) || text_[end] == '_')) return false;
    at_ = end;
    return true;
  }

  bool value(Literal &out, int depth) {
    if (depth > kMaxDepth) return false;
    skipSpace();
    switch (peek()) {
    case '{': return dict(out, depth);
    case '[': return list(out, ']', depth);
    case '(': return list(out, ')', depth);
    case '\'':
    case '"': return quoted(out);
    default: break;
    }
    for (const std::string_view word : {"True", "true", "False", "false"})
      if (takeWord(word)) {
        out.kind = Literal::Kind::Bool;
        out.integer = word == "True" || word == "true";
        return true;
      }
    if (takeWord("None") || takeWord("null")) return true;
    return number(out);
  }

  bool list(Literal &out, char close, int depth) {
    out.kind = Literal::Kind::List;
    ++at_;
    while (!take(close)) {
      if (!value(out.items.emplace_back(), depth + 1)) return false;
      if (take(',')) continue;
      return take(close);
    }
    return true;
  }

  bool dict(Literal &out, int depth) {
    out.kind = Literal::Kind::Dict;
    ++at_;
    while (!take('}')) {
      if (!value(out.items.emplace_back(), depth + 1) || !take(':')) return false;
      if (!value(out.items.emplace_back(), depth + 1)) return false;
      if (take(',')) continue;
      return take('}');
    }
    return true;
  }

  bool number(Literal &out) {
    const size_t start = at_;
    bool real = false;
    while (g_ascii_isdigit(peek()) || peek() == '+' || peek() == '-' || peek() == '.' || peek() == 'e' ||
           peek() == 'E') {
      real = real || peek() == '.' || peek() == 'e' || peek() == 'E';
      ++at_;
    }
    const char *const first = text_.data() + start, *const last = text_.data() + at_;
    out.kind = real ? Literal::Kind::Real : Literal::Kind::Integer;
    const auto read = real ? std::from_chars(first, last, out.real) : std::from_chars(first, last, out.integer);
    return read.ec == std::errc() && read.ptr == last && std::isfinite(out.real);
  }

  bool quoted(Literal &out) {
    out.kind = Literal::Kind::Text;
    const char quote = text_[at_++];
    for (;;) {
      if (at_ >= text_.size()) return false;
      const char c = text_[at_++];
      if (c == quote) break;
      if (c != '\\')
        out.text += c;
      else if (!escape(out.text))
        return false;
    }
    return g_utf8_validate(out.text.data(), static_cast<gssize>(out.text.size()), nullptr) != FALSE;
  }

  bool escape(std::string &out) {
    if (at_ >= text_.size()) return false;
    const char c = text_[at_++];
    switch (c) {
    case '\\':
    case '\'':
    case '"':
    case '/': out += c; return true;
    case 'a': out += '\a'; return true;
    case 'b': out += '\b'; return true;
    case 'f': out += '\f'; return true;
    case 'n': out += '\n'; return true;
    case 'r': out += '\r'; return true;
    case 't': out += '\t'; return true;
    case 'v': out += '\v'; return true;
    case 'x': return codePoint(2, out);
    case 'u': return codePoint(4, out);
    case 'U': return codePoint(8, out);
    default: return false;
    }
  }

  bool codePoint(size_t digits, std::string &out) {
    uint32_t code = 0;
    if (!hex(digits, code)) return false;
    // JSON writes what is beyond 16 bits as two surrogates
    if (code >= 0xd800 && code < 0xdc00) {
      uint32_t low = 0;
      if (text_.substr(at_, 2) != "\\u") return false;
      at_ += 2;
      if (!hex(4, low) || low < 0xdc00 || low > 0xdfff) return false;
      code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    if (code == 0 || !g_unichar_validate(code)) return false;
    char utf8[6];
    out.append(utf8, static_cast<size_t>(g_unichar_to_utf8(code, utf8)));
    return true;
  }

  bool hex(size_t digits, uint32_t &code) {
    if (text_.size() - at_ < digits) return false;
    const char *const first = text_.data() + at_;
    const auto read = std::from_chars(first, first + digits, code, 16);
    at_ += digits;
    return read.ec == std::errc() && read.ptr == first + digits;
  }

  std::string_view text_;
  size_t at_ = 0;
};

} // namespace

const Literal *Literal::find(std::string_view key) const {
  if (kind != Kind::Dict) return nullptr;
  for (size_t i = 0; i + 1 < items.size(); i += 2)
    if (items[i].kind == Kind::Text && items[i].text == key) return &items[i + 1];
  return nullptr;
}

std::optional<Literal> parseLiteral(std::string_view text) {
  Literal literal;
  if (!Parser(text).whole(literal)) return std::nullopt;
  return literal;
}

} // namespace gstzc::infer
