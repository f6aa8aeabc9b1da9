// SPDX-License-Identifier: LGPL-2.1-or-later
// Modules are accepted by how they start, their code is not run: kernels are functions of the host with the same names.
#include "tests/softcuda/internal.h"

#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <link.h>

using namespace softcuda;

namespace {

constexpr char kCompiled[] = "softcuda kernels in "; // what nvrtc.cpp makes: the path of a library, and a newline

struct Module : Object {
  static constexpr Kind kKind = Kind::Module;
  using Object::Object;
  void *library = nullptr; // null: kernels are found wherever they are
};

struct Function : Object {
  static constexpr Kind kKind = Kind::Function;
  using Object::Object;
  const softcuda_kernel *kernel = nullptr;
  std::shared_ptr<Module> module;
};

thread_local const Context *t_running = nullptr; // the context of the kernel that this thread runs

bool isText(const char *image, size_t *skip) { // PTX, behind comments and blank lines
  size_t at = 0;
  for (;;) {
    at += strspn(image + at, " \t\r\n");
    if (strncmp(image + at, "//", 2) != 0) break;
    at += strcspn(image + at, "\n");
  }
  *skip = at;
  return strncmp(image + at, ".version", strlen(".version")) == 0;
}

bool isImage(const void *image) {
  constexpr uint32_t kFatbin = 0xba55ed50, kFatbinWrapper = 0x466243b1, kElf = 0x464c457f;
  uint32_t magic;
  memcpy(&magic, image, sizeof magic);
  size_t skip;
  return magic == kFatbin || magic == kFatbinWrapper || magic == kElf ||
         isText(static_cast<const char *>(image), &skip);
}

const softcuda_kernel *kernelIn(void *library, const char *name) {
  auto kernel = static_cast<const softcuda_kernel *>(dlsym(library, "softcuda_kernels"));
  for (; kernel && kernel->name; ++kernel)
    if (strcmp(kernel->name, name) == 0) return kernel;
  return nullptr;
}

const softcuda_kernel *kernelInNamedLibraries(const char *name) {
  const std::string paths = getenv("SOFTCUDA_KERNELS") ? getenv("SOFTCUDA_KERNELS") : "";
  for (size_t from = 0; from < paths.size();) {
    const size_t to = std::min(paths.find(':', from), paths.size());
    void *library = dlopen(paths.substr(from, to - from).c_str(), RTLD_NOW | RTLD_LOCAL); // stays
    if (!library)
      fprintf(stderr, "softcuda: SOFTCUDA_KERNELS: %s\n", dlerror());
    else if (const softcuda_kernel *kernel = kernelIn(library, name))
      return kernel;
    from = to + 1;
  }
  return nullptr;
}

const softcuda_kernel *kernelInLoadedLibraries(const char *name) {
  std::vector<std::string> paths;
  dl_iterate_phdr(
      [](dl_phdr_info *info, size_t, void *into) {
        static_cast<std::vector<std::string> *>(into)->emplace_back(info->dlpi_name);
        return 0;
      },
      &paths);
  for (const std::string &path : paths) {
    void *library = dlopen(path.empty() ? nullptr : path.c_str(), RTLD_NOW | RTLD_NOLOAD);
    if (!library) continue;
    const softcuda_kernel *kernel = kernelIn(library, name);
    dlclose(library);
    if (kernel) return kernel;
  }
  return nullptr;
}

CUresult load(CUmodule *out, const void *image, const ContextPtr &context) {
  NEED(out && image);
  auto module = std::make_shared<Module>(Kind::Module, context);
  const auto text = static_cast<const char *>(image);
  if (strncmp(text, kCompiled, strlen(kCompiled)) == 0) {
    const char *path = text + strlen(kCompiled);
    module->library = dlopen(std::string(path, strcspn(path, "\n")).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!module->library) {
      fprintf(stderr, "softcuda: %s\n", dlerror());
      return CUDA_ERROR_INVALID_IMAGE;
    }
  } else if (!isImage(image)) {
    return CUDA_ERROR_INVALID_IMAGE;
  }
  add(module);
  *out = handleOf<CUmodule>(module);
  return CUDA_SUCCESS;
}

void *pointerForKernel(uint64_t device, size_t bytes) {
  char *host = nullptr;
  const AllocationPtr memory = allocationAt(device);
  // what is freed in stream order may be used by what was enqueued before that
  const Context *context = memory && memory->retired ? nullptr : t_running;
  return resolve(context, device, bytes, nullptr, &host) == CUDA_SUCCESS ? host : nullptr;
}

using Arguments = std::vector<std::vector<char>>;

// Whatever looks like an address of the device or a texture among the arguments is in use until the kernel is done.
std::vector<ObjectPtr> objectsIn(const Arguments &arguments) {
  std::vector<ObjectPtr> found;
  for (const std::vector<char> &argument : arguments) {
    for (size_t at = 0; at + sizeof(uint64_t) <= argument.size(); at += sizeof(uint64_t)) {
      uint64_t value;
      memcpy(&value, argument.data() + at, sizeof value);
      if (textureUses(value, &found)) continue;
      if (AllocationPtr memory = allocationAt(value)) found.push_back(std::move(memory));
    }
  }
  return found;
}

CUresult run(const Function &function, softcuda_launch launch, Arguments &arguments, const Context *context) {
  std::vector<void *> pointers;
  for (std::vector<char> &argument : arguments) pointers.push_back(argument.data());
  launch.pointer = pointerForKernel;
  t_running = context;
  CUresult result = CUDA_SUCCESS;
  try {
    function.kernel->run(&launch, pointers.data());
  } catch (...) {
    fprintf(stderr, "softcuda: kernel %s: illegal address\n", function.kernel->name);
    result = CUDA_ERROR_ILLEGAL_ADDRESS;
  }
  t_running = nullptr;
  return result;
}

} // namespace

