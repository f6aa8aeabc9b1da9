// SPDX-License-Identifier: LGPL-2.1-or-later
// Imports that succeed and show other memory past the first 2 MiB, as some drivers' do. Mesa's software drivers are
// right, so what they are given behind the route's back is another dma-buf: its first part is the frame's, the rest is
// somebody else's.
#pragma once

#include <cerrno>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <linux/udmabuf.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ext/cuda/routes/content_check.h"
#include "ext/cuda/routes/route_choice.h"
#include "gst/zerocopy/core/result.h"
#include "gst/zerocopy/core/unique_fd.h"
#include "tests/lab/cuda/pattern.h"

namespace gstzc::lab {

struct TwoViews {
  UniqueFd right; // a udmabuf
  UniqueFd wrong; // the same pages up to kTellingOffset, others from there on
};

inline Result<TwoViews> allocateTwoViews(size_t size) {
  const auto failed = [](const char *what) { return Error{what, errno, ""}; };
  const auto pages = [&](size_t bytes) {
    UniqueFd fd(memfd_create("frame", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0 || fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK) != 0)
      return UniqueFd();
    return fd;
  };
  const UniqueFd device(open("/dev/udmabuf", O_RDWR | O_CLOEXEC));
  if (!device.isValid()) return failed("open /dev/udmabuf");
  const UniqueFd frame = pages(size), others = pages(size - cuda::kTellingOffset);
  if (!frame.isValid() || !others.isValid()) return failed("a memfd");
  TwoViews views;
  udmabuf_create whole = {};
  whole.memfd = static_cast<uint32_t>(frame.get());
  whole.flags = UDMABUF_FLAGS_CLOEXEC;
  whole.size = size;
  views.right = UniqueFd(ioctl(device.get(), UDMABUF_CREATE, &whole));
  if (!views.right.isValid()) return failed("UDMABUF_CREATE");
  std::vector<char> memory(sizeof(udmabuf_create_list) + 2 * sizeof(udmabuf_create_item));
  auto *list = reinterpret_cast<udmabuf_create_list *>(memory.data());
  list->flags = UDMABUF_FLAGS_CLOEXEC;
  list->count = 2;
  list->list[0] = {static_cast<uint32_t>(frame.get()), 0, 0, cuda::kTellingOffset};
  list->list[1] = {static_cast<uint32_t>(others.get()), 0, 0, size - cuda::kTellingOffset};
  views.wrong = UniqueFd(ioctl(device.get(), UDMABUF_CREATE_LIST, list));
  if (!views.wrong.isValid()) return failed("UDMABUF_CREATE_LIST");
  if (!write(views.wrong.get(), pattern(size, 99))) return failed("write what is not the frame");
  return views;
}

// A route whose imports a test makes, of whatever descriptor.
class RouteOfATest : public cuda::ImportRoute {
public:
  using Import = std::function<Result<std::shared_ptr<cuda::DeviceImport>>(const cuda::ImportSource &)>;
  // `behind`: imported in place of the frame's descriptor; -1: that itself.
  RouteOfATest(std::string name, int behind, Import import)
      : name_(std::move(name)), behind_(behind), import_(std::move(import)) {}
  const char *name() const override { return name_.c_str(); }
  Status available() override { return Nothing{}; }
  Result<std::shared_ptr<cuda::DeviceImport>> import(const cuda::ImportSource &source) override {
    cuda::ImportSource shown = source;
    if (behind_ >= 0) shown.fd = behind_;
    return import_(shown);
  }

private:
  const std::string name_;
  const int behind_;
  const Import import_;
};

// One whose import is wrong, and the next, of the same driver, whose is right: which is taken, and what is said of the
// other. `read`: the pixels that an import shows.
inline void expectTheNextRouteIsTaken(const TwoViews &views, const cuda::ImportSource &source,
                                      const RouteOfATest::Import &import,
                                      const std::function<std::vector<uint8_t>(cuda::DeviceImport &)> &read) {
  std::vector<std::unique_ptr<cuda::ImportRoute>> routes;
  routes.push_back(std::make_unique<RouteOfATest>("wrong", views.wrong.get(), import));
  routes.push_back(std::make_unique<RouteOfATest>("right", -1, import));
  cuda::RouteChoice choice(std::move(routes), {});
  std::vector<cuda::ContentCheck> checks;
  const auto check = [&](const cuda::ImportSource &of, cuda::DeviceImport &made) -> Result<cuda::ContentCheck> {
    const std::vector<uint8_t> pixels = read(made);
    auto host = Mapping::create(of.fd, of.size);
    if (!host) return host.error();
    if (pixels.size() != of.size) return Error{std::to_string(pixels.size()) + " bytes were read back", EIO, ""};
    const DmaBufCpuScope scope(of.fd, Access::Read);
    checks.push_back(cuda::compareContent(host->data(), pixels.data(), of));
    return checks.back();
  };
  const auto taken = choice.import(source, check);
  ASSERT_TRUE(taken.ok()) << taken.error().message();
  ASSERT_NE(choice.chosen(), nullptr);
  EXPECT_STREQ(choice.chosen()->name(), "right");
  EXPECT_TRUE(choice.trusted());
  EXPECT_EQ(choice.reports()[0].stage, cuda::RouteStage::WrongContent) << choice.reports()[0].reason;
  ASSERT_EQ(checks.size(), 2u);
  EXPECT_EQ(checks[0].verdict, cuda::ContentVerdict::Different);
  EXPECT_EQ(checks[0].first_difference, cuda::kTellingOffset);
  EXPECT_EQ(checks[1].verdict, cuda::ContentVerdict::Same) << checks[1].reason;
}

} // namespace gstzc::lab
