// SPDX-License-Identifier: LGPL-2.1-or-later
// A table of outcomes as a picture: self-contained, in light and dark, with the outcome written in each cell.
#pragma once

#include <string>
#include <vector>

namespace gstzc::inspect {

// From best to worst. Untried: it failed before it came to the display.
enum class Level { Compressed, Tiled, Linear, Implicit, Impossible, Untried };
const char *levelName(Level level); // "compressed"
inline bool possible(Level level) { return level < Level::Impossible; }

struct HeatCell {
  Level level = Level::Untried;
  std::string label;  // "NV12", short
  std::string detail; // a sentence
};

struct HeatMap {
  std::string title;
  std::vector<std::string> columns;         // what was tried
  std::vector<std::string> rows;            // with what
  std::vector<std::vector<HeatCell>> cells; // [row][column]
};

struct Colours {
  const char *fill, *ink; // "#rrggbb"
};
// Of a cell. Contrast of ink on fill: at least 4.5 (WCAG 2.1, AA).
Colours coloursOf(Level level, bool dark);
// Of the page: background and text.
Colours pageColours(bool dark);

// Complete documents.
std::string toSvg(const HeatMap &map);
std::string toHtml(const HeatMap &map);

} // namespace gstzc::inspect
