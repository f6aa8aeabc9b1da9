// SPDX-License-Identifier: LGPL-2.1-or-later
#include "ext/cuda/routes/content_check.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <thread>
#include <vector>

#include "ext/cuda/sync/wait_points.h"
#include "gst/zerocopy/core/mapping.h"

namespace gstzc::cuda {
namespace {

// What is known of the pixels in one page of the dma-buf.
struct Page {
  uint64_t hash = 0;
  uint8_t first = 0;
  bool seen = false;
  bool uniform = true;
  bool repeats = true; // what lies a multiple of kTellingOffset earlier
  bool tells() const { return seen && !uniform && !repeats; }
};

class Telling {
public:
  Telling(const uint8_t *host, uint64_t size) : host_(host), pages_((size + kContentPage - 1) / kContentPage) {}

  void add(uint64_t offset, uint64_t bytes) {
    for (const uint64_t end = offset + bytes; offset < end;) {
      const uint64_t until = std::min(end, (offset / kContentPage + 1) * kContentPage);
      if (offset >= kTellingOffset) addToPage(pages_[offset / kContentPage], offset, until - offset);
      offset = until;
    }
  }

  // Two pages that tell, and differ.
  bool enough() const {
    std::optional<uint64_t> one;
    for (const Page &page : pages_) {
      if (!page.tells()) continue;
      if (one && *one != page.hash) return true;
      one = page.hash;
    }
    return false;
  }

private:
  void addToPage(Page &page, uint64_t offset, uint64_t bytes) const {
    const uint8_t *const data = host_ + offset;
    if (!page.seen) page.first = data[0];
    page.seen = true;
    if (page.uniform)
      page.uniform = std::all_of(data, data + bytes, [&](uint8_t value) { return value == page.first; });
    // never reaches over kTellingOffset, which is whole pages
    if (page.repeats) page.repeats = std::memcmp(data, host_ + offset % kTellingOffset, bytes) == 0;
    for (uint64_t i = 0; i < bytes; ++i) page.hash = (page.hash ^ data[i]) * 0x100000001b3; // FNV-1a
  }

