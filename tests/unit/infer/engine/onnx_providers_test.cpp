// SPDX-License-Identifier: LGPL-2.1-or-later
// Execution providers: those of Debian's ONNX Runtime run a model; those that it does not have are refused.
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include <gst/gst.h>

#include "tests/unit/infer/engine/onnx_helpers.h"

using namespace gstzc::infer;
using namespace gstzc::test;

namespace {

class OnnxProvidersTest : public OnnxFixture {
protected:
  bool offers(const std::string &provider) {
    auto loaded = load(smallConvolution(), {.provider = provider});
    return loaded.engine != nullptr || loaded.failure.error.what.find("is not in ONNX Runtime") == std::string::npos;
  }
};

// What the category fenceinfer-onnx logs at a level while it lives.
class LoggedLines {
public:
  explicit LoggedLines(GstDebugLevel level) : level_(level), active_(gst_debug_is_active()) {
    gst_debug_set_active(TRUE);
    gst_debug_remove_log_function(gst_debug_log_default);
    gst_debug_add_log_function(log, this, nullptr);
    gst_debug_set_threshold_for_name("fenceinfer-onnx", level);
  }
  ~LoggedLines() {
    gst_debug_unset_threshold_for_name("fenceinfer-onnx");
    gst_debug_remove_log_function_by_data(this);
    gst_debug_add_log_function(gst_debug_log_default, nullptr, nullptr);
    gst_debug_set_active(active_);
  }
  const std::vector<std::string> &lines() const { return lines_; }

private:
  static void log(GstDebugCategory *category, GstDebugLevel level, const gchar *, const gchar *, gint, GObject *,
                  GstDebugMessage *message, gpointer data) {
    auto *const self = static_cast<LoggedLines *>(data);
    if (level == self->level_ && g_str_equal(gst_debug_category_get_name(category), "fenceinfer-onnx"))
      self->lines_.emplace_back(gst_debug_message_get(message));
  }
  const GstDebugLevel level_;
  const gboolean active_;
  std::vector<std::string> lines_;
};

TEST_F(OnnxProvidersTest, AutoAndCpuRunOnTheCpu) {
  if (offers("cuda") || offers("migraphx")) GTEST_SKIP() << "this ONNX Runtime has providers for GPUs";
  for (const char *const provider : {"auto", "cpu", "CPU", "CPUExecutionProvider"}) {
    auto loaded = load(smallConvolution(), {.provider = provider});
    ASSERT_NE(loaded.engine, nullptr) << loaded.failure.error.message();
    EXPECT_EQ(loaded.engine->provider(), "cpu") << provider;
    expectSmallConvolution(*loaded.engine);
  }
}

TEST_F(OnnxProvidersTest, NamedOnesOfTheLibraryRun) {
  int ran = 0;
  for (const char *const provider : {"xnnpack", "XnnpackExecutionProvider"}) {
    if (!offers(provider)) continue;
    auto loaded = load(smallConvolution(), {.intra_threads = 2, .provider = provider});
    ASSERT_NE(loaded.engine, nullptr) << loaded.failure.error.message();
    EXPECT_EQ(loaded.engine->provider(), "xnnpack");
    expectSmallConvolution(*loaded.engine);
    ++ran;
  }
  if (ran == 0) GTEST_SKIP() << "this ONNX Runtime has no xnnpack";
}

TEST_F(OnnxProvidersTest, OneThatCannotChangeThreadsIsRefused) {
  auto refused = load(smallConvolution(), {.provider = "DnnlExecutionProvider"});
  ASSERT_EQ(refused.engine, nullptr);
  EXPECT_EQ(refused.failure.kind, LoadFailure::NoProvider);
  EXPECT_FALSE(refused.failure.error.remedy.empty());
  auto instead = load(smallConvolution(), {.provider = "dnnl", .allow_cpu_fallback = true});
  ASSERT_NE(instead.engine, nullptr) << instead.failure.error.message();
  EXPECT_EQ(instead.engine->provider(), "cpu");
}

TEST_F(OnnxProvidersTest, TakeTheirOptions) {
  int ran = 0;
  for (const auto &[provider, key] : {std::pair{"xnnpack", "intra_op_num_threads"}}) {
    if (!offers(provider)) continue;
    auto loaded = load(smallConvolution(), {.provider = provider, .provider_options = {{key, "1"}}});
    ASSERT_NE(loaded.engine, nullptr) << loaded.failure.error.message();
    expectSmallConvolution(*loaded.engine);
    auto wrong = load(smallConvolution(), {.provider = provider, .provider_options = {{key, "many"}}});
    ASSERT_EQ(wrong.engine, nullptr) << provider;
    EXPECT_NE(wrong.failure.error.message().find("many"), std::string::npos) << wrong.failure.error.message();
    EXPECT_EQ(wrong.failure.error.remedy, "Correct provider-options");
    ++ran;
  }
  if (ran == 0) GTEST_SKIP() << "this ONNX Runtime has no xnnpack";
}

TEST_F(OnnxProvidersTest, WhatTheLibraryDoesNotHaveIsAnError) {
  if (offers("cuda") || offers("tensorrt")) GTEST_SKIP() << "this ONNX Runtime has providers for GPUs";
  for (const char *const provider : {"cuda", "tensorrt", "migraphx", "NoSuchExecutionProvider", ""}) {
    auto loaded = load(smallConvolution(), {.provider = provider});
    ASSERT_EQ(loaded.engine, nullptr) << provider;
    EXPECT_EQ(loaded.failure.kind, LoadFailure::NoProvider) << provider;
    const std::string text = loaded.failure.error.message();
    const std::string name = std::string(provider) == "NoSuchExecutionProvider" ? "nosuch" : provider;
    EXPECT_EQ(text.rfind("execution provider " + name + " is not in ONNX Runtime 1.", 0), 0u) << text;
    for (const char *const said :
         {"cpu.", "onnxruntime-library", "GSTZC_ONNXRUNTIME", "execution-provider=cpu", "allow-cpu-fallback=true"})
      EXPECT_NE(text.find(said), std::string::npos) << said << " in: " << text;
  }
}

TEST_F(OnnxProvidersTest, FallBackToTheCpuIsLogged) {
  if (offers("cuda")) GTEST_SKIP() << "this ONNX Runtime has CUDA";
  (void)load(smallConvolution()); // so that the category is there
  const LoggedLines warnings(GST_LEVEL_WARNING);
  auto loaded = load(smallConvolution(), {.provider = "cuda", .allow_cpu_fallback = true});
  ASSERT_NE(loaded.engine, nullptr) << loaded.failure.error.message();
  EXPECT_EQ(loaded.engine->provider(), "cpu");
  expectSmallConvolution(*loaded.engine);
  ASSERT_EQ(warnings.lines().size(), 1u);
  EXPECT_EQ(warnings.lines()[0].rfind("the model runs on the CPU: execution provider cuda is not in", 0), 0u)
      << warnings.lines()[0];
}

TEST_F(OnnxProvidersTest, FallBackDoesNotHideABadModel) {
  std::ofstream(dir_.file("garbage.onnx")) << "no model at all";
  for (const char *const provider : {"cuda", "xnnpack"}) {
    auto loaded = loadOnnxEngine(dir_.file("garbage.onnx"), {.provider = provider, .allow_cpu_fallback = true});
    ASSERT_EQ(loaded.engine, nullptr);
    EXPECT_EQ(loaded.failure.kind, LoadFailure::BadModel) << loaded.failure.error.message();
    EXPECT_NE(loaded.failure.error.what.find("garbage.onnx"), std::string::npos) << loaded.failure.error.message();
  }
}

TEST_F(OnnxProvidersTest, OptionsNeedANamedProvider) {
  for (const char *const provider : {"auto", "cpu"}) {
    auto loaded = load(smallConvolution(), {.provider = provider, .provider_options = {{"device_id", "3"}}});
    ASSERT_EQ(loaded.engine, nullptr) << provider;
    EXPECT_EQ(loaded.failure.kind, LoadFailure::NoProvider);
    EXPECT_NE(loaded.failure.error.what.find("device_id=3"), std::string::npos) << loaded.failure.error.message();
  }
}

// With headers and library of 1.22 or newer the loader is asked and says what is wrong with the file.
TEST_F(OnnxProvidersTest, ProviderLibraryThatCannotBeLoadedIsNamed) {
  const std::string file = dir_.file("libprovider.so");
  std::ofstream(file) << "no library";
  const char *const newer = std::getenv("GSTZC_TEST_ONNXRUNTIME");
  for (const char *const library : {"", newer != nullptr ? newer : ""}) {
    auto loaded =
        load(smallConvolution(), {.library = library, .provider = "some", .provider_options = {{"library", file}}});
    ASSERT_EQ(loaded.engine, nullptr);
    EXPECT_EQ(loaded.failure.kind, LoadFailure::NoProvider);
    const std::string text = loaded.failure.error.message();
    EXPECT_NE(text.find(file), std::string::npos) << text;
    if (text.find("provider libraries need 22") == std::string::npos) {
      EXPECT_EQ(text.rfind("loading the execution provider library " + file + " into ONNX Runtime 1.", 0), 0u) << text;
      EXPECT_TRUE(text.find("file too short") != std::string::npos || text.find("ELF") != std::string::npos) << text;
    }
  }
}

} // namespace
