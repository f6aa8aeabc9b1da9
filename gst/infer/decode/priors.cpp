// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/decode/priors.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

namespace gstzc::infer {
namespace {

struct Size {
  float width = 0, height = 0;
};

// Boxes of these sizes at the centre of each cell of a grid. `step`: between two centres, as a part of the input.
void addGrid(int columns, int rows, float step_x, float step_y, std::span<const Size> sizes,
             std::vector<Prior> &priors) {
  for (int row = 0; row < rows; ++row)
    for (int column = 0; column < columns; ++column)
      for (const Size &size : sizes)
        priors.push_back({(static_cast<float>(column) + 0.5f) * step_x, (static_cast<float>(row) + 0.5f) * step_y,
                          size.width, size.height});
}

// A layer of Caffe's PriorBox with flip: pixels of a square input.
struct PriorBoxLayer {
  int cells;
  float step;
  float min_size, max_size; // no square between the two where max_size is 0
  int ratios;               // of 2 and 3, each also upright
};

std::vector<Prior> priorBoxes(std::span<const PriorBoxLayer> layers, float side) {
  std::vector<Prior> priors;
  for (const PriorBoxLayer &layer : layers) {
    const float size = layer.min_size / side;
    std::vector<Size> sizes = {{size, size}};
    if (layer.max_size > 0) {
      const float between = std::sqrt(layer.min_size * layer.max_size) / side;
      sizes.push_back({between, between});
    }
    for (int i = 0; i < layer.ratios; ++i) {
      const float root = std::sqrt(static_cast<float>(2 + i));
      sizes.push_back({size * root, size / root});
      sizes.push_back({size / root, size * root});
    }
    addGrid(layer.cells, layer.cells, layer.step / side, layer.step / side, sizes, priors);
  }
  return priors;
}

bool is300(const InputPlan &input) { return input.width == 300 && input.height == 300; }

int cellsOf(int side, int stride) { return (side + stride - 1) / stride; }

} // namespace

std::vector<Prior> mobileNetPriors(const InputPlan &input) {
  if (!is300(input)) return {};
  constexpr float side = 300;
  constexpr std::array<PriorBoxLayer, 6> layers = {{{19, side / 19, 60, 0, 1},
                                                    {10, side / 10, 105, 150, 2},
                                                    {5, side / 5, 150, 195, 2},
                                                    {3, side / 3, 195, 240, 2},
                                                    {2, side / 2, 240, 285, 2},
                                                    {1, side / 1, 285, 300, 2}}};
  return priorBoxes(layers, side);
}

std::vector<Prior> vggPriors(const InputPlan &input) {
  if (!is300(input)) return {};
  constexpr std::array<PriorBoxLayer, 6> layers = {{{38, 8, 30, 60, 1},
                                                    {19, 16, 60, 111, 2},
                                                    {10, 32, 111, 162, 2},
                                                    {5, 64, 162, 213, 2},
                                                    {3, 100, 213, 264, 1},
                                                    {1, 300, 264, 315, 1}}};
  return priorBoxes(layers, 300);
}

std::vector<Prior> tensorFlowPriors(const InputPlan &input) {
  if (input.width != input.height || input.width < 1) return {};
  constexpr int layers = 6, first_stride = 16;
  constexpr float smallest = 0.2f, largest = 0.95f;
  const auto scale = [](int layer) {
    return layer == layers ? 1.0f : smallest + (largest - smallest) * static_cast<float>(layer) / (layers - 1);
  };
  const auto box = [](float size, float ratio) { return Size{size * std::sqrt(ratio), size / std::sqrt(ratio)}; };
  std::vector<Prior> priors;
  for (int layer = 0; layer < layers; ++layer) {
    const float size = scale(layer);
    std::vector<Size> sizes;
    if (layer == 0) {
      sizes = {box(0.1f, 1), box(size, 2), box(size, 0.5f)};
    } else {
      for (const float ratio : {1.0f, 2.0f, 0.5f, 3.0f, 0.3333f}) sizes.push_back(box(size, ratio));
      sizes.push_back(box(std::sqrt(size * scale(layer + 1)), 1));
    }
    const int cells = cellsOf(input.width, first_stride << layer);
    const float step = 1.0f / static_cast<float>(cells);
    addGrid(cells, cells, step, step, sizes, priors);
  }
  return priors;
}

std::vector<Prior> ultraFacePriors(const InputPlan &input) {
  if (input.width < 1 || input.height < 1) return {};
  struct Layer {
    int stride;
    std::vector<float> sizes; // pixels
  };
  const std::array<Layer, 4> layers = {{{8, {10, 16, 24}}, {16, {32, 48}}, {32, {64, 96}}, {64, {128, 192, 256}}}};
  const auto width = static_cast<float>(input.width), height = static_cast<float>(input.height);
  std::vector<Prior> priors;
  for (const Layer &layer : layers) {
    std::vector<Size> sizes;
    for (const float size : layer.sizes) sizes.push_back({size / width, size / height});
    const auto stride = static_cast<float>(layer.stride);
    addGrid(cellsOf(input.width, layer.stride), cellsOf(input.height, layer.stride), stride / width, stride / height,
            sizes, priors);
  }
  for (Prior &prior : priors)
    for (float *value : {&prior.cx, &prior.cy, &prior.width, &prior.height}) *value = std::clamp(*value, 0.0f, 1.0f);
  return priors;
}

} // namespace gstzc::infer
