// SPDX-License-Identifier: LGPL-2.1-or-later
// The output of `drm_info -j`, in samples of our own with the structure of its versions 2.1 to 2.7.
#include <drm_fourcc.h>
#include <gtest/gtest.h>

#include "gst/drm/negotiate/engine.h"
#include "gst/drm/profile/device_profile.h"

using namespace gstzc;

namespace {

std::string plane(int id, int type, const char *formats, const std::string &in_formats, const char *more = "") {
  return R"({"id": )" + std::to_string(id) +
         R"(, "possible_crtcs": 1, "crtc_id": 0, "fb_id": 0, "crtc_x": 0, "gamma_size": 0,
    "fb": null, "formats": )" +
         formats + R"(, "properties": {
      "type": {"id": 8, "flags": 12, "type": 8, "atomic": false, "immutable": true, "raw_value": )" +
         std::to_string(type) +
         R"(, "spec": [{"name": "Overlay", "value": 0}, {"name": "Primary", "value": 1}, {"name": "Cursor", "value": 2}],
           "value": )" +
         std::to_string(type) + R"(, "data": null},
      "FB_ID": {"id": 16, "flags": 2147483712, "type": 64, "atomic": true, "immutable": false, "raw_value": 0, "spec":
        4227595259, "value": 0, "data": null},
      "CRTC_ID": {"id": 19, "flags": 2147483712, "raw_value": 0, "spec": 3435973836, "value": 0, "data": null},
      "IN_FENCE_FD": {"id": 17, "flags": 2147483776, "raw_value": 18446744073709551615, "spec": {"min": -1, "max":
        2147483647}, "value": -1, "data": null})" +
         in_formats + more + "}}";
}

std::string inFormats(const std::string &data) {
  return R"(, "IN_FORMATS": {"id": 32, "flags": 20, "type": 16, "atomic": false, "immutable": true, "raw_value": 33, "spec":
    null, "value": null, "data": )" +
         data + "}";
}

std::string device(const std::string &planes, int status = 1, const char *size = "") {
  return R"({"driver": {"name": "i915", "desc": "Intel Graphics", "version": {"major": 1, "minor": 6, "patch": 0, "date": "x"},
    "kernel": {"sysname": "Linux", "release": "6.12.1", "version": "#1"},
    "client_caps": {"ATOMIC": true}, "caps": {"DUMB_BUFFER": 1, "SYNCOBJ": null, "ADDFB2_MODIFIERS": 1}},
    "device": {"bus_type": 0, "device_data": {"vendor": 32902}},)" +
         std::string(size) + R"("connectors": [{"id": 236, "type": 10, "status": )" + std::to_string(status) +
         R"(, "phy_width": 600, "phy_height": 340, "subpixel": 1, "encoder_id": 0, "encoders": [235], "modes": [
      {"clock": 148500, "hdisplay": 1920, "hsync_start": 2008, "hsync_end": 2052, "htotal": 2200, "hskew": 0, "vdisplay":
       1080, "vsync_start": 1084, "vsync_end": 1089, "vtotal": 1125, "vscan": 0, "vrefresh": 60, "flags": 5, "type": 72,
       "name": "1920x1080"}], "properties": {"CRTC_ID": {"id": 20, "flags": 64, "raw_value": 0, "spec": 1, "value": 0}}}],
    "encoders": [{"id": 235, "type": 2, "crtc_id": 0, "possible_crtcs": 1, "possible_clones": 1}],
    "crtcs": [{"id": 80, "fb_id": 0, "x": 0, "y": 0, "mode": null, "gamma_size": 256, "properties": {
      "ACTIVE": {"id": 22, "flags": 2147483650, "raw_value": 0, "spec": {"min": 0, "max": 1}, "value": 0, "data": null},
      "MODE_ID": {"id": 23, "flags": 2147483664, "raw_value": 0, "spec": null, "value": null, "data": null}}}],
    "planes": [)" +
         planes + "]}";
}

// NV12 842094158, XR24 875713112; Y_TILED 72057594037927938
const std::string kVideo =
    plane(31, 1, "[842094158, 875713112]", inFormats(R"([{"modifier": 72057594037927938, "formats": [842094158]},
                        {"modifier": 0, "formats": [842094158, 875713112]},
                        {"modifier": 72057594037927937, "formats": []}])"),
          R"(, "rotation": {"id": 40, "flags": 32, "raw_value": 1, "spec": [{"name": "rotate-0", "value": 0}, {"name":
             "rotate-180", "value": 2}], "value": 1, "data": null})");

DeviceProfile parsed(const std::string &text, const std::string &node = "") {
  auto profile = parseProfile(text, "info.json", node);
  EXPECT_TRUE(profile) << profile.error().message();
  return profile ? profile.take() : DeviceProfile{};
}

