// SPDX-License-Identifier: LGPL-2.1-or-later
// What it costs that a frame is imported already, against the least that anybody can do who goes by a buffer's
// identity: fstat() and a look-up in a hash table. By turns in one run, over pools of eight buffers. What a hit returns
// has no part in it, so the route makes imports of nothing and no driver is needed.
#include <memory>
#include <unordered_map>
#include <vector>

#include <drm_fourcc.h>
#include <gst/gst.h>
#include <sys/stat.h>

#include "ext/cuda/routes/import_cache.h"
#include "gst/zerocopy/memory_tracking.h"
#include "tests/bench/measure.h"
#include "tests/support/dmabuf_memory.h"

namespace gstzc::bench {
namespace {

constexpr size_t kBuffers = 8, kBlocks = 400, kFramesPerBlock = 2000;

class NoRoute : public cuda::ImportRoute {
public:
  const char *name() const override { return "none"; }
  Status available() override { return Nothing{}; }
  Result<std::shared_ptr<cuda::DeviceImport>> import(const cuda::ImportSource &source) override {
    auto import = std::make_shared<cuda::DeviceImport>();
    import->size = source.size;
    return import;
  }
};

std::vector<std::unique_ptr<cuda::ImportRoute>> noRoute() {
  std::vector<std::unique_ptr<cuda::ImportRoute>> routes;
  routes.push_back(std::make_unique<NoRoute>());
  return routes;
}

// A pool of NV12 frames, and both ways to find what was made of them.
class Pool {
public:
  Pool(uint32_t width, uint32_t height) : imports_(noRoute(), {}) {
    const test::Wrapper wrapper;
    for (size_t i = 0; i < kBuffers; ++i) {
      cuda::ImportSource &source = sources_.emplace_back();
      source.size = uint64_t{width} * height * 3 / 2;
      files_.push_back(test::memfd(source.size));
      memories_.push_back(wrapper.wrap(files_.back().get(), source.size));
      source.fd = files_.back().get();
      source.fourcc = DRM_FORMAT_NV12;
      source.width = width;
      source.height = height;
      source.n_planes = 2;
      source.planes[0] = {0, width, height, width};
      source.planes[1] = {uint64_t{width} * height, width, height / 2, width};
      struct stat st = {};
      fstat(source.fd, &st);
      bare_[st.st_ino] = &source;
    }
    cached(); // what is measured are hits
  }
  ~Pool() {
    for (GstMemory *memory : memories_) gst_memory_unref(memory);
  }
  Pool(const Pool &) = delete;
  Pool &operator=(const Pool &) = delete;

  // ns a frame, as an element does it
  double cached() {
    const auto check = [](const cuda::ImportSource &, cuda::DeviceImport &) -> Result<cuda::ContentCheck> {
      return cuda::ContentCheck{cuda::ContentVerdict::Same, 0, 0, ""};
    };
    const cuda::RouteChoice::Check checking = check;
    const uint64_t from = clockNs();
    for (size_t i = 0; i < kFramesPerBlock; ++i) {
      cuda::ImportSource &source = sources_[i % kBuffers];
      auto id = trackMemory(memories_[i % kBuffers]);
      if (!id) std::abort();
      source.id = *id;
      auto import = imports_.get(source, checking);
      if (!import || (*import)->size != source.size) std::abort();
    }
    return static_cast<double>(clockNs() - from) / kFramesPerBlock;
  }

  double bare() {
    const uint64_t from = clockNs();
    for (size_t i = 0; i < kFramesPerBlock; ++i) {
      struct stat st = {};
      if (fstat(files_[i % kBuffers].get(), &st) != 0) std::abort();
      if (bare_.find(st.st_ino)->second != &sources_[i % kBuffers]) std::abort();
    }
    return static_cast<double>(clockNs() - from) / kFramesPerBlock;
  }

  uint64_t imports() const { return imports_.counters().imports; }

private:
  std::vector<UniqueFd> files_;
  std::vector<GstMemory *> memories_;
  std::vector<cuda::ImportSource> sources_ = [] {
    std::vector<cuda::ImportSource> sources;
    sources.reserve(kBuffers);
    return sources;
  }();
  std::unordered_map<uint64_t, const cuda::ImportSource *> bare_;
  cuda::CachedImports imports_;
};

struct Samples {
  std::vector<double> cached, bare;
};

// Of the ratios within tenths of the run: the middle half.
double spread(const std::vector<double> &a, const std::vector<double> &b) {
  std::vector<double> ratios;
  const size_t part = a.size() / 10;
  for (size_t i = 0; i + part <= a.size(); i += part) {
    const auto from = static_cast<ptrdiff_t>(i), to = static_cast<ptrdiff_t>(i + part);
    ratios.push_back(median({a.begin() + from, a.begin() + to}) / median({b.begin() + from, b.begin() + to}));
  }
  return quantile(ratios, 0.75) - quantile(ratios, 0.25);
}

bool measureImports() {
  Pool small(640, 480), large(3840, 2160);
  Samples s, l;
  const auto measure = [](Pool &pool, Samples &samples, bool cached_first) {
    if (cached_first) samples.cached.push_back(pool.cached());
    samples.bare.push_back(pool.bare());
    if (!cached_first) samples.cached.push_back(pool.cached());
  };
  for (size_t i = 0; i < kBlocks; ++i) {
    const bool small_first = i / 2 % 2 == 0;
    measure(small_first ? small : large, small_first ? s : l, i % 2 == 0);
    measure(small_first ? large : small, small_first ? l : s, i % 2 == 0);
  }

  const auto compare = [](const char *name, const std::vector<double> &a, const std::vector<double> &b,
                          const char *against, double limit) {
    report({name, median(a), "ns", median(a) / median(b), against, spread(a, b), limit});
  };
  constexpr const char *kBare = "bare fstat() and a look-up in a hash table";
  compare("cached import, 640x480", s.cached, s.bare, kBare, 3.0);
  compare("cached import, 3840x2160", l.cached, l.bare, kBare, 3.0);
  compare("3840x2160 against 640x480", l.cached, s.cached, "the cached import of the small frame", 1.5);
  if (small.imports() == kBuffers && large.imports() == kBuffers) return true;
  std::fprintf(stderr, "%llu and %llu imports of pools of %zu\n", static_cast<unsigned long long>(small.imports()),
               static_cast<unsigned long long>(large.imports()), kBuffers);
  return false;
}

} // namespace
} // namespace gstzc::bench

int main(int argc, char **argv) {
  gst_init(&argc, &argv);
  return gstzc::bench::measureImports() ? 0 : 1;
}
