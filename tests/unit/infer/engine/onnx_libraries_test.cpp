// SPDX-License-Identifier: LGPL-2.1-or-later
// Which library runs the models: named files, several at once, failures; and that none writes to standard error.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <link.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/infer/engine/onnx_helpers.h"

using namespace gstzc::infer;
using namespace gstzc::test;

namespace {

constexpr const char *kOther = "GSTZC_TEST_ONNXRUNTIME";

class OnnxLibrariesTest : public OnnxFixture {
protected:
  // Where the library that is found without a name is.
  std::string defaultLibrary() {
    EXPECT_NE(load(smallConvolution()).engine, nullptr);
    std::string path;
    dl_iterate_phdr(
        [](dl_phdr_info *info, size_t, void *found) {
          const std::string name = info->dlpi_name;
          if (name.find("/libonnxruntime.so") == std::string::npos) return 0;
          *static_cast<std::string *>(found) = name;
          return 1;
        },
        &path);
    return path;
  }

  // Runs a test in a process of its own; gives what it wrote to standard error.
  std::string runAlone(const std::string &test) {
    const std::string caught = dir_.file("stderr");
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 2, caught.c_str(), O_WRONLY | O_CREAT, 0600);
    const std::string program = std::filesystem::read_symlink("/proc/self/exe");
    std::string arguments[] = {program, "--gtest_filter=" + test, "--gtest_also_run_disabled_tests"};
    char *argv[] = {arguments[0].data(), arguments[1].data(), arguments[2].data(), nullptr};
    std::vector<std::string> kept; // but for what the user may have asked to be printed
    for (char **entry = environ; *entry != nullptr; ++entry)
      if (!std::string(*entry).starts_with("GST_DEBUG")) kept.emplace_back(*entry);
    std::vector<char *> env;
    for (std::string &entry : kept) env.push_back(entry.data());
    env.push_back(nullptr);
    pid_t pid = 0;
    const int failed = posix_spawn(&pid, program.c_str(), &actions, nullptr, argv, env.data());
    posix_spawn_file_actions_destroy(&actions);
    if (failed != 0) return "not started";
    int status = 0;
    EXPECT_EQ(waitpid(pid, &status, 0), pid);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    std::stringstream text;
    text << std::ifstream(caught).rdbuf();
    return text.str();
  }
};

TEST_F(OnnxLibrariesTest, FilesThatAreNoLibrary) {
  std::filesystem::create_directory(dir_.file("directory"));
  ASSERT_EQ(mkfifo(dir_.file("fifo").c_str(), 0600), 0);
  std::ofstream(dir_.file("garbage.so")) << "this is no library, though it is long enough for a header of one, or so";
  struct {
    std::string name;
    const char *says;
  } const rows[] = {
      {dir_.file("missing.so"), "No such file"},     {dir_.file("directory"), "no regular file"},
      {dir_.file("fifo"), "no regular file"},        {dir_.file("garbage.so"), "ELF"},
      {"libgstreamer-1.0.so.0", "no OrtGetApiBase"}, {"no-such-library.so", "cannot open"},
  };
  for (const auto &row : rows) {
    auto loaded = load(smallConvolution(), {.library = row.name});
    ASSERT_EQ(loaded.engine, nullptr) << row.name;
    EXPECT_EQ(loaded.failure.kind, LoadFailure::NoLibrary) << row.name;
    const std::string text = loaded.failure.error.message();
    EXPECT_NE(text.find(row.name), std::string::npos) << text;
    EXPECT_NE(text.find(row.says), std::string::npos) << text;
    EXPECT_NE(text.find("onnxruntime-library"), std::string::npos) << text;
  }
}

TEST_F(OnnxLibrariesTest, FailureIsNotRemembered) {
  const std::string name = dir_.file("libonnxruntime-later.so");
  EXPECT_EQ(load(smallConvolution(), {.library = name}).failure.kind, LoadFailure::NoLibrary);
  std::filesystem::create_symlink(defaultLibrary(), name);
  auto loaded = load(smallConvolution(), {.library = name});
  ASSERT_NE(loaded.engine, nullptr) << loaded.failure.error.message();
  expectSmallConvolution(*loaded.engine);
}

TEST_F(OnnxLibrariesTest, OneFileFromManyThreads) {
  smallConvolution().save(dir_.file("model.onnx"));
  std::vector<std::string> names = {"", defaultLibrary(), dir_.file("missing.so")};
  std::vector<std::thread> threads;
  for (size_t i = 0; i < 9; ++i)
    threads.emplace_back([&, i] {
      auto loaded = loadOnnxEngine(dir_.file("model.onnx"), {.library = names[i % names.size()]});
      EXPECT_EQ(loaded.engine == nullptr, i % names.size() == 2) << loaded.failure.error.message();
      if (loaded.engine != nullptr) expectSmallConvolution(*loaded.engine);
    });
  for (std::thread &thread : threads) thread.join();
}

