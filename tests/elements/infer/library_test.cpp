// SPDX-License-Identifier: LGPL-2.1-or-later
// A process of its own, because ONNX Runtime is opened once for each: the library is missing, is something else, and is
// found by name then.
#include "tests/elements/infer/fixture.h"

#include <cstdlib>
#include <fstream>

namespace gstzc::test {
namespace {

class Library : public FenceInferTest {
protected:
  // The error's text, or nothing where the element went to PAUSED.
  std::string pause(const std::string &model) {
    GstElement *element = gst_element_factory_make("fenceinfer", nullptr);
    bus_ = gst_bus_new();
    gst_element_set_bus(element, bus_);
    g_object_set(element, "model-file", model.c_str(), nullptr);
    std::string text;
    if (gst_element_set_state(element, GST_STATE_PAUSED) == GST_STATE_CHANGE_FAILURE) {
      GstMessage *posted = message(GST_MESSAGE_ERROR);
      GError *error = nullptr;
      gst_message_parse_error(posted, &error, nullptr);
      EXPECT_TRUE(g_error_matches(error, GST_LIBRARY_ERROR, GST_LIBRARY_ERROR_INIT));
      text = error->message;
      g_error_free(error);
      gst_message_unref(posted);
    }
    gst_element_set_state(element, GST_STATE_NULL);
    gst_element_set_bus(element, nullptr);
    gst_object_unref(element);
    gst_clear_object(&bus_);
    return text;
  }
};

TEST_F(Library, MissingForeignAndFound) {
  const std::string model = save(constantFaces(128, {}, 0));
  setenv("GSTZC_ONNXRUNTIME", dir_.file("libonnxruntime.so.1").c_str(), 1);
  std::string text = pause(model);
  EXPECT_NE(text.find(dir_.file("libonnxruntime.so.1")), std::string::npos) << text;
  EXPECT_NE(text.find("libonnxruntime1.21"), std::string::npos) << text;

  std::ofstream(dir_.file("libonnxruntime.so.1")) << "no library";
  text = pause(model);
  EXPECT_NE(text.find("GSTZC_ONNXRUNTIME"), std::string::npos) << text;

  setenv("GSTZC_ONNXRUNTIME", "libz.so.1", 1); // a library, but another
  text = pause(model);
  EXPECT_NE(text.find("it is not ONNX Runtime"), std::string::npos) << text;

  unsetenv("GSTZC_ONNXRUNTIME");
  EXPECT_EQ(pause(model), "");
}

} // namespace
} // namespace gstzc::test
