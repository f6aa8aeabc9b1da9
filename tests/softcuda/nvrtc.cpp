// SPDX-License-Identifier: LGPL-2.1-or-later
// A stand-in for libnvrtc that compiles CUDA C++ with g++ and softcuda_device.h. What it calls PTX or a cubin names a
// library that cuModuleLoadData of the stand-in for the driver opens. Libraries are kept by the hash of source and
// options in SOFTCUDA_CACHE, else in a directory that goes with the process. Kernels that a library of SOFTCUDA_KERNELS
// has are not compiled: their image is one that only has names.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <mutex>
#include <regex>
#include <spawn.h>
#include <string>
#include <sys/wait.h>
#include <fcntl.h>
#include <unistd.h>
#include <vector>

#include "softcuda_kernel.h"

namespace fs = std::filesystem;

extern char **environ;

namespace {

enum Result {
  kSuccess = 0,
  kInvalidInput = 3,
  kInvalidProgram = 4,
  kInvalidOption = 5,
  kCompilation = 6
}; // nvrtcResult

// What NVRTC 13.0 compiles for. Here all are the same.
constexpr int kArchitectures[] = {75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121};

struct Program {
  std::string source, log, image;
};

struct Cache {
  fs::path directory;
  bool ours = false; // goes with the process
  pid_t process = getpid();