// Sessions of both live at once and run in turns; each goes while the other stays.
TEST_F(OnnxLibrariesTest, AnotherVersionWorksBesideTheFirst) {
  const char *const other = std::getenv(kOther);
  if (other == nullptr) GTEST_SKIP() << kOther << " names no further ONNX Runtime library";
  auto first = load(smallConvolution());
  ASSERT_NE(first.engine, nullptr) << first.failure.error.message();
  auto second = load(smallConvolution(), {.library = other});
  ASSERT_NE(second.engine, nullptr) << second.failure.error.message();
  EXPECT_NE(first.engine->name(), second.engine->name());
  for (int i = 0; i < 3; ++i) {
    expectSmallConvolution(*first.engine);
    expectSmallConvolution(*second.engine);
  }
  first.engine.reset();
  expectSmallConvolution(*second.engine);
  first = load(smallConvolution());
  second.engine.reset();
  ASSERT_NE(first.engine, nullptr);
  expectSmallConvolution(*first.engine);
  // what does not load from it is said in its own words, and shortened
  auto cuda = load(smallConvolution(), {.library = other, .provider = "cuda"});
  if (cuda.engine == nullptr) {
    const std::string text = cuda.failure.error.message();
    EXPECT_EQ(cuda.failure.kind, LoadFailure::NoProvider) << text;
    EXPECT_NE(text.find("execution provider cuda"), std::string::npos) << text;
    EXPECT_EQ(text.find(".cc:"), std::string::npos) << text;
  }
}

// The upstream's library is called libonnxruntime.so.1, which is looked for first; run by a test below.
TEST_F(OnnxLibrariesTest, DISABLED_NamedOneFirst) {
  auto named = load(smallConvolution(), {.library = std::getenv(kOther)});
  ASSERT_NE(named.engine, nullptr) << named.failure.error.message();
  auto found = load(smallConvolution());
  ASSERT_NE(found.engine, nullptr) << found.failure.error.message();
  EXPECT_NE(found.engine->name(), named.engine->name());
  expectSmallConvolution(*named.engine);
  expectSmallConvolution(*found.engine);
}

TEST_F(OnnxLibrariesTest, NamedOneIsNotWhatASearchFinds) {
  if (std::getenv(kOther) == nullptr) GTEST_SKIP() << kOther << " names no further ONNX Runtime library";
  EXPECT_EQ(runAlone("*DISABLED_NamedOneFirst"), "");
}

// Everything that may fail or be chatty; run by the next test.
TEST_F(OnnxLibrariesTest, DISABLED_EverythingOnce) {
  std::ofstream(dir_.file("garbage.onnx")) << "no model";
  EXPECT_EQ(load(smallConvolution(), {.library = dir_.file("missing.so")}).engine, nullptr);
  EXPECT_EQ(loadOnnxEngine(dir_.file("garbage.onnx"), {}).engine, nullptr);
  std::vector<std::string> libraries = {""};
  if (const char *other = std::getenv(kOther)) libraries.emplace_back(other);
  for (const std::string &library : libraries) {
    auto loaded = load(smallConvolution(), {.library = library});
    ASSERT_NE(loaded.engine, nullptr) << loaded.failure.error.message();
    expectSmallConvolution(*loaded.engine);
    Cancellation cancel;
    EXPECT_FALSE(loaded.engine->run({}, cancel).ok());
    for (const char *const provider : {"cuda", "tensorrt", "dnnl", "xnnpack", "none"})
      (void)load(smallConvolution(), {.library = library, .provider = provider, .allow_cpu_fallback = true});
    (void)load(smallConvolution(),
               {.library = library, .provider = "none", .provider_options = {{"library", dir_.file("garbage.onnx")}}});
    (void)loadOnnxEngine(dir_.file("garbage.onnx"), {.library = library});
    // an initializer that is an input too, and one that nothing uses: both are warned of
    OnnxModel unused = smallConvolution();
    unused.input("kernel", kOnnxFloat, {1, 1, 2, 2}).constant("unused", {1}, std::vector<float>{1});
    EXPECT_NE(load(unused, {.library = library}).engine, nullptr);
  }
}

TEST_F(OnnxLibrariesTest, NothingReachesStandardError) { EXPECT_EQ(runAlone("*DISABLED_EverythingOnce"), ""); }

} // namespace