  const uint8_t *const host_;
  std::vector<Page> pages_;
};

uint64_t packedBytes(const ImportSource &source) {
  uint64_t bytes = 0;
  for (unsigned p = 0; p < source.n_planes; ++p) bytes += uint64_t{source.planes[p].rows} * source.planes[p].row_bytes;
  return bytes;
}

Status sameShape(const ImportSource &source, const DeviceImport &import) {
  for (unsigned p = 0; p < source.n_planes; ++p) {
    const ImportPlane &from = source.planes[p], &to = import.planes[p];
    const uint64_t bytes = to.rows == 0 ? 0 : uint64_t{to.rows - 1} * to.pitch + to.row_bytes;
    if (p < import.n_planes && to.rows == from.rows && to.row_bytes == from.row_bytes &&
        (to.rows < 2 || to.pitch >= to.row_bytes) && to.offset <= import.size && bytes <= import.size - to.offset)
      continue;
    return Error{"plane " + std::to_string(p) + " of " + describe(source) + " has another shape on the device", EINVAL,
                 ""};
  }
  return Nothing{};
}

// All that the device might still write to.
struct ReadBack {
  Stream stream;
  PinnedMemory packed;
};

Status enqueue(const CudaContext &context, const ImportSource &source, DeviceImport &import, ReadBack &back) {
  const ContextScope scope(context);
  if (auto current = scope.status(); !current) return current;
  if (waitPoint("content-refresh"))
    if (auto fresh = import.refresh(back.stream.get()); !fresh) return fresh;
  auto *to = static_cast<uint8_t *>(back.packed.get());
  for (unsigned p = 0; p < source.n_planes; ++p) {
    const ImportPlane &plane = import.planes[p];
    CUDA_MEMCPY2D copy = {};
    copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = import.pointer + plane.offset;
    copy.srcPitch = std::max(plane.pitch, plane.row_bytes);
    copy.dstMemoryType = CU_MEMORYTYPE_HOST;
    copy.dstHost = to;
    copy.dstPitch = copy.WidthInBytes = plane.row_bytes;
    copy.Height = plane.rows;
    const auto done = context.driver.check(context.driver.cuMemcpy2DAsync(&copy, back.stream.get()),
                                           "cuMemcpy2DAsync of plane " + std::to_string(p) + " to the host");
    if (!done) return done;
    to += uint64_t{plane.rows} * plane.row_bytes;
  }
  return Nothing{};
}

// False: it takes longer. An error once may be of another call; the device may still be writing until it says
// otherwise, or says it twice: then it is lost.
Result<bool> finish(const CudaContext &context, CUstream stream, std::chrono::milliseconds patience) {
  const auto query = [&] {
    const ContextScope scope(context);
    if (auto current = scope.status(); !current) return current;
    const CUresult result = context.driver.cuStreamQuery(stream);
    if (result == CUDA_ERROR_NOT_READY) return Status(Error{"", EAGAIN, ""});
    return context.driver.check(result, "reading an import back");
  };
  const auto end = std::chrono::steady_clock::now() + patience;
  auto pause = std::chrono::microseconds(20);
  std::optional<Error> said;
  for (;;) {
    const Status status = query();
    if (status) break;
    const bool pending = status.error().code == EAGAIN;
    if (!pending && said) break;
    if (!pending) said = status.error();
    if (pending && std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::microseconds(1000));
  }
  if (said) return *said;
  return true;
}

ContentCheck undecided(uint64_t compared, std::string reason) {
  return {ContentVerdict::Undecided, 0, compared, std::move(reason)};
}

} // namespace

bool canTell(const ImportSource &source) {
  if (source.modifier != 0) return false;
  for (unsigned p = 0; p < source.n_planes; ++p) {
    const ImportPlane &plane = source.planes[p];
    if (plane.rows == 0) continue;
    if (plane.offset + uint64_t{plane.rows - 1} * plane.pitch + plane.row_bytes > kTellingOffset + kContentPage)
      return true;
  }
  return false;
}

ContentCheck compareContent(const uint8_t *host, const uint8_t *device, const ImportSource &source) {
  ContentCheck check;
  Telling telling(host, source.size);
  for (unsigned p = 0; p < source.n_planes; ++p) {
    const ImportPlane &plane = source.planes[p];
    for (uint32_t row = 0; row < plane.rows; ++row, device += plane.row_bytes) {
      const uint64_t offset = plane.offset + uint64_t{row} * plane.pitch;
      if (std::memcmp(host + offset, device, plane.row_bytes) != 0) {
        const auto at = std::mismatch(device, device + plane.row_bytes, host + offset).first - device;
        check.verdict = ContentVerdict::Different;
        check.first_difference = offset + static_cast<uint64_t>(at);
        check.compared += static_cast<uint64_t>(at);
        return check;
      }
      telling.add(offset, plane.row_bytes);
      check.compared += plane.row_bytes;
    }
  }
  if (telling.enough())
    check.verdict = ContentVerdict::Same;
  else
    check.reason = canTell(source) ? "its pixels past the first 2 MiB do not differ enough to tell"
                                   : "the frame ends within the first 2 MiB, where wrong imports may be right, too";
  return check;
}

Result<ContentCheck> checkContent(const CudaContext &context, const ImportSource &source, DeviceImport &import,
                                  std::chrono::milliseconds patience) {
  if (source.modifier != 0) return undecided(0, "the CPU does not know the layout of " + describe(source));
  if (auto valid = checkSource(source); !valid) return valid.error();
  if (auto same = sameShape(source, import); !same) return same.error();
  auto host = CpuMapping::create(source.fd, source.size);
  if (!host) return undecided(0, "the CPU cannot read it: " + host.error().message());

  // borrowed: the caller keeps the context for as long as this lasts, and what is left behind is never freed
  const ContextPtr borrowed(std::shared_ptr<void>(), &context);
  auto back = std::make_unique<ReadBack>();
  auto stream = newStream(borrowed);
  if (!stream) return stream.error();
  back->stream = stream.take();
  auto packed = allocPinned(borrowed, packedBytes(source));
  if (!packed) return packed.error();
  back->packed = packed.take();

  const Status enqueued = enqueue(context, source, import, *back);
  // also where only a part is on its way
  const auto finished = waitPoint("content-read") ? finish(context, back->stream.get(), patience) : Result<bool>(true);
  if (finished && !*finished) {
    [[maybe_unused]] auto *const left_behind = back.release();
    return Error{"reading " + describe(source) + " back through the device", ETIMEDOUT,
                 "The device does not end its work"};
  }
  if (!enqueued) return enqueued.error();
  if (!finished) return finished.error();

  const DmaBufCpuScope scope(source.fd, Access::Read);
  if (!scope.ok()) {
    const Error error{"begin the CPU's access to it", scope.error(), ""};
    return undecided(0, "the CPU cannot read it: " + error.message());
  }
  return compareContent((*host)->data(), static_cast<const uint8_t *>(back->packed.get()), source);
}

} // namespace gstzc::cuda
