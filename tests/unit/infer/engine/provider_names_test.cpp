// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/engine/provider_names.h"

#include <gtest/gtest.h>

using namespace gstzc::infer;

TEST(ProviderNames, KnownByAnyOfTheirNames) {
  struct {
    const char *given, *name, *registered, *appended;
    bool accelerator;
  } const rows[] = {
      {"cpu", "cpu", "CPUExecutionProvider", "CPU", false},
      {"CUDAExecutionProvider", "cuda", "CUDAExecutionProvider", "CUDA", true},
      {"TensorRT", "tensorrt", "TensorrtExecutionProvider", "TensorRT", true},
      {"nvtensorrtrtx", "nvtensorrtrtx", "NvTensorRTRTXExecutionProvider", "NvTensorRtRtx", true},
      {"migraphx", "migraphx", "MIGraphXExecutionProvider", "MIGraphX", true},
      {"XnnpackExecutionProvider", "xnnpack", "XnnpackExecutionProvider", "XNNPACK", false},
      {"xnnpackexecutionprovider", "xnnpack", "XnnpackExecutionProvider", "XNNPACK", false},
      {"openvino", "openvino", "OpenVINOExecutionProvider", "OpenVINO", false},
      {"VitisAI", "vitisai", "VitisAIExecutionProvider", "VitisAI", true},
      {"VitisAIExecutionProvider", "vitisai", "VitisAIExecutionProvider", "VitisAI", true},
      {"auto", "auto", "autoExecutionProvider", "auto", true},
      {"", "", "ExecutionProvider", "", true},
      {"ExecutionProvider", "", "ExecutionProvider", "", true},
  };
  for (const auto &row : rows) {
    const ProviderName found = providerNamed(row.given);
    EXPECT_EQ(found.name, row.name) << row.given;
    EXPECT_EQ(found.registered, row.registered) << row.given;
    EXPECT_EQ(found.appended, row.appended) << row.given;
    EXPECT_EQ(found.accelerator, row.accelerator) << row.given;
  }
}

TEST(ProviderNames, SameWhateverTheForm) {
  EXPECT_TRUE(sameProvider("cuda", "CUDAExecutionProvider"));
  EXPECT_TRUE(sameProvider("XNNPACK", "XnnpackExecutionProvider"));
  EXPECT_FALSE(sameProvider("tensorrt", "NvTensorRTRTXExecutionProvider"));
}

TEST(ProviderNames, ListsAsUsersWriteThem) {
  EXPECT_EQ(listProviders({"DnnlExecutionProvider", "XnnpackExecutionProvider", "CPUExecutionProvider"}),
            "dnnl, xnnpack, cpu");
  EXPECT_EQ(listProviders({}), "");
}