  Cache() {
    if (const char *named = getenv("SOFTCUDA_CACHE"); named && *named) {
      directory = named;
      std::error_code ignored;
      fs::create_directories(directory, ignored);
      return;
    }
    std::string pattern = (fs::temp_directory_path() / "softcuda-XXXXXX").string();
    if (mkdtemp(pattern.data())) directory = pattern;
    ours = !directory.empty();
  }
  ~Cache() {
    std::error_code ignored;
    if (ours && getpid() == process) fs::remove_all(directory, ignored);
  }
};

std::mutex g_lock;

std::string hash(const std::string &text) {
  uint64_t value = 0xcbf29ce484222325; // FNV-1a
  for (const unsigned char byte : text) value = (value ^ byte) * 0x100000001b3;
  char digits[17];
  snprintf(digits, sizeof digits, "%016jx", uintmax_t(value));
  return digits;
}

std::string fileText(const fs::path &path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

int compile(const std::vector<std::string> &arguments, const fs::path &log) {
  std::vector<char *> pointers;
  for (const std::string &argument : arguments) pointers.push_back(const_cast<char *>(argument.c_str()));
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  pid_t child;
  int status = -1;
  if (posix_spawnp(&child, pointers[0], &actions, nullptr, pointers.data(), environ) == 0)
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
  posix_spawn_file_actions_destroy(&actions);
  return status;
}

std::vector<std::string> kernelsOf(const std::string &source) {
  static const std::regex kernel("__global__\\s+void\\s+(\\w+)");
  std::vector<std::string> names;
  for (std::sregex_iterator at(source.begin(), source.end(), kernel), end; at != end; ++at)
    names.push_back((*at)[1].str());
  return names;
}

// Whether the driver's stand-in finds them all without us.
bool areThere(const std::vector<std::string> &kernels) {
  const std::string paths = getenv("SOFTCUDA_KERNELS") ? getenv("SOFTCUDA_KERNELS") : "";
  std::vector<std::string> known;
  for (size_t from = 0; from < paths.size();) {
    const size_t to = std::min(paths.find(':', from), paths.size());
    void *library = dlopen(paths.substr(from, to - from).c_str(), RTLD_NOW | RTLD_LOCAL); // stays
    auto kernel = static_cast<const softcuda_kernel *>(library ? dlsym(library, "softcuda_kernels") : nullptr);
    for (; kernel && kernel->name; ++kernel) known.emplace_back(kernel->name);
    from = to + 1;
  }
  return !kernels.empty() && std::all_of(kernels.begin(), kernels.end(), [&](const std::string &name) {
    return std::find(known.begin(), known.end(), name) != known.end();
  });
}

std::string withTable(const std::string &source) {
  std::string entries;
  for (const std::string &name : kernelsOf(source))
    entries += (entries.empty() ? "SOFTCUDA_ENTRY(" : ", SOFTCUDA_ENTRY(") + name + ")";
  return "#include \"softcuda_device.h\"\n" + source + "\nSOFTCUDA_KERNELS(" + entries + ")\n";
}

Result build(Program &program, std::vector<std::string> defines) {
  const char *headers = getenv("SOFTCUDA_HEADERS");
  static Cache cache;
  std::lock_guard guard(g_lock);
  if (areThere(kernelsOf(program.source))) {
    program.image = ".version 9.0\n";
    return kSuccess;
  }
  if (!headers || cache.directory.empty()) {
    program.log = "SOFTCUDA_HEADERS does not say where softcuda_device.h is, or there is no place for files";
    return kCompilation;
  }
  const std::string source = withTable(program.source);
  std::string key =
      source + fileText(fs::path(headers) / "softcuda_device.h") + fileText(fs::path(headers) / "softcuda_kernel.h");
  for (const std::string &define : defines) key += '\0' + define;
  const fs::path base = cache.directory / hash(key), library = base.string() + ".so";
  program.image = "softcuda kernels in " + library.string() + "\n";
  if (fs::exists(library)) return kSuccess;

  // under a name of its own until it is complete: other processes may share the directory
  const std::string own = base.string() + "-" + std::to_string(getpid());
  std::ofstream(own + ".cpp") << source;
  std::vector<std::string> arguments = {"g++", "-std=c++20", "-O2", "-w", "-fPIC", "-shared", "-I", headers};
  arguments.insert(arguments.end(), defines.begin(), defines.end());
  arguments.insert(arguments.end(), {"-o", own + ".so", own + ".cpp"});
  const int status = compile(arguments, own + ".log");
  program.log = fileText(own + ".log");
  std::error_code failed;
  if (status == 0) fs::rename(own + ".so", library, failed);
  std::error_code ignored;
  for (const char *suffix : {".cpp", ".log", ".so"}) fs::remove(own + suffix, ignored);
  return status == 0 && !failed ? kSuccess : kCompilation;
}

Result copyOut(const std::string &text, char *out) {
  memcpy(out, text.c_str(), text.size() + 1);
  return kSuccess;
}

} // namespace

#define SOFTNVRTC_API extern "C" __attribute__((visibility("default"))) int

SOFTNVRTC_API nvrtcVersion(int *major, int *minor) {
  *major = 13;
  *minor = 0;
  return kSuccess;
}

extern "C" __attribute__((visibility("default"))) const char *nvrtcGetErrorString(int result) {
  switch (result) {
  case kSuccess: return "NVRTC_SUCCESS";
  case kInvalidInput: return "NVRTC_ERROR_INVALID_INPUT";
  case kInvalidProgram: return "NVRTC_ERROR_INVALID_PROGRAM";
  case kInvalidOption: return "NVRTC_ERROR_INVALID_OPTION";
  case kCompilation: return "NVRTC_ERROR_COMPILATION";
  default: return "NVRTC_ERROR unknown";
  }
}

SOFTNVRTC_API nvrtcGetNumSupportedArchs(int *count) {
  if (!count) return kInvalidInput;
  *count = sizeof kArchitectures / sizeof *kArchitectures;
  return kSuccess;
}

SOFTNVRTC_API nvrtcGetSupportedArchs(int *list) {
  if (!list) return kInvalidInput;
  std::copy(std::begin(kArchitectures), std::end(kArchitectures), list);
  return kSuccess;
}

SOFTNVRTC_API nvrtcCreateProgram(Program **out, const char *source, const char *, int headers, const char **,
                                 const char **) {
  if (!out || !source || headers != 0) return kInvalidInput;
  *out = new Program{source, "", ""};
  return kSuccess;
}

SOFTNVRTC_API nvrtcDestroyProgram(Program **program) {
  delete *program;
  *program = nullptr;
  return kSuccess;
}

// Macros of the options are taken; the architecture means nothing here.
SOFTNVRTC_API nvrtcCompileProgram(Program *program, int count, const char **options) {
  if (!program) return kInvalidProgram;
  std::vector<std::string> defines;
  for (int i = 0; i < count; ++i)
    if (strncmp(options[i], "-D", 2) == 0) defines.emplace_back(options[i]);
  return build(*program, std::move(defines));
}

SOFTNVRTC_API nvrtcGetPTXSize(Program *program, size_t *size) { return *size = program->image.size() + 1, kSuccess; }
SOFTNVRTC_API nvrtcGetPTX(Program *program, char *out) { return copyOut(program->image, out); }
SOFTNVRTC_API nvrtcGetCUBINSize(Program *program, size_t *size) { return *size = program->image.size() + 1, kSuccess; }
SOFTNVRTC_API nvrtcGetCUBIN(Program *program, char *out) { return copyOut(program->image, out); }
SOFTNVRTC_API nvrtcGetProgramLogSize(Program *program, size_t *size) {
  return *size = program->log.size() + 1, kSuccess;
}
SOFTNVRTC_API nvrtcGetProgramLog(Program *program, char *out) { return copyOut(program->log, out); }
