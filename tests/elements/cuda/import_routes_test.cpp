// SPDX-License-Identifier: LGPL-2.1-or-later
// dmabufcudaimport with routes that do not do what they say.
#include "tests/elements/cuda/import_pipeline.h"

#include <map>

using namespace gstzc;
using namespace gstzc::test;

namespace {

class ImportRoutes : public CudaImport {
protected:
  void SetUp() override {
    CudaImport::SetUp();
    if (!IsSkipped() && !SoftCuda::get().there()) GTEST_SKIP() << "a driver cannot be told to import wrongly";
  }
  void begin(const std::string &properties = "") {
    start(sourceLine(kTelling, properties) + " ! appsink name=sink sync=false");
  }
  void showsRight(unsigned seed) {
    const Picture picture(infoOf(kTelling), seed);
    push(frames.buffer(kTelling, picture));
    GstSample *sample = pipeline->pull();
    ASSERT_NE(sample, nullptr) << message(GST_MESSAGE_ERROR);
    EXPECT_TRUE(picture.sameAs(gst_sample_get_buffer(sample), plainInfo(kTelling)));
    gst_sample_unref(sample);
  }
};

// Whichever route the device takes: where it shows the first 2 MiB only, the next one is taken
TEST_F(ImportRoutes, ThatShowWrongContentAreNotTaken) {
  const std::map<std::string, std::string> kinds = {
      {"dmabuf-fd", "dmabuf"}, {"egl-image", "egl"}, {"host-register", "register"}, {"vulkan-bridge", "vulkan"}};
  std::string faults;
  for (size_t i = 0; i < kinds.size(); ++i) {
    SCOPED_TRACE("with the faults " + faults);
    SoftCuda::get().setImportFault(faults.empty() ? nullptr : faults.c_str());
    begin("allow-copy=true");
    showsRight(static_cast<unsigned>(i));
    if (HasFatalFailure()) return;
    const std::string route = chosenRoute();
    EXPECT_TRUE(i > 0 || route != "staged-copy");
    if (route == "staged-copy") return; // the last one
    const auto kind = kinds.find(route);
    ASSERT_NE(kind, kinds.end()) << route;
    ASSERT_EQ(faults.find(kind->second), std::string::npos) << route << " was taken though its content is wrong";
    faults += (faults.empty() ? "" : ",") + kind->second + ":2M";
    pipeline.reset();

    SoftCuda::get().setImportFault(faults.c_str());
    begin("allow-copy=true");
    showsRight(99);
    if (HasFatalFailure()) return;
    EXPECT_EQ(stageOf(route), "wrong-content");
    pipeline.reset();
  }
}

TEST_F(ImportRoutes, ThatAreNamedAndWrongAreAnError) {
  SoftCuda::get().setImportFault("register:2M");
  begin("route=host-register");
  push(frames.buffer(kTelling, Picture(infoOf(kTelling), 1)));
  const std::string text = message(GST_MESSAGE_ERROR, 20 * GST_SECOND);
  EXPECT_NE(text.find("host-register"), std::string::npos) << text;
  EXPECT_EQ(stageOf("host-register"), "wrong-content");
}

TEST_F(ImportRoutes, AreNotTrustedOnAFlatPicture) {
  begin();
  GstMemory *memory = frames.memory(infoOf(kTelling).size); // zeros: right or wrong, they look the same
  push(Frames::buffer(kTelling, memory));
  GstSample *sample = pipeline->pull();
  ASSERT_NE(sample, nullptr) << message(GST_MESSAGE_ERROR);
  gst_sample_unref(sample);
  GstBus *bus = gst_element_get_bus(pipeline->get());
  GstMessage *found = nullptr;
  gboolean trusted = TRUE;
  while ((found = gst_bus_pop_filtered(bus, GST_MESSAGE_ELEMENT)) != nullptr) {
    if (gst_message_has_name(found, "dmabufcudaimport-route"))
      gst_structure_get_boolean(gst_message_get_structure(found), "trusted", &trusted);
    gst_message_unref(found);
  }
  EXPECT_FALSE(trusted);
}

} // namespace
