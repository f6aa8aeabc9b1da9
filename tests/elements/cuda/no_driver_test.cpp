// SPDX-License-Identifier: LGPL-2.1-or-later
// The plugin where no CUDA driver is installed: all that does not need one works, and the first use says what is
// missing.
#include <dlfcn.h>

#include "tests/elements/upload/upload_pipeline.h"

using namespace gstzc::test;

namespace {

class NoDriver : public testing::Test {
protected:
  void SetUp() override {
    if (void *library = dlopen("libcuda.so.1", RTLD_LAZY)) {
      dlclose(library);
      GTEST_SKIP() << "this machine has a CUDA driver";
    }
  }
};

TEST_F(NoDriver, TheElementIsThereWithItsCaps) {
  GstElement *element = gst_element_factory_make("dmabufcudaimport", nullptr);
  ASSERT_NE(element, nullptr);
  GstPad *pad = gst_element_get_static_pad(element, "sink");
  GstCaps *caps = gst_pad_query_caps(pad, nullptr);
  EXPECT_FALSE(gst_caps_is_empty(caps));
  gst_caps_unref(caps);
  gst_object_unref(pad);
  gchar *route = nullptr;
  GstStructure *stats = nullptr;
  g_object_get(element, "chosen-route", &route, "stats", &stats, nullptr);
  EXPECT_EQ(route, nullptr);
  ASSERT_NE(stats, nullptr);
  gst_structure_free(stats);
  gst_object_unref(element);
}

TEST_F(NoDriver, IsOneClearError) {
  Pipeline pipeline("appsrc ! dmabufcudaimport name=up ! fakesink");
  EXPECT_EQ(pipeline.setState(GST_STATE_READY), GST_STATE_CHANGE_FAILURE);
  const std::string text = pipeline.waitEnd();
  EXPECT_NE(text.find("No CUDA driver"), std::string::npos) << text;
  EXPECT_NE(text.find("libcuda.so.1"), std::string::npos) << text;
  EXPECT_EQ(pipeline.errorDomain(), GST_RESOURCE_ERROR);
}

} // namespace
