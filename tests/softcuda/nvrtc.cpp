// SPDX-License-Identifier: LGPL-2.1-or-later
// A stand-in for libnvrtc that compiles CUDA C++ with g++ and softcuda_device.h. What it calls PTX or a cubin names a
// library that cuModuleLoadData of the stand-in for the driver opens. Libraries are kept by the hash of source and
// options in SOFTCUDA_CACHE, else in a directory that goes with the process.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <regex>
#include <spawn.h>
#include <string>
#include <sys/wait.h>
#include <fcntl.h>
#include <unistd.h>
#include <vector>

namespace fs = std::filesystem;

extern char **environ;

namespace {

enum Result { kSuccess = 0, kInvalidInput = 3, kInvalidProgram = 4, kCompilation = 6 }; // nvrtcResult

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

std::string withTable(const std::string &source) {
  static const std::regex kernel("__global__\\s+void\\s+(\\w+)");
  std::string entries;
  for (std::sregex_iterator at(source.begin(), source.end(), kernel), end; at != end; ++at)
    entries += (entries.empty() ? "SOFTCUDA_ENTRY(" : ", SOFTCUDA_ENTRY(") + (*at)[1].str() + ")";
  return "#include \"softcuda_device.h\"\n" + source + "\nSOFTCUDA_KERNELS(" + entries + ")\n";
}

Result build(Program &program, std::vector<std::string> defines) {
  const char *headers = getenv("SOFTCUDA_HEADERS");
  static Cache cache;
  std::lock_guard guard(g_lock);
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