SOFTCUDA_API cuModuleLoadData(CUmodule *module, const void *image) {
  ENTER();
  return load(module, image, call.context);
}

SOFTCUDA_API cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned, CUjit_option *, void **) {
  ENTER();
  return load(module, image, call.context);
}

SOFTCUDA_API cuModuleLoadFatBinary(CUmodule *module, const void *image) {
  ENTER();
  return load(module, image, call.context);
}

SOFTCUDA_API cuModuleUnload(CUmodule handle) {
  ENTER(kRelease);
  const auto module = take<Module>(handle, false);
  if (!module) return CUDA_ERROR_INVALID_HANDLE;
  std::vector<ObjectPtr> functions;
  Lock lock(state().lock);
  for (const ObjectPtr &object : objectsOf(lock, module->context.get(), Kind::Function)) {
    if (static_cast<const Function &>(*object).module != module) continue;
    functions.push_back(object);
    state().objects.erase(object->handle);
  }
  return call.released();
}

SOFTCUDA_API cuModuleGetFunction(CUfunction *out, CUmodule handle, const char *name) {
  ENTER();
  NEED(out && name);
  const auto module = find<Module>(handle);
  if (!module) return CUDA_ERROR_INVALID_HANDLE;
  const softcuda_kernel *kernel = module->library ? kernelIn(module->library, name) : kernelInNamedLibraries(name);
  if (!kernel && !module->library) kernel = kernelInLoadedLibraries(name);
  if (!kernel) return CUDA_ERROR_NOT_FOUND;
  auto function = std::make_shared<Function>(Kind::Function, module->context);
  function->counted = false;
  function->kernel = kernel;
  function->module = module;
  add(function);
  *out = handleOf<CUfunction>(function);
  return CUDA_SUCCESS;
}

SOFTCUDA_API cuLaunchKernel(CUfunction handle, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                            unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream,
                            void **parameters, void **extra) {
  ENTER();
  constexpr uint64_t kMostThreads = 1024;
  constexpr unsigned kMostX = 0x7fffffff, kMostYZ = 65535, kMostZ = 64, kMostShared = 48 << 10;
  const auto function = find<Function>(handle);
  if (!function) return CUDA_ERROR_INVALID_HANDLE;
  NEED(grid_x > 0 && grid_x <= kMostX && grid_y > 0 && grid_y <= kMostYZ && grid_z > 0 && grid_z <= kMostYZ);
  NEED(block_x > 0 && block_y > 0 && block_z > 0 && block_z <= kMostZ && shared_bytes <= kMostShared && !extra);
  NEED(uint64_t(block_x) * block_y * block_z <= kMostThreads);
  NEED(parameters || function->kernel->n_parameters == 0);
  const ContextPtr context = contextOfStream(stream);
  if (context != function->context) return CUDA_ERROR_INVALID_HANDLE;

  auto arguments = std::make_shared<Arguments>();
  for (unsigned i = 0; i < function->kernel->n_parameters; ++i) {
    NEED(parameters[i]);
    const auto from = static_cast<const char *>(parameters[i]);
    arguments->emplace_back(from, from + function->kernel->parameter_sizes[i]);
  }
  Operation operation{__func__, {}, objectsIn(*arguments), {}};
  operation.uses.push_back(function->module);
  const softcuda_launch launch{{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes, nullptr};
  operation.run = [function, launch, arguments, context] { return run(*function, launch, *arguments, context.get()); };
  return submit(stream, std::move(operation));
}
