// SPDX-License-Identifier: LGPL-2.1-or-later
// Routes that do as a test says, without a device.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ext/cuda/routes/route_choice.h"
#include "gst/zerocopy/core/mapping.h"

namespace gstzc::cuda::test {

// "Device memory" is a CPU mapping of the buffer.
class FakeImport : public DeviceImport {
public:
  static inline int alive = 0;
  FakeImport(std::string by, std::shared_ptr<CpuMapping> mapping) : route(std::move(by)), mapping_(std::move(mapping)) {
    ++alive;
    if (mapping_) pointer = reinterpret_cast<CUdeviceptr>(mapping_->data());
  }
  ~FakeImport() override { --alive; }
  const uint8_t *bytes() const { return mapping_->data(); }
  const std::string route;

private:
  const std::shared_ptr<CpuMapping> mapping_;
};

struct FakeBehaviour {
  std::string name;
  bool copies = false, on_device = true;
  bool available = true;
  bool refuses = false;                                     // each buffer
  ContentVerdict content = ContentVerdict::Same;            // what check() says of its imports
  ContentVerdict after_retreat = ContentVerdict::Different; // its other way, if that is better
  bool unreadable = false;                                  // the device fails in check()
  uint32_t pitch = 0;                                       // as the device sees the planes; 0: as they are
  int asked = 0, tried = 0, imports = 0, checks = 0;        // so far
};

class FakeRoute : public ImportRoute {
public:
  explicit FakeRoute(FakeBehaviour &behaviour) : b_(behaviour) {}
  const char *name() const override { return b_.name.c_str(); }
  bool copies() const override { return b_.copies; }
  bool onDevice() const override { return b_.on_device; }
  Status available() override {
    ++b_.asked;
    if (b_.available) return Nothing{};
    return Error{b_.name + " is missing", 0, "Install it"};
  }
  Result<std::shared_ptr<DeviceImport>> import(const ImportSource &source) override {
    ++b_.tried;
    if (b_.refuses) return Error{b_.name + " refuses", 22, ""};
    ++b_.imports;
    std::shared_ptr<CpuMapping> mapping;
    if (source.fd >= 0) {
      auto made = CpuMapping::create(source.fd, source.size);
      if (!made) return made.error();
      mapping = made.take();
    }
    auto import = std::make_shared<FakeImport>(b_.name, std::move(mapping));
    import->size = source.size;
    import->n_planes = source.n_planes;
    import->planes = source.planes;
    if (b_.pitch != 0)
      for (unsigned p = 0; p < source.n_planes; ++p) import->planes[p].pitch = b_.pitch;
    return std::shared_ptr<DeviceImport>(std::move(import));
  }

  bool retreat() override {
    if (b_.after_retreat == ContentVerdict::Different) return false;
    b_.content = std::exchange(b_.after_retreat, ContentVerdict::Different);
    return true;
  }

private:
  FakeBehaviour &b_;
};

// The routes of a test, and the check that knows what they pretend.
struct Fakes {
  std::vector<std::unique_ptr<FakeBehaviour>> all;

  FakeBehaviour &add(FakeBehaviour behaviour) {
    all.push_back(std::make_unique<FakeBehaviour>(std::move(behaviour)));
    return *all.back();
  }
  FakeBehaviour &operator[](const std::string &name) {
    for (auto &b : all)
      if (b->name == name) return *b;
    std::abort();
  }
  std::vector<std::unique_ptr<ImportRoute>> routes() {
    std::vector<std::unique_ptr<ImportRoute>> result;
    for (auto &b : all) result.push_back(std::make_unique<FakeRoute>(*b));
    return result;
  }
  RouteChoice::Check check() {
    return [this](const ImportSource &, DeviceImport &import) -> Result<ContentCheck> {
      FakeBehaviour &b = (*this)[dynamic_cast<FakeImport &>(import).route];
      ++b.checks;
      if (b.unreadable) return Error{"the device is lost", 5, ""};
      ContentCheck check;
      check.verdict = b.content;
      if (b.content == ContentVerdict::Different) check.first_difference = kTellingOffset;
      if (b.content == ContentVerdict::Undecided) check.reason = "all black";
      return check;
    };
  }
};

} // namespace gstzc::cuda::test
