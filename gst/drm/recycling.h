// SPDX-License-Identifier: LGPL-2.1-or-later
// Memory that is used again, for what every frame needs for a while.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

namespace gstzc {

// Blocks of one size, that of the first one asked for; others come from the heap and go there. Thread safe.
class BlockStore {
public:
  BlockStore() = default;
  ~BlockStore() {
    for (void *block : free_) ::operator delete(block);
  }
  BlockStore(const BlockStore &) = delete;
  BlockStore &operator=(const BlockStore &) = delete;

  void *take(size_t bytes) {
    {
      const std::lock_guard lock(mutex_);
      if (bytes_ == 0) bytes_ = bytes;
      if (bytes == bytes_ && !free_.empty()) {
        void *block = free_.back();
        free_.pop_back();
        return block;
      }
      if (bytes == bytes_) free_.reserve(++blocks_); // so that give() needs no memory
    }
    return ::operator new(bytes);
  }
  void give(void *block, size_t bytes) noexcept {
    {
      const std::lock_guard lock(mutex_);
      if (bytes == bytes_) {
        free_.push_back(block);
        return;
      }
    }
    ::operator delete(block);
  }

private:
  std::mutex mutex_;
  size_t bytes_ = 0, blocks_ = 0;
  std::vector<void *> free_;
};

// For std::shared_ptr and its like; keeps the store alive. Not for types that ask for more than the usual alignment.
template <typename T> class RecyclingAllocator {
public:
  using value_type = T;
  explicit RecyclingAllocator(std::shared_ptr<BlockStore> store) : store_(std::move(store)) {}
  template <typename U> RecyclingAllocator(const RecyclingAllocator<U> &other) : store_(other.store()) {}
  T *allocate(size_t n) { return static_cast<T *>(store_->take(n * sizeof(T))); }
  void deallocate(T *memory, size_t n) noexcept { store_->give(memory, n * sizeof(T)); }
  const std::shared_ptr<BlockStore> &store() const { return store_; }
  template <typename U> bool operator==(const RecyclingAllocator<U> &other) const { return store_ == other.store(); }

private:
  std::shared_ptr<BlockStore> store_;
};

// Objects that keep what they have reserved when nobody has them any more: T::clear() lets go of the rest. Thread safe;
// objects may outlive the pool.
template <typename T> class ObjectPool {
public:
  ObjectPool() : store_(std::make_shared<Store>()) {}

  std::shared_ptr<T> take() {
    T *object = nullptr;
    {
      const std::lock_guard lock(store_->mutex);
      if (!store_->free.empty()) {
        object = store_->free.back().release();
        store_->free.pop_back();
      } else {
        store_->free.reserve(++store_->objects);
      }
    }
    if (object == nullptr) object = new T;
    return std::shared_ptr<T>(object, GiveBack{store_}, RecyclingAllocator<T>(store_->counts));
  }

  // So many, each readied by `ready`, so that the first ones of them cost nothing when they are wanted.
  template <typename Ready> void prepare(size_t n, Ready &&ready) {
    std::vector<std::shared_ptr<T>> all;
    for (size_t i = 0; i < n; ++i) ready(*all.emplace_back(take()));
  }

private:
  struct Store {
    std::mutex mutex;
    std::vector<std::unique_ptr<T>> free;
    size_t objects = 0;
    std::shared_ptr<BlockStore> counts = std::make_shared<BlockStore>();
  };
  struct GiveBack {
    std::shared_ptr<Store> store;
    void operator()(T *object) const noexcept {
      object->clear();
      const std::lock_guard lock(store->mutex);
      store->free.emplace_back(object);
    }
  };
  std::shared_ptr<Store> store_;
};

} // namespace gstzc
