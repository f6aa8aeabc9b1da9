// SPDX-License-Identifier: LGPL-2.1-or-later
// A stand-in for libnvrtc that compiles nothing: the code that it gives only says for which device it would be, and the
// stand-in for libcuda has kernels by name. It knows devices up to sm_90, and fails where the source says #error.
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

struct Program {
  std::string source, log, image;
};

constexpr int kKnown[] = {75, 80, 86, 87, 89, 90};
constexpr int kSuccess = 0, kInvalidInput = 3, kInvalidOption = 5, kCompilation = 6;

int fail(Program *program, int result, const char *log) {
  program->log = log;
  return result;
}

} // namespace

#define API extern "C" __attribute__((visibility("default")))

API const char *nvrtcGetErrorString(int result) {
  return result == kInvalidOption ? "NVRTC_ERROR_INVALID_OPTION" : "NVRTC_ERROR_COMPILATION";
}
API int nvrtcVersion(int *major, int *minor) {
  *major = 99, *minor = 1;
  return kSuccess;
}
API int nvrtcGetNumSupportedArchs(int *count) {
  *count = sizeof kKnown / sizeof *kKnown;
  return kSuccess;
}
API int nvrtcGetSupportedArchs(int *list) {
  std::memcpy(list, kKnown, sizeof kKnown);
  return kSuccess;
}
API int nvrtcCreateProgram(Program **program, const char *source, const char *, int headers, const char *const *,
                           const char *const *) {
  if (headers != 0) return kInvalidInput;
  *program = new Program{source, "", ""};
  return kSuccess;
}
API int nvrtcDestroyProgram(Program **program) {
  delete *program;
  *program = nullptr;
  return kSuccess;
}
API int nvrtcCompileProgram(Program *program, int count, const char *const *options) {
  const std::string architecture = "--gpu-architecture=";
  for (int i = 0; i < count; ++i) {
    const std::string option = options[i];
    if (option.starts_with(architecture))
      program->image = ".version 9.0\n.target " + option.substr(architecture.size()) + "\n";
  }
  if (program->image.empty()) return fail(program, kInvalidOption, "no architecture");
  if (program->source.find("#error") != std::string::npos)
    return fail(program, kCompilation, "preprocess.cu(1): error");
  return kSuccess;
}
API int nvrtcGetProgramLogSize(Program *program, size_t *size) {
  *size = program->log.size() + 1;
  return kSuccess;
}
API int nvrtcGetProgramLog(Program *program, char *log) {
  std::strcpy(log, program->log.c_str());
  return kSuccess;
}
API int nvrtcGetPTXSize(Program *program, size_t *size) {
  *size = program->image.size() + 1;
  return kSuccess;
}
API int nvrtcGetPTX(Program *program, char *image) {
  std::strcpy(image, program->image.c_str());
  return kSuccess;
}
API int nvrtcGetCUBINSize(Program *program, size_t *size) { return nvrtcGetPTXSize(program, size); }
API int nvrtcGetCUBIN(Program *program, char *image) { return nvrtcGetPTX(program, image); }
