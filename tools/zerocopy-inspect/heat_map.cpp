// SPDX-License-Identifier: LGPL-2.1-or-later
#include "heat_map.h"

#include <algorithm>
#include <cstdio>

#include <glib.h>

namespace gstzc::inspect {
namespace {

constexpr Level kLevels[] = {Level::Compressed, Level::Tiled,      Level::Linear,
                             Level::Implicit,   Level::Impossible, Level::Untried};

// SVG knows no layout: widths are guessed from a typical one of a character.
constexpr double kCharacter = 7.2; // pixels at 12 px
constexpr int kCellHeight = 44, kMargin = 16, kTitleHeight = 30, kLineHeight = 18, kHeadHeight = 34, kLegendHeight = 40;
constexpr int kCellMin = 110, kCellMax = 240, kHeadMax = 320, kWidthMax = 1200;

std::string escaped(const std::string &text) {
  gchar *valid = g_utf8_make_valid(text.data(), static_cast<gssize>(text.size()));
  std::string result;
  for (const char *c = valid; *c != 0; ++c) switch (*c) {
    case '&': result += "&amp;"; break;
    case '<': result += "&lt;"; break;
    case '>': result += "&gt;"; break;
    case '"': result += "&quot;"; break;
    default:
      // control characters are no XML
      if (static_cast<unsigned char>(*c) >= 0x20 || *c == '\n' || *c == '\t') result += *c;
    }
  g_free(valid);
  return result;
}

size_t characters(const std::string &text) {
  gchar *valid = g_utf8_make_valid(text.data(), static_cast<gssize>(text.size()));
  const auto count = static_cast<size_t>(g_utf8_strlen(valid, -1));
  g_free(valid);
  return count;
}

std::string shortened(const std::string &text, size_t most) {
  gchar *valid = g_utf8_make_valid(text.data(), static_cast<gssize>(text.size()));
  std::string result = valid;
  if (static_cast<size_t>(g_utf8_strlen(valid, -1)) > most && most > 1)
    result =
        std::string(valid, static_cast<size_t>(g_utf8_offset_to_pointer(valid, static_cast<glong>(most - 1)) - valid)) +
        "…";
  g_free(valid);
  return result;
}

std::string style(const char *cell, const char *fill_property, const char *ink_property) {
  std::string text;
  const auto rules = [&](bool dark, const std::string &indent) {
    for (const Level level : kLevels) {
      const Colours c = coloursOf(level, dark);
      const std::string name = levelName(level);
      if (std::string(fill_property) == ink_property) { // SVG: rectangle and text are elements of their own
        text += indent + "rect." + name + " { fill: " + c.fill + "; }\n";
        text += indent + "text." + name + " { fill: " + c.ink + "; }\n";
      } else {
        text += indent + cell + "." + name + " { " + fill_property + ": " + c.fill + "; " + ink_property + ": " +
                c.ink + "; }\n";
      }
    }
  };
  rules(false, "  ");
  text += "  @media (prefers-color-scheme: dark) {\n";
  const Colours page = pageColours(true);
  if (std::string(fill_property) == ink_property)
    text += std::string("    .page { fill: ") + page.fill + "; }\n    text { fill: " + page.ink + "; }\n";
  else
    text += std::string("    body { background: ") + page.fill + "; color: " + page.ink + "; }\n";
  rules(true, "    ");
  return text + "  }\n";
}

std::string summaryOf(const HeatMap &map) {
  size_t all = 0, good = 0;
  for (const auto &row : map.cells)
    for (const HeatCell &cell : row) {
      ++all;
      good += possible(cell.level);
    }
  return std::to_string(good) + " of " + std::to_string(all) + " possible";
}

std::string number(double value) {
  char text[32];
  g_snprintf(text, sizeof text, "%d", static_cast<int>(value + 0.5));
  return text;
}

std::string svgText(double x, double y, const char *classes, const char *anchor, const std::string &text) {
  return "  <text x=\"" + number(x) + "\" y=\"" + number(y) + "\"" +
         (*classes != 0 ? std::string(" class=\"") + classes + "\"" : "") +
         (*anchor != 0 ? std::string(" text-anchor=\"") + anchor + "\"" : "") + ">" + escaped(text) + "</text>\n";
}

} // namespace

const char *levelName(Level level) {
  switch (level) {
  case Level::Compressed: return "compressed";
  case Level::Tiled: return "tiled";
  case Level::Linear: return "linear";
  case Level::Implicit: return "implicit";
  case Level::Impossible: return "impossible";
  case Level::Untried: return "untried";
  }
  return "untried";
}

Colours coloursOf(Level level, bool dark) {
  switch (level) {
  case Level::Compressed: return dark ? Colours{"#2f8f5b", "#000000"} : Colours{"#1b6b43", "#ffffff"};
  case Level::Tiled: return dark ? Colours{"#4f93c4", "#000000"} : Colours{"#2a659b", "#ffffff"};
  case Level::Linear: return dark ? Colours{"#274b66", "#ffffff"} : Colours{"#bcd9ee", "#10242f"};
  case Level::Implicit: return dark ? Colours{"#5c5130", "#ffffff"} : Colours{"#f3e3a4", "#2c2400"};
  case Level::Impossible: return dark ? Colours{"#7a2b2b", "#ffffff"} : Colours{"#f2c1bb", "#4a0d0a"};
  case Level::Untried: break;
  }
  return dark ? Colours{"#3a3a3a", "#f0f0f0"} : Colours{"#e4e4e4", "#222222"};
}

Colours pageColours(bool dark) { return dark ? Colours{"#16191c", "#eceff1"} : Colours{"#ffffff", "#16191c"}; }

std::string toSvg(const HeatMap &map) {
  size_t longest_row = 0;
  for (const std::string &row : map.rows) longest_row = std::max(longest_row, characters(row));
  const double head_width = std::min<double>(kHeadMax, double(longest_row) * kCharacter + 12);
  std::vector<double> widths;
  for (size_t c = 0; c < map.columns.size(); ++c) {
    size_t longest = 0;
    for (const auto &row : map.cells) longest = std::max(longest, characters(row[c].label));
    widths.push_back(std::clamp<double>(double(longest) * kCharacter + 16, kCellMin, kCellMax));
  }
  double width = kMargin * 2 + head_width;
  for (const double w : widths) width += w;
  double legend_width = kMargin;
  for (const Level level : kLevels) legend_width += double(characters(levelName(level))) * kCharacter + 34;
  width = std::max({width, legend_width, double(characters(map.title)) * 9 + kMargin * 2});
  // heads of columns are numbers: what was tried is too long for them
  for (const std::string &column : map.columns)
    width = std::max(width, std::min<double>(kWidthMax, (double(characters(column)) + 4) * kCharacter + kMargin * 2));
  const double top = kMargin + kTitleHeight + double(map.columns.size()) * kLineHeight + kHeadHeight;
  const double height = top + double(map.rows.size()) * kCellHeight + kLegendHeight + kMargin;

  std::string svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + number(width) + "\" height=\"" +
                    number(height) + "\" viewBox=\"0 0 " + number(width) + " " + number(height) +
                    "\" role=\"img\" aria-labelledby=\"title desc\">\n";
  svg += "<title id=\"title\">" + escaped(map.title) + "</title>\n";
  svg += "<desc id=\"desc\">" + summaryOf(map) + ".";
  for (size_t r = 0; r < map.rows.size(); ++r)
    for (size_t c = 0; c < map.columns.size(); ++c)
      svg += "\n" + escaped(map.rows[r] + ", " + map.columns[c] + ": " + levelName(map.cells[r][c].level) +
                            (map.cells[r][c].detail.empty() ? "" : ": " + map.cells[r][c].detail));
  svg += "</desc>\n<style>\n";
  const Colours page = pageColours(false);
  svg += std::string("  text { font: 12px system-ui, sans-serif; fill: ") + page.ink +
         "; }\n  .page { fill: " + page.fill +
         "; }\n  .title { font-size: 16px; font-weight: 600; }\n  .head { font-weight: 600; }\n" +
         "  .small { font-size: 11px; }\n";
  svg += style("", "fill", "fill") + "</style>\n";
  svg += "<rect class=\"page\" width=\"100%\" height=\"100%\"/>\n<g>\n";
  svg += svgText(kMargin, kMargin + 18, "title", "", map.title);
  const auto line_most = static_cast<size_t>((width - kMargin * 2) / kCharacter);
  double x = kMargin + head_width;
  for (size_t c = 0; c < map.columns.size(); ++c) {
    const std::string number_text = "[" + std::to_string(c + 1) + "]";
    svg += svgText(kMargin, kMargin + kTitleHeight + 8 + double(c) * kLineHeight, "", "",
                   shortened(number_text + " " + map.columns[c], line_most));
    svg += svgText(x + widths[c] / 2, top - 10, "head", "middle", number_text);
    x += widths[c];
  }
  for (size_t r = 0; r < map.rows.size(); ++r) {
    const double y = top + double(r) * kCellHeight;
    svg += svgText(kMargin, y + 27, "head", "", shortened(map.rows[r], static_cast<size_t>(head_width / kCharacter)));
    x = kMargin + head_width;
    for (size_t c = 0; c < map.columns.size(); ++c) {
      const HeatCell &cell = map.cells[r][c];
      const char *name = levelName(cell.level);
      const auto most = static_cast<size_t>((widths[c] - 8) / kCharacter);
      svg += "  <g><title>" +
             escaped(map.rows[r] + ", " + map.columns[c] + ": " +
                     (cell.detail.empty() ? std::string(name) : cell.detail)) +
             "</title>\n";
      svg += std::string("  <rect class=\"") + name + "\" x=\"" + number(x + 1) + "\" y=\"" + number(y + 1) +
             "\" width=\"" + number(widths[c] - 2) + "\" height=\"" + number(kCellHeight - 2) + "\" rx=\"3\"/>\n";
      svg += svgText(x + widths[c] / 2, y + 19, name, "middle", shortened(cell.label, most));
      svg += svgText(x + widths[c] / 2, y + 35, (std::string("small ") + name).c_str(), "middle", name);
      svg += "  </g>\n";
      x += widths[c];
    }
  }
  x = kMargin;
  const double y = top + double(map.rows.size()) * kCellHeight + 16;
  for (const Level level : kLevels) {
    svg += std::string("  <rect class=\"") + levelName(level) + "\" x=\"" + number(x) + "\" y=\"" + number(y) +
           "\" width=\"16\" height=\"16\" rx=\"3\"/>\n";
    svg += svgText(x + 22, y + 13, "", "", levelName(level));
    x += double(characters(levelName(level))) * kCharacter + 34;
  }
  return svg + "</g>\n</svg>\n";
}

std::string toHtml(const HeatMap &map) {
  const Colours page = pageColours(false);
  std::string html = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                     "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                     "<meta name=\"color-scheme\" content=\"light dark\">\n<title>" +
                     escaped(map.title) + "</title>\n<style>\n";
  html += std::string("  body { font: 15px/1.4 system-ui, sans-serif; margin: 1.5rem; background: ") + page.fill +
          "; color: " + page.ink + "; }\n";
  html += "  .scroll { overflow-x: auto; }\n"
          "  table { border-collapse: separate; border-spacing: 2px; }\n"
          "  caption { text-align: left; font-weight: 600; padding-bottom: .5rem; }\n"
          "  th { text-align: left; vertical-align: bottom; padding: .3rem .6rem; font-weight: 600; }\n"
          "  thead th { max-width: 16rem; overflow-wrap: anywhere; font-family: ui-monospace, monospace;\n"
          "    font-weight: 400; font-size: .85em; }\n"
          "  td { padding: .3rem .6rem; border-radius: 3px; min-width: 7rem; text-align: center; }\n"
          "  td small { display: block; }\n"
          "  details { text-align: left; font-size: .85em; }\n"
          "  ul.legend { list-style: none; padding: 0; display: flex; flex-wrap: wrap; gap: .5rem; }\n"
          "  ul.legend li { padding: .1rem .6rem; border-radius: 3px; }\n";
  html += style("", "background", "color");
  html += "</style>\n</head>\n<body>\n<h1>" + escaped(map.title) + "</h1>\n<p>" + summaryOf(map) + ".</p>\n";
  html += "<div class=\"scroll\">\n<table>\n<caption>Each row is a display, each column a launch fragment.</caption>\n"
          "<thead>\n<tr><td></td>";
  for (const std::string &column : map.columns) html += "<th scope=\"col\">" + escaped(column) + "</th>";
  html += "</tr>\n</thead>\n<tbody>\n";
  for (size_t r = 0; r < map.rows.size(); ++r) {
    html += "<tr><th scope=\"row\">" + escaped(map.rows[r]) + "</th>\n";
    for (const HeatCell &cell : map.cells[r]) {
      html += std::string("  <td class=\"") + levelName(cell.level) + "\">" + escaped(cell.label) + "<small>" +
              levelName(cell.level) + "</small>";
      if (!cell.detail.empty()) html += "<details><summary>why</summary>" + escaped(cell.detail) + "</details>";
      html += "</td>\n";
    }
    html += "</tr>\n";
  }
  html += "</tbody>\n</table>\n</div>\n<p id=\"legend\">Layouts, best first:</p>\n"
          "<ul class=\"legend\" aria-labelledby=\"legend\">\n";
  for (const Level level : kLevels)
    html += std::string("  <li class=\"") + levelName(level) + "\">" + levelName(level) + "</li>\n";
  return html + "</ul>\n</body>\n</html>\n";
}

} // namespace gstzc::inspect
