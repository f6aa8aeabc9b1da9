// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/framebuffer.h"

#include <algorithm>
#include <cerrno>

#include <drm_fourcc.h>
#include <sys/mman.h>

namespace gstzc {

Result<std::shared_ptr<Framebuffer>> Framebuffer::create(std::shared_ptr<KmsDevice> device, bool modifiers,
                                                         const DrmFormat &format, uint32_t width, uint32_t height,
                                                         std::span<const Plane> planes) {
  FramebufferRequest request;
  request.width = width;
  request.height = height;
  request.fourcc = format.fourcc;
  request.modifier = modifiers ? format.modifier : DRM_FORMAT_MOD_INVALID;
  request.n_planes = static_cast<unsigned>(std::min<size_t>(planes.size(), kMaxFramebufferPlanes));
  for (unsigned p = 0; p < request.n_planes; ++p) {
    request.handles[p] = planes[p].handle;
    request.pitches[p] = planes[p].pitch;
    request.offsets[p] = planes[p].offset;
  }
  uint32_t id = 0;
  const int rc = device->addFramebuffer(request, &id);
  if (rc != 0) {
    std::string layout;
    for (size_t p = 0; p < planes.size(); ++p)
      layout += (p == 0 ? ", pitches and offsets " : ", ") + std::to_string(planes[p].pitch) + "+" +
                std::to_string(planes[p].offset);
    return Error{"make a framebuffer of " + toString(format) + " " + std::to_string(width) + "x" +
                     std::to_string(height) + layout + " on " + device->path() + " (" + device->driver() + ")",
                 rc, "The device does not take this size or layout: change format or size upstream"};
  }
  return std::shared_ptr<Framebuffer>(new Framebuffer(std::move(device), id));
}

Framebuffer::~Framebuffer() { device_->removeFramebuffer(id_); }

FramebufferImporter::FramebufferImporter(std::shared_ptr<KmsDevice> device, bool modifiers)
    : device_(std::move(device)), modifiers_(modifiers), importer_(ImportCache::process().addImporter()) {}

FramebufferImporter::~FramebufferImporter() { ImportCache::process().removeImporter(importer_); }

Result<std::shared_ptr<Framebuffer>> FramebufferImporter::import(const Source &source, bool *refused) {
  bool unused;
  if (refused == nullptr) refused = &unused;
  *refused = false;
  ImportKey key = source.key;
  key.importer = importer_;
  // Held over import and close: the kernel hands out one handle per dma-buf and file, however often it is imported.
  const std::lock_guard lock(mutex_);
  ImportCache &cache = ImportCache::process();
  if (auto known = cache.find<Framebuffer>(key)) return known;
  auto created = create(source, refused);
  if (!created) return created.error();
  return cache.insert(key, created.take());
}

Result<std::shared_ptr<Framebuffer>> FramebufferImporter::create(const Source &source, bool *refused) {
  const ImportKey &key = source.key;
  const DrmFormat format{key.fourcc, key.modifier};
  std::array<Framebuffer::Plane, kMaxFramebufferPlanes> planes;
  std::array<uint32_t, kMaxFramebufferPlanes> handles = {};
  unsigned n_handles = 0;
  std::optional<Error> error;
  for (unsigned p = 0; p < key.n_planes; ++p) {
    uint32_t handle = 0;
    if (const int code = device_->importHandle(source.fds[p], &handle); code != 0) {
      error = Error{"import the dma-buf of plane " + std::to_string(p) + " (" + key.buffers[p].toString() + ") into " +
                        device_->path() + " (" + device_->driver() + ")" + (code == ENODEV ? ": ENODEV" : ""),
                    code,
                    code == ENODEV
                        ? "This device takes no memory but its own: let upstream use the sink's pool (any element "
                          "that writes system memory does), or set allow-copy=true"
                        : "Set allow-copy=true to copy such frames"};
      break;
    }
    planes[p] = {handle, key.pitches[p], static_cast<uint32_t>(key.offsets[p])};
    // planes in one dma-buf have one handle: to be closed once
    if (std::find(handles.begin(), handles.begin() + n_handles, handle) == handles.begin() + n_handles)
      handles[n_handles++] = handle;
  }

  Result<std::shared_ptr<Framebuffer>> result = error ? *error : Error{};
  if (!error) {
    const std::span used(planes.data(), key.n_planes);
    result = Framebuffer::create(device_, modifiers_, format, key.width, key.height, used);
    const uint32_t even_width = (key.width + 1) & ~1u, even_height = (key.height + 1) & ~1u;
    // Older kernels want whole chroma samples. The added column and row lie in the stride and in the next plane; they
    // are never shown, since the source rectangle ends before them.
    if (!result && result.error().code == EINVAL && source.subsampled && key.pitches[0] >= even_width &&
        (even_width != key.width || even_height != key.height)) {
      auto even = Framebuffer::create(device_, modifiers_, format, even_width, even_height, used);
      if (even) result = std::move(even);
    }
    *refused = !result;
  }
  for (unsigned h = 0; h < n_handles; ++h) device_->closeHandle(handles[h]);
  return result;
}

void FramebufferImporter::clear() { ImportCache::process().forget(importer_); }

Result<std::unique_ptr<DumbBuffer>> DumbBuffer::create(std::shared_ptr<KmsDevice> device, uint32_t width,
                                                       uint32_t height, uint32_t bits) {
  std::unique_ptr<DumbBuffer> buffer(new DumbBuffer);
  buffer->device_ = std::move(device);
  const int rc = buffer->device_->createDumb(width, height, bits, &buffer->memory_);
  if (rc != 0)
    return Error{"make a dumb buffer of " + std::to_string(width) + "x" + std::to_string(height) + " with " +
                     std::to_string(bits) + " bits a pixel on " + buffer->device_->path() + " (" +
                     buffer->device_->driver() + ")",
                 rc, "The device has no memory of this kind to give"};
  return buffer;
}

DumbBuffer::~DumbBuffer() {
  if (data_ != nullptr) munmap(data_, size());
  if (handle() != 0) device_->destroyDumb(handle());
}

Result<unsigned char *> DumbBuffer::map() {
  if (data_ != nullptr) return data_;
  void *data = nullptr;
  if (const int rc = device_->mapDumb(memory_, &data); rc != 0)
    return Error{"map a dumb buffer of " + device_->path(), rc, ""};
  data_ = static_cast<unsigned char *>(data);
  return data_;
}

Result<UniqueFd> DumbBuffer::exportDmaBuf() const {
  UniqueFd fd;
  if (const int rc = device_->exportDumb(handle(), &fd); rc != 0)
    return Error{"export a dumb buffer of " + device_->path() + " (" + device_->driver() + ") as dma-buf", rc, ""};
  return fd;
}

} // namespace gstzc