TEST(DrmInfo, IsRead) {
  const DeviceProfile p = parsed(
      "{\"/dev/dri/card1\": " +
      device(kVideo, 1, R"("fb_size": {"min_width": 0, "max_width": 16384, "min_height": 0, "max_height": 16384},)") +
      "}");
  const KmsSnapshot &s = p.snapshot;
  EXPECT_EQ(s.path, "/dev/dri/card1");
  EXPECT_EQ(s.driver, "i915");
  EXPECT_EQ(p.provenance, "drm_info, Linux 6.12.1");
  EXPECT_TRUE(s.addfb2_modifiers && s.dumb_buffers);
  EXPECT_EQ(s.max_width, 16384u);
  ASSERT_EQ(s.connectors.size(), 1u);
  EXPECT_EQ(s.connectors[0].name, "DP-1");
  EXPECT_TRUE(s.connectors[0].connected());
  EXPECT_EQ(s.connectors[0].possible_crtcs, 1u);
  EXPECT_EQ(s.connectors[0].modes.at(0).vtotal, 1125);
  EXPECT_EQ(s.crtcs.at(0).id, 80u);
  ASSERT_EQ(s.planes.size(), 1u);
  EXPECT_EQ(s.planes[0].type, uint32_t(DRM_PLANE_TYPE_PRIMARY));
  EXPECT_EQ(s.planes[0].formats,
            (std::vector<DrmFormat>{
                {DRM_FORMAT_NV12, I915_FORMAT_MOD_Y_TILED}, {DRM_FORMAT_NV12, 0}, {DRM_FORMAT_XRGB8888, 0}}));
  EXPECT_EQ(s.planes[0].properties.at("IN_FENCE_FD").value, ~uint64_t{0});
  EXPECT_TRUE(planeRotation(s.planes[0], DRM_MODE_ROTATE_180));
  EXPECT_FALSE(planeRotation(s.planes[0], DRM_MODE_ROTATE_90));
  EXPECT_TRUE(s.planes[0].properties.contains("SRC_W")); // what is needed for commits is there
  FrameNeed need;
  need.format = {DRM_FORMAT_NV12, I915_FORMAT_MOD_Y_TILED};
  EXPECT_EQ(propose(s, 0, need, {}, nullptr).size(), 1u);
  // and can be kept in our schema
  const DeviceProfile again = parsed(writeProfile(p));
  EXPECT_EQ(again.snapshot.planes[0].formats, s.planes[0].formats);
  EXPECT_EQ(again.snapshot.planes[0].properties.size(), s.planes[0].properties.size());
}

TEST(DrmInfo, ChoosesTheNode) {
  const std::string text = "{\"/dev/dri/card0\": null, \"/dev/dri/card1\": " + device(kVideo, 2) +
                           ", \"/dev/dri/card2\": " + device(kVideo, 1) + "}";
  EXPECT_EQ(parsed(text).snapshot.path, "/dev/dri/card2"); // something is connected to it
  EXPECT_EQ(parsed(text).warnings.size(), 1u);
  EXPECT_EQ(parsed(text, "/dev/dri/card1").snapshot.path, "/dev/dri/card1");
  const auto missing = parseProfile(text, "info.json", "/dev/dri/card7");
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().message().find("It has /dev/dri/card1, /dev/dri/card2"), std::string::npos)
      << missing.error().message();
}

TEST(DrmInfo, BlobWithoutPairsIsNoBlob) {
  for (const std::string &blob :
       {std::string(), inFormats("null"), inFormats("[]"), inFormats(R"([{"modifier": 0, "formats": []}])")}) {
    const DeviceProfile p = parsed("{\"/dev/dri/card0\": " + device(plane(31, 1, "[842094158]", blob)) + "}");
    EXPECT_FALSE(p.snapshot.planes.at(0).has_in_formats) << blob;
    EXPECT_EQ(p.snapshot.planes[0].formats, (std::vector<DrmFormat>{{DRM_FORMAT_NV12, 0}}));
  }
}

TEST(DrmInfo, SaysWhatIsWrong) {
  for (const auto &[text, error] : std::initializer_list<std::pair<std::string, const char *>>{
           {device(""), "planes: a list: a display has a plane at least"},
           {device(plane(0, 1, "[842094158]", "")), "planes[0].id: 0: an integer of 1 to"},
           {device(plane(31, 1, "[\"NV12\"]", "")), "planes[0].formats[0]: \"NV12\": an integer"},
           {device(plane(31, 1, "[-1]", "")), "planes[0].formats[0]: -1"},
           {device(plane(31, 1, "[]", inFormats(R"([{"modifier": "0x1", "formats": []}])"))),
            "modifier: \"0x1\": an integer"},
           {R"({"driver": {"name": 3}, "planes": []})", "driver.name: 3: a string is needed"},
           {R"({"driver": {}, "planes": []})", "a display has a CRTC at least"}}) {
    const auto p = parseProfile("{\"/dev/dri/card0\": " + text + "}", "info.json");
    ASSERT_FALSE(p) << error;
    EXPECT_NE(p.error().what.find(error), std::string::npos) << p.error().message();
    EXPECT_NE(p.error().what.find("info.json: /dev/dri/card0"), std::string::npos) << p.error().message();
  }
}

} // namespace
