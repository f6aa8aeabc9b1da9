// SPDX-License-Identifier: LGPL-2.1-or-later
#include <cerrno>
#include <future>
#include <map>
#include <mutex>
#include <new>
#include <optional>

#include "gst/infer/stream/options_text.h"
#include "gst/infer/stream/runner.h"

namespace gstzc::infer {
namespace {

struct Shared {
  ModelOptions model; // as it is being loaded; later the runner knows
  ModelRunner::Options options;
  std::weak_ptr<ModelRunner> runner;
  std::shared_future<AcquiredRunner> loading; // valid while somebody loads
};

// Never destroyed: elements may outlive what runs at exit.
struct Registry {
  std::mutex mutex;
  std::map<std::string, Shared> shared;
};

Registry &registry() {
  static auto *registry = new Registry;
  return *registry;
}

AcquiredRunner load(const ModelOptions &model, const ModelRunner::Options &options, const ModelLoader &loader) {
  try {
    LoadedModel loaded = loader(model);
    if (loaded.model == nullptr) return {nullptr, std::move(loaded.failure)};
    return {std::make_shared<ModelRunner>(std::move(loaded.model), options, model), {}};
  } catch (const std::bad_alloc &) {
    return {nullptr, {LoadFailure::BadModel, {"load the model " + model.file, ENOMEM, "Give the process more memory"}}};
  }
}

// Nothing where the two are the same.
std::optional<LoadError> difference(const std::string &id, const std::vector<NamedOption> &theirs,
                                    const std::vector<NamedOption> &ours) {
  for (size_t i = 0; i < theirs.size(); ++i) {
    const auto &[name, value] = theirs[i];
    if (value == ours[i].second) continue;
    return LoadError{LoadFailure::OtherOptions,
                     {"model-instance-id " + id + " is in use with " + name + " " + value + ", not " + ours[i].second,
                      0,
                      "Elements that share a model need the same options: set " + name +
                          " to the same value, or use another model-instance-id"}};
  }
  return std::nullopt;
}

} // namespace

AcquiredRunner acquireRunner(const std::string &instance_id, const ModelOptions &model,
                             const ModelRunner::Options &options, const ModelLoader &loader) {
  if (instance_id.empty()) return load(model, options, loader);

  Registry &all = registry();
  std::promise<AcquiredRunner> promise;
  {
    std::shared_ptr<ModelRunner> present; // let go without the lock, where it is not what is wanted
    std::unique_lock lock(all.mutex);
    std::erase_if(all.shared, [](auto &item) {
      const Shared &shared = item.second;
      return !shared.loading.valid() && shared.runner.expired();
    });
    if (const auto it = all.shared.find(instance_id); it != all.shared.end()) {
      Shared &shared = it->second;
      present = shared.runner.lock(); // may have gone just now
      const auto loading = shared.loading;
      if (present != nullptr || loading.valid()) {
        const ModelOptions their_model = present != nullptr ? present->modelOptions() : shared.model;
        const ModelRunner::Options their_options = shared.options;
        lock.unlock();
        auto refused =
            difference(instance_id, describeOptions(their_model, their_options), describeOptions(model, options));
        if (refused) return {nullptr, std::move(*refused)};
        if (present != nullptr) return {std::move(present), {}};
        return loading.get();
      }
    }
    all.shared[instance_id] = {model, options, {}, promise.get_future().share()};
  }
  AcquiredRunner result = load(model, options, loader);
  {
    const std::lock_guard lock(all.mutex);
    const auto it = all.shared.find(instance_id);
    if (result.runner == nullptr) {
      all.shared.erase(it);
    } else {
      it->second.runner = result.runner;
      it->second.loading = {};
    }
  }
  promise.set_value(result);
  return result;
}

} // namespace gstzc::infer
