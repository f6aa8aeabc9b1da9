// SPDX-License-Identifier: LGPL-2.1-or-later
#include "ext/cuda/sync/pinned_words.h"

#include <bitset>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "ext/cuda/sync/kept_for_good.h"

namespace gstzc::cuda {
namespace {

constexpr size_t kStride = 64; // bytes: a cache line, so that a device that looks at one is not disturbed by another
constexpr size_t kWords = 64;

} // namespace

class WordPage {
public:
  WordPage(PinnedMemory memory, CUdeviceptr device) : memory_(std::move(memory)), device_(device) {}

  std::optional<size_t> take() {
    const std::lock_guard lock(mutex_);
    for (size_t i = 0; i < kWords; ++i)
      if (!taken_[i]) {
        taken_[i] = true;
        return i;
      }
    return std::nullopt;
  }
  void giveBack(const uint32_t *word) {
    const std::lock_guard lock(mutex_);
    taken_[index(word)] = false;
  }
  uint32_t *host(size_t i) const { return reinterpret_cast<uint32_t *>(base() + i * kStride); }
  CUdeviceptr device(const uint32_t *word) const { return device_ + index(word) * kStride; }

private:
  char *base() const { return static_cast<char *>(memory_.get()); }
  size_t index(const uint32_t *word) const {
    return static_cast<size_t>(reinterpret_cast<const char *>(word) - base()) / kStride;
  }

  const PinnedMemory memory_;
  const CUdeviceptr device_;
  std::mutex mutex_;
  std::bitset<kWords> taken_;
};

namespace {

struct Pages {
  std::mutex mutex;
  std::map<CUcontext, std::weak_ptr<WordPage>> latest;
};

Pages &pages() {
  static Pages *pages = new Pages; // elements may be destroyed while the process exits
  return *pages;
}

Result<std::shared_ptr<WordPage>> newPage(const ContextPtr &context) {
  auto memory = allocPinned(context, kWords * kStride);
  if (!memory) return memory.error();
  ContextScope scope(*context);
  if (auto current = scope.status(); !current) return current.error();
  CUdeviceptr device = 0;
  const CUresult result = context->driver.cuMemHostGetDevicePointer(&device, memory->get(), 0);
  if (auto status = context->driver.check(result, "cuMemHostGetDevicePointer of a page of words"); !status)
    return status.error();
  return std::make_shared<WordPage>(memory.take(), device);
}

} // namespace

Result<PinnedWord> PinnedWord::take(const ContextPtr &context, uint32_t value) {
  const std::lock_guard lock(pages().mutex);
  std::erase_if(pages().latest, [](const auto &entry) { return entry.second.expired(); });
  auto page = pages().latest[context->handle].lock();
  std::optional<size_t> free = page ? page->take() : std::nullopt;
  if (!free) {
    auto made = newPage(context);
    if (!made) return made.error();
    page = made.take();
    pages().latest[context->handle] = page;
    free = page->take();
  }
  PinnedWord word;
  word.host_ = page->host(*free);
  word.page_ = std::move(page);
  word.store(value);
  return word;
}

PinnedWord::PinnedWord(PinnedWord &&other) noexcept
    : page_(std::move(other.page_)), host_(std::exchange(other.host_, nullptr)) {}

PinnedWord &PinnedWord::operator=(PinnedWord &&other) noexcept {
  std::swap(page_, other.page_);
  std::swap(host_, other.host_);
  return *this;
}

PinnedWord::~PinnedWord() {
  if (page_) page_->giveBack(host_);
}

CUdeviceptr PinnedWord::address() const { return page_->device(host_); }

void PinnedWord::abandon() {
  if (page_) KeptForGood::add(std::move(page_));
}

} // namespace gstzc::cuda
