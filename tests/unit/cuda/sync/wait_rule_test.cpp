// SPDX-License-Identifier: LGPL-2.1-or-later
// The rule that a missing wait is caught: each wait of ext/cuda can be left out by a name, and for each name there is a
// test that notices. This reads the sources, so that what is added later is held to it.
#include "ext/cuda/sync/wait_points.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

using namespace gstzc::cuda;
namespace fs = std::filesystem;

namespace {

using Lines = std::vector<std::string>;

// By the path from the source's root.
std::map<std::string, Lines> sources(const std::vector<std::string> &folders) {
  std::map<std::string, Lines> found;
  const fs::path root = GSTZC_SOURCE_ROOT;
  for (const std::string &folder : folders)
    for (const auto &entry : fs::recursive_directory_iterator(root / folder)) {
      if (entry.path().extension() != ".cpp") continue;
      std::ifstream file(entry.path());
      Lines &lines = found[fs::relative(entry.path(), root).string()];
      for (std::string line; std::getline(file, line);) lines.push_back(line);
    }
  return found;
}

bool contains(const std::map<std::string, Lines> &files, const std::string &text) {
  return std::any_of(files.begin(), files.end(), [&](const auto &file) {
    return std::any_of(file.second.begin(), file.second.end(),
                       [&](const std::string &line) { return line.find(text) != std::string::npos; });
  });
}

TEST(WaitRule, EachNameIsOfAWaitAndHasATest) {
  const auto product = sources({"ext/cuda"}), tests = sources({"tests/unit/cuda", "tests/elements/cuda"});
  ASSERT_FALSE(product.empty());
  ASSERT_FALSE(tests.empty());
  for (const std::string_view point : kWaitPoints) {
    const std::string name = '"' + std::string(point) + '"';
    EXPECT_TRUE(contains(product, "waitPoint(" + name + ")")) << name << " is the name of no wait";
    // expectNoticed() shows both that the order is right with the wait and that it is not without
    const bool tested = contains(tests, "expectNoticed(" + name) ||
                        contains(tests, "setenv(\"GSTZC_SKIP_WAIT\", " + name) || contains(tests, "Mutation{" + name);
    EXPECT_TRUE(tested) << name << ": no test leaves it out";
  }
}

// Calls by which something waits, or is made to wait, or is told what to wait for.
const char *const kWaits[] = {"cuStreamWaitEvent(",
                              "cuStreamWaitValue32(",
                              "cuStreamWaitValue64(",
                              "cuWaitExternalSemaphoresAsync(",
                              "cuStreamSynchronize(",
                              "cuEventSynchronize(",
                              "cuCtxSynchronize(",
                              "waitForFences(",
                              "waitForFrame(",
                              "waitForCudaEvent(",
                              "waitForWriters(",
                              "waitOnStream(",
                              "passFences(",
                              "isPending(",
                              "isWrittenByDevice(",
                              "handOver(",
                              "refresh(",
                              "drain(",
                              "drained(",
                              "->hold(",
                              "->wait(",
                              "vkWaitSemaphores(",
                              "finish("};

// Lines that are none, or that are left out by the name of who calls them.
struct Exempt {
  const char *file, *line, *why;
};
const Exempt kExempt[] = {
    {"ext/cuda/export/export_session.cpp", "Status passFences(", "a definition"},
    {"ext/cuda/export/export_session.cpp", "bool ExportSession::isPending(", "a definition"},
    {"ext/cuda/export/export_session.cpp", "rest->retire->drain(", "how long: retire-drain waits in any case"},
    {"ext/cuda/import/import_session.cpp", "retire_->drain(kLongestStop)", "how long: retire-drain waits in any case"},
    {"ext/cuda/import/import_session.cpp", "elsewhere_->drain(kLongestStop)",
     "how long: retire-drain waits in any case"},
    {"ext/cuda/import/import_session.cpp", "return waitForFences(", "waitHere(): its callers have names"},
    {"ext/cuda/import/reader_contexts.cpp", "ReaderContexts::drain(", "a definition"},
    {"ext/cuda/import/gstdmabufcudaimport.cpp", "known->driver.cuCtxSynchronize()", "asks whether the context works"},
    {"ext/cuda/infer/cuda_tensor_device.cpp", "bool isWrittenByDevice(", "a definition"},
    {"ext/cuda/infer/read_frame.cpp", "driver.cuStreamWaitEvent(stream, order, 0)", "frame-stream, some lines above"},
    {"ext/cuda/infer/read_frame.cpp", "Status waitForWriters(", "a definition"},
    {"ext/cuda/infer/read_frame.cpp", "!waitForCudaEvent(context, stream, event, &waits)", "frame-writers"},
    {"ext/cuda/routes/content_check.cpp", "Result<bool> finish(", "a definition"},
    {"ext/cuda/routes/egl_image_route.cpp", "Status refresh(", "a definition"},
    {"ext/cuda/routes/host_pages.cpp", "std::optional<DmaBufCpuScope> handOver(", "a definition"},
    {"ext/cuda/routes/host_register_route.cpp", "Status refresh(", "a definition"},
    {"ext/cuda/routes/host_register_route.cpp", "const auto scope = handOver(", "what `handover` enqueues"},
    {"ext/cuda/routes/staged_copy_route.cpp", "Status refresh(", "a definition"},
    {"ext/cuda/routes/vulkan_bridge_route.cpp", "Status refresh(", "a definition"},
    {"ext/cuda/routes/vulkan_bridge_route.cpp", "auto before = copy_->wait(",
     "only until when it may take: the copy itself waits for the one before"},
    {"ext/cuda/routes/vulkan_copy.cpp", "vkWaitSemaphores(", "what copy_->wait() is"},
    {"ext/cuda/routes/vulkan_cuda.cpp", "Status waitOnStream(", "a definition"},
    {"ext/cuda/routes/vulkan_cuda.cpp", "cuWaitExternalSemaphoresAsync(", "what waitOnStream() is"},
    {"ext/cuda/sync/cuda_event.cpp", "bool waitForCudaEvent(", "a definition"},
    {"ext/cuda/sync/retire_queue.cpp", "bool drain(", "a declaration"},
    {"ext/cuda/sync/retire_queue.cpp", "::drain(std::chrono::milliseconds timeout) {", "a definition"},
    {"ext/cuda/sync/semaphore_gate.cpp", "state_->hold(", "what hold() is: its callers have names"},
    {"ext/cuda/sync/semaphore_gate.cpp", "otherwise_->hold(", "what hold() is: its callers have names"},
    {"ext/cuda/sync/word_gate.cpp", "driver.cuStreamWaitValue32(waiting_", "enqueueWait(): its caller has a name"},
    {"ext/cuda/sync/word_gate.cpp", "CUresult drained(", "a definition"},
};

constexpr size_t kBefore = 5; // lines in which the name stands: the condition may be a block's

TEST(WaitRule, EachWaitHasAName) {
  std::vector<bool> used(std::size(kExempt));
  for (const auto &[path, lines] : sources({"ext/cuda"}))
    for (size_t i = 0; i < lines.size(); ++i) {
      const std::string code = lines[i].substr(0, lines[i].find("//"));
      const bool waits = std::any_of(std::begin(kWaits), std::end(kWaits), [&](const char *call) {
        const size_t at = code.find(call);
        // a word of its own, and no text of a message
        if (at == std::string::npos) return false;
        if (at == 0 || call[0] == '-') return true;
        const auto before = static_cast<unsigned char>(code[at - 1]);
        return std::isalnum(before) == 0 && before != '_' && before != '"';
      });
      if (!waits) continue;
      bool exempt = false;
      for (size_t e = 0; e < std::size(kExempt); ++e)
        if (path == kExempt[e].file && code.find(kExempt[e].line) != std::string::npos) exempt = used[e] = true;
      if (exempt) continue;
      bool named = false;
      for (size_t back = 0; back <= std::min(i, kBefore) && !named; ++back)
        named = lines[i - back].find("waitPoint(\"") != std::string::npos;
      EXPECT_TRUE(named) << path << ':' << i + 1 << ": " << lines[i]
                         << "\n  waits, and has no name: put it behind waitPoint() and write a test that notices";
    }
  for (size_t e = 0; e < std::size(kExempt); ++e)
    EXPECT_TRUE(used[e]) << kExempt[e].file << " has no line with " << kExempt[e].line;
}

} // namespace
