// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/profile/device_profile.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <thread>

#include <drm_fourcc.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "gst/drm/negotiate/engine.h"
#include "gst/drm/negotiate/explain.h"
#include "tests/support/temp_dir.h"

using namespace gstzc;
using gstzc::test::TempDir;

namespace {

constexpr char kSmall[] = R"({
  "driver": "small", "device": "Small 1", "provenance": "its table", "notes": ["a note"],
  "planes": [
    {"type": "Primary/Overlay", "label": "A", "formats": ["XR24", "NV12", "C8  "],
     "in_formats": [{"modifier": "0x0100000000000002", "name": "Y", "formats": ["NV12", "XR24"]},
                    {"modifier": "0x0000000000000000", "formats": ["XR24", "NV12", "C8  "]}]},
    {"type": "Primary/Overlay", "label": "B", "formats": ["NV12"], "in_formats": []}
  ]
})";

DeviceProfile parsed(const std::string &text) {
  auto profile = parseProfile(text, "test.json");
  EXPECT_TRUE(profile) << profile.error().message();
  return profile ? profile.take() : DeviceProfile{};
}

TEST(Profile, FewestKeys) {
  const DeviceProfile p = parsed(kSmall);
  const KmsSnapshot &s = p.snapshot;
  EXPECT_EQ(s.driver, "small");
  EXPECT_EQ(p.device, "Small 1");
  EXPECT_EQ(p.notes, (std::vector<std::string>{"a note"}));
  EXPECT_TRUE(p.warnings.empty());
  ASSERT_EQ(s.planes.size(), 2u);
  EXPECT_EQ(s.planes[0].type, uint32_t(DRM_PLANE_TYPE_PRIMARY)); // the first of "Primary/Overlay"
  EXPECT_EQ(s.planes[1].type, uint32_t(DRM_PLANE_TYPE_OVERLAY));
  EXPECT_EQ(s.planes[0].label, "A");
  EXPECT_TRUE(s.planes[0].has_in_formats);
  // by format, as from a blob, and with a format in the order of modifiers
  EXPECT_EQ(s.planes[0].formats, (std::vector<DrmFormat>{{DRM_FORMAT_XRGB8888, I915_FORMAT_MOD_Y_TILED},
                                                         {DRM_FORMAT_XRGB8888, 0},
                                                         {DRM_FORMAT_NV12, I915_FORMAT_MOD_Y_TILED},
                                                         {DRM_FORMAT_NV12, 0},
                                                         {DRM_FORMAT_C8, 0}}));
  EXPECT_FALSE(s.planes[1].has_in_formats); // the property is absent
  EXPECT_EQ(s.planes[1].formats, (std::vector<DrmFormat>{{DRM_FORMAT_NV12, 0}}));
  EXPECT_FALSE(s.planes[0].limits); // silent: for TEST_ONLY to say
  EXPECT_TRUE(s.addfb2_modifiers);
  EXPECT_TRUE(s.dumb_buffers);
  ASSERT_EQ(s.connectors.size(), 1u);
  EXPECT_EQ(s.connectors[0].name, "Virtual-1");
  EXPECT_TRUE(s.connectors[0].connected());
  EXPECT_EQ(s.connectors[0].modes.size(), 4u);
  EXPECT_EQ(s.connectors[0].modes[0].hdisplay, 1920);
  EXPECT_TRUE(s.connectors[0].modes[0].type & DRM_MODE_TYPE_PREFERRED);
  EXPECT_EQ(s.crtcs.size(), 1u);
  EXPECT_EQ(s.planes[0].possible_crtcs, 1u);
  const auto output = chooseOutput(s, "");
  EXPECT_TRUE(output);
}

TEST(Profile, IdsAreDistinctAndAtomicPropertiesComplete) {
  const KmsSnapshot s = parsed(kSmall).snapshot;
  std::vector<uint32_t> ids;
  const auto add = [&](const auto &objects) {
    for (const auto &o : objects) {
      ids.push_back(o.id);
      for (const auto &[name, p] : o.properties) ids.push_back(p.id);
    }
  };
  add(s.connectors);
  add(s.crtcs);
  add(s.planes);
  EXPECT_EQ(std::count(ids.begin(), ids.end(), 0u), 0);
  std::sort(ids.begin(), ids.end());
  EXPECT_EQ(std::adjacent_find(ids.begin(), ids.end()), ids.end());
  for (const char *name : {"type", "FB_ID", "CRTC_ID", "SRC_X", "SRC_Y", "SRC_W", "SRC_H", "CRTC_X", "CRTC_Y", "CRTC_W",
                           "CRTC_H", "IN_FENCE_FD", "IN_FORMATS"})
    EXPECT_TRUE(s.planes[0].properties.contains(name)) << name;
  EXPECT_FALSE(s.planes[1].properties.contains("IN_FORMATS"));
  for (const char *name : {"ACTIVE", "MODE_ID", "OUT_FENCE_PTR"})
    EXPECT_TRUE(s.crtcs[0].properties.contains(name)) << name;
  EXPECT_TRUE(s.connectors[0].properties.contains("CRTC_ID"));
}

constexpr char kFull[] = R"({
  "driver": "full", "path": "/dev/dri/card9", "min_size": [16, 16], "max_size": [8192, 4096],
  "caps": {"addfb2_modifiers": true, "dumb_buffers": false},
  "crtcs": [{"id": 40}, {"id": 41, "active": true, "mode": "640x480@60", "properties": {"OUT_FENCE_PTR": null}}],
  "connectors": [
    {"type": "HDMI-A", "modes": ["1280x720@50", "1920x1080"], "possible_crtcs": [1], "crtc": 1},
    {"type": "HDMI-A", "status": "disconnected"},
    {"type": "Writeback", "name": "Writeback-1", "modes": [{"name": "64x48", "clock": 300, "hdisplay": 64,
      "hsync_start": 65, "hsync_end": 66, "htotal": 70, "vdisplay": 48, "vsync_start": 49, "vsync_end": 50, "vtotal": 60}]}],
  "planes": [
    {"type": "Primary", "formats": ["XR24"], "in_formats": [{"modifier": "0x0"}], "zpos": 0, "possible_crtcs": [0]},
    {"type": "Overlay", "label": "V", "count": 3, "formats": ["NV12"], "in_formats": [{"modifier": 0}], "zpos": {"min": 1, "max": 7},
     "rotation": ["rotate-0", "rotate-180"], "alpha": true,
     "properties": {"IN_FENCE_FD": null, "COLOR_RANGE": {"type": "enum", "values": ["limited", "full"], "value": "full"}},
     "limits": [{"formats": ["NV12"], "modifiers": ["0x0"], "min_size": [8, 4], "max_size": [4096, 2304],
                 "scaling": {"min": 0.125, "max": 8}, "even": true}, {"scaling": false}]}],
  "quirks": {"in_fence_fd": "EPERM", "no_foreign_memory": true, "needs_primary": true},
  "refuses": [{"plane": "V", "type": "Overlay", "formats": ["NV12"], "modifiers": ["0x0"], "min_size": [1, 1],
               "max_size": [64, 64], "scaled": true, "rotation": ["rotate-180"], "error": "ENOSPC", "why": "too dear"}],
  "planets": 9
})";

TEST(Profile, EveryKey) {
  const DeviceProfile p = parsed(kFull);
  const KmsSnapshot &s = p.snapshot;
  EXPECT_EQ(p.warnings, (std::vector<std::string>{"planets is not known: ignored"}));
  EXPECT_EQ(s.path, "/dev/dri/card9");
  EXPECT_EQ(s.max_height, 4096u);
  EXPECT_FALSE(s.dumb_buffers);
  ASSERT_EQ(s.crtcs.size(), 2u);
  EXPECT_EQ(s.crtcs[1].id, 41u);
  EXPECT_TRUE(s.crtcs[1].active);
  EXPECT_EQ(s.crtcs[1].mode->hdisplay, 640);
  EXPECT_FALSE(s.crtcs[1].properties.contains("OUT_FENCE_PTR")); // null: it has none
  ASSERT_EQ(s.connectors.size(), 3u);
  EXPECT_EQ(s.connectors[0].name, "HDMI-A-1");
  EXPECT_EQ(s.connectors[1].name, "HDMI-A-2");
  EXPECT_EQ(s.connectors[0].possible_crtcs, 2u);
  EXPECT_EQ(s.connectors[0].crtc, 41u);
  EXPECT_EQ(s.connectors[1].status, DRM_MODE_DISCONNECTED);
  EXPECT_TRUE(s.connectors[2].writeback());
  EXPECT_EQ(s.connectors[2].modes.at(0).htotal, 70);
  ASSERT_EQ(s.planes.size(), 4u);
  EXPECT_EQ(s.planes[0].possible_crtcs, 1u);
  EXPECT_EQ(s.planes[1].possible_crtcs, 3u);
  EXPECT_TRUE(s.planes[0].properties.at("zpos").immutable());
  EXPECT_EQ(s.planes[1].properties.at("zpos").named("max"), 7u);
  EXPECT_EQ(planeRotation(s.planes[1], DRM_MODE_ROTATE_180), uint32_t(DRM_MODE_ROTATE_180));
  EXPECT_FALSE(planeRotation(s.planes[1], DRM_MODE_ROTATE_90));
  EXPECT_EQ(s.planes[1].properties.at("alpha").named("max"), 0xffffu);
  EXPECT_FALSE(s.planes[1].properties.contains("IN_FENCE_FD"));
  EXPECT_EQ(s.planes[1].properties.at("COLOR_RANGE").value, 1u);
  const PlaneFormatLimits l = limitsOf(s.planes[1], {DRM_FORMAT_NV12, 0});
  EXPECT_EQ(l.max_width, 4096u);
  EXPECT_EQ(l.min_height, 4u);
  EXPECT_EQ(l.min_scale, 0.125);
  EXPECT_EQ(l.scaling, false);
  EXPECT_EQ(l.even, true);
  EXPECT_EQ(p.quirks.in_fence_fd, EPERM);
  EXPECT_TRUE(p.quirks.no_foreign_memory && p.quirks.needs_primary);
  ASSERT_EQ(p.refusals.size(), 1u);
  EXPECT_EQ(p.refusals[0].error, ENOSPC);
  EXPECT_EQ(p.refusals[0].why, "too dear");
}

TEST(Profile, WrittenAndReadIsTheSame) {
  for (const char *text : {kSmall, kFull}) {
    const std::string once = writeProfile(parsed(text));
    const DeviceProfile again = parsed(once);
    EXPECT_TRUE(again.warnings.empty());
    EXPECT_TRUE(writeProfile(again) == once); // not printed: it is long
    const KmsSnapshot a = parsed(text).snapshot, &b = again.snapshot;
    ASSERT_EQ(a.planes.size(), b.planes.size());
    for (size_t i = 0; i < a.planes.size(); ++i) {
      EXPECT_EQ(a.planes[i].formats, b.planes[i].formats);
      EXPECT_EQ(a.planes[i].id, b.planes[i].id);
      EXPECT_EQ(a.planes[i].has_in_formats, b.planes[i].has_in_formats);
      EXPECT_EQ(a.planes[i].properties.size(), b.planes[i].properties.size());
    }
  }
}

struct BadCase {
  const char *what;
  const char *text;
  const char *error;
};
class BadProfile : public testing::TestWithParam<BadCase> {};
TEST_P(BadProfile, NamesPlaceAndValue) {
  const auto p = parseProfile(GetParam().text, "bad.json");
  ASSERT_FALSE(p);
  EXPECT_NE(p.error().what.find(GetParam().error), std::string::npos) << p.error().message();
  EXPECT_EQ(p.error().what.find("bad.json: "), 0u) << p.error().message();
}
#define PLANE(keys) R"({"planes": [{"type": "Primary", "formats": ["NV12"])" keys "}]}"
INSTANTIATE_TEST_SUITE_P(
    Cases, BadProfile,
    testing::Values(
        BadCase{"empty", "", "not JSON: it is empty"}, BadCase{"no_json", "hello", "only strings may have"},
        BadCase{"comment", "{} // no", "only strings may have"}, BadCase{"cut", "{\"planes\": [", "not JSON"},
        BadCase{"list", "[1]", "the whole: a list: an object is needed"},
        BadCase{"two_values", "1{\"planes\": []}", "an object is needed"},
        BadCase{"two_objects", "{\"planes\": []} {}", "there is more after its end, at byte 15"},
        BadCase{"number", "7", "an object is needed"}, BadCase{"null", "null", "an object is needed"},
        BadCase{"nothing_in_it", "{}", "planes: nothing: the list of planes is needed"},
        BadCase{"no_planes", "{\"planes\": []}", "planes: a list: a display has a plane at least"},
        BadCase{"planes_of_another_type", "{\"planes\": 3}", "planes: 3: a list is needed"},
        BadCase{"plane_of_another_type", "{\"planes\": [3]}", "planes[0]: 3: an object is needed"},
        BadCase{"driver", "{\"driver\": [], \"planes\": []}", "driver: a list: a string is needed"},
        BadCase{"plane_type", "{\"planes\": [{\"type\": \"Upper\", \"formats\": [\"NV12\"]}]}",
                "planes[0].type: \"Upper\": Primary, Overlay or Cursor is needed"},
        BadCase{"no_plane_type", "{\"planes\": [{\"formats\": [\"NV12\"]}]}", "planes[0].type: nothing"},
        BadCase{"no_formats", "{\"planes\": [{\"type\": \"Primary\"}]}",
                "planes[0]: an object: the key formats is needed"},
        BadCase{"fourcc", "{\"planes\": [{\"type\": \"Primary\", \"formats\": [\"NV12\", \"nv21\"]}]}",
                "planes[0].formats[1]: \"nv21\": a fourcc"},
        BadCase{"fourcc_empty", "{\"planes\": [{\"type\": \"Primary\", \"formats\": [\"\"]}]}",
                "planes[0].formats[0]: \"\""},
        BadCase{"modifier", PLANE(R"(, "in_formats": [{"modifier": "0xg"}])"),
                "planes[0].in_formats[0].modifier: \"0xg\": a modifier is needed"},
        BadCase{"modifier_too_long", PLANE(R"(, "in_formats": [{"modifier": "0x10000000000000000"}])"),
                "a modifier is needed"},
        BadCase{"no_modifier", PLANE(R"(, "in_formats": [{}])"),
                "planes[0].in_formats[0]: an object: the key modifier"},
        BadCase{"pair_of_another_format", PLANE(R"(, "in_formats": [{"modifier": "0x0", "formats": ["XR24"]}])"),
                "XR24 is not among the plane's formats"},
        BadCase{"count", PLANE(R"(, "count": 0)"), "planes[0].count: 0: an integer of 1 to 256 is needed"},
        BadCase{"count_in_all",
                "{\"planes\": [{\"type\": \"Overlay\", \"formats\": [\"NV12\"], \"count\": 200}, {\"type\": "
                "\"Overlay\", \"formats\": [\"NV12\"], \"count\": 200}]}",
                "planes[1].count: 200: more than 256 planes"},
        BadCase{"crtc_index", PLANE(R"(, "possible_crtcs": [1])"),
                "planes[0].possible_crtcs[0]: 1: an integer of 0 to 0"},
        BadCase{"zpos", PLANE(R"(, "zpos": -1)"), "planes[0].zpos: -1"},
        BadCase{"zpos_type", PLANE(R"(, "zpos": "top")"), "planes[0].zpos: \"top\": an object is needed"},
        BadCase{"rotation", PLANE(R"(, "rotation": ["rotate-45"])"), "planes[0].rotation[0]: \"rotate-45\""},
        BadCase{"alpha", PLANE(R"(, "alpha": 1)"), "planes[0].alpha: 1: true or false is needed"},
        BadCase{"scaling", PLANE(R"(, "limits": {"scaling": {"max": 1e999}})"),
                "planes[0].limits.scaling.max: a number that is too large: a number of"},
        BadCase{"size", PLANE(R"(, "limits": [{"max_size": [100]}])"), "planes[0].limits[0].max_size: a list: a size"},
        BadCase{"size_of_nothing", PLANE(R"(, "limits": [{"max_size": [0, 100]}])"),
                "max_size[0]: 0: an integer of 1 to 32767"},
        BadCase{"max_size", "{\"max_size\": 7, \"planes\": []}", "max_size: 7: a list is needed"},
        BadCase{"property_value", PLANE(R"(, "properties": {"P": {"type": "enum", "values": ["a"], "value": "b"}})"),
                "planes[0].properties.P.value: \"b\": this is not among"},
        BadCase{"property_type", PLANE(R"(, "properties": {"P": {"type": "thing"}})"), "properties.P.type: \"thing\""},
        BadCase{"id_twice", "{\"crtcs\": [{\"id\": 3}, {\"id\": 3}], \"planes\": []}",
                "crtcs[1].id: 3: another object"},
        BadCase{"no_crtc", "{\"crtcs\": [], \"planes\": []}", "crtcs: a list: a display has a CRTC at least"},
        BadCase{"too_many_crtcs", "{\"crtcs\": 33, \"planes\": []}", "crtcs: 33: an integer of 1 to 32"},
        BadCase{"mode", "{\"connectors\": [{\"modes\": [\"wide\"]}], \"planes\": []}",
                "connectors[0].modes[0]: \"wide\""},
        BadCase{"mode_of_no_size", "{\"connectors\": [{\"modes\": [\"0x0@0\"]}], \"planes\": []}",
                "connectors[0].modes[0]: \"0x0@0\": it has a side outside 1 to 16384"},
        BadCase{"refresh", "{\"connectors\": [{\"modes\": [\"10x10@1e9\"]}], \"planes\": []}",
                "connectors[0].modes[0]"},
        BadCase{"timings", "{\"connectors\": [{\"modes\": [{\"hdisplay\": 5}]}], \"planes\": []}",
                "connectors[0].modes[0]: an object: timings need"},
        BadCase{"status", "{\"connectors\": [{\"status\": \"on\"}], \"planes\": []}", "connectors[0].status: \"on\""},
        BadCase{"connector_type", "{\"connectors\": [{\"type\": \"SCART\"}], \"planes\": []}",
                "connectors[0].type: \"SCART\""},
        BadCase{"quirk",
                R"({"quirks": {"in_fence_fd": "ENOPE"}, "planes": [{"type": "Primary", "formats": ["NV12"]}]})",
                "quirks.in_fence_fd: \"ENOPE\": the name of an errno"},
        BadCase{"zpos_upside_down", PLANE(R"(, "zpos": {"min": 5, "max": 1})"),
                "planes[0].zpos: an object: min is larger than max"},
        BadCase{"zpos_value", PLANE(R"(, "zpos": {"min": 1, "max": 5, "value": 6})"),
                "planes[0].zpos.value: 6: it is not between"},
        BadCase{"sizes_upside_down", "{\"min_size\": [64, 64], \"max_size\": [128, 32], \"planes\": []}",
                "min_size: a list: min_size is larger than max_size"},
        BadCase{"limits_upside_down", PLANE(R"(, "limits": {"min_size": [64, 64], "max_size": [32, 128]})"),
                "planes[0].limits.min_size: a list: min_size is larger"},
        BadCase{"scaling_upside_down", PLANE(R"(, "limits": {"scaling": {"min": 2, "max": 0.5}})"),
                "planes[0].limits.scaling: an object: min is larger than max"},
        BadCase{
            "refusal_upside_down",
            R"({"refuses": [{"min_size": [9, 9], "max_size": [9, 8], "error": "EINVAL"}], "planes": [{"type": "Primary",
                "formats": ["NV12"]}]})",
            "refuses[0].min_size: a list: min_size is larger"},
        BadCase{"refusal_of_no_plane",
                R"({"refuses": [{"plane": "top", "error": "EINVAL"}], "planes": [{"type": "Primary", "label": "Top",
                "formats": ["NV12"]}]})",
                "refuses[0].plane: \"top\": no plane has this label"},
        BadCase{"refusal_without_error", R"({"refuses": [{}], "planes": [{"type": "Primary", "formats": ["NV12"]}]})",
                "refuses[0]: an object: the key error is needed"}),
    [](const auto &i) { return std::string(i.param.what); });

TEST(BadProfiles, Bounds) {
  const auto refused = [](const std::string &text, const char *why) {
    const auto p = parseProfile(text, "big.json");
    ASSERT_FALSE(p) << why;
    EXPECT_NE(p.error().what.find(why), std::string::npos) << p.error().message();
  };
  refused(std::string(kMaxProfileBytes + 1, ' '), "more than 8388608 bytes, which no description");
  refused(std::string(100000, '[') + std::string(100000, ']'), "nested more than 32 deep");
  std::string nested = "{\"notes\": ";
  for (int i = 0; i < 100000; ++i) nested += "{\"a\":";
  refused(nested, "nested more than 32 deep");
  const auto list = [](size_t n, const std::string &entry) {
    std::string text = "[" + entry;
    for (size_t i = 1; i < n; ++i) text += "," + entry;
    return text + "]";
  };
  const std::string plane = R"({"type": "Overlay", "formats": ["NV12"]})";
  refused("{\"planes\": " + list(kMaxProfileObjects + 1, plane) + "}", "planes: a list: more than 256 entries");
  refused(R"({"planes": [{"type": "Overlay", "formats": )" + list(kMaxPlaneFormats + 1, "\"NV12\"") + "}]}",
          "planes[0].formats: a list: more than 512 entries");
  refused(R"({"planes": [{"type": "Overlay", "formats": ["NV12"], "in_formats": )" +
              list(kMaxPlaneModifiers + 1, R"({"modifier": "0x1"})") + "}]}",
          "more than 512 entries");
  refused(R"({"planes": [{"type": "Overlay", "formats": )" + list(500, "\"NV12\"") + R"(, "in_formats": )" +
              list(500, R"({"modifier": "0x1"})") + "}]}",
          "more than 32768 pairs");
  std::string values; // a group multiplies what it has
  for (int i = 0; i < 4000; ++i) values += (i == 0 ? "\"" : ",\"") + std::string(60, 'v') + std::to_string(i) + "\"";
  std::string properties;
  for (int i = 0; i < 20; ++i)
    properties += (i == 0 ? "\"P" : ",\"P") + std::to_string(i) + R"(": {"type": "enum", "values": [)" + values + "]}";
  refused(R"({"planes": [{"type": "Overlay", "formats": ["NV12"], "count": 200, "properties": {)" + properties + "}}]}",
          "planes[0]: an object: more than a display's planes have");
  refused("{\"driver\": \"" + std::string(5000, 'x') + "\", \"planes\": []}", "longer than 4096 bytes");
  refused(std::string("{\"driver\": \"\0\"}", 15), "not JSON");
  refused("{\"driver\": \"\xff\"}", "not JSON");
}

TEST(BadProfiles, Files) {
  const auto missing = loadProfile("/nonexistent/p.json");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ENOENT);
  EXPECT_FALSE(loadProfile("/dev/zero")); // no file: it would never end
  EXPECT_FALSE(loadProfile("/"));
}

TEST(BadProfiles, AreCalledByTheirPath) {
  const TempDir dir;
  std::ofstream(dir.file("p.json")) << "{\"planes\": 3}";
  const auto bad = loadProfile(dir.file("p.json"));
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().what.find(dir.file("p.json") + ": planes: 3"), 0u) << bad.error().what;
  std::ofstream(dir.file("p.json")) << kSmall;
  const auto good = loadProfile(dir.file("p.json"));
  ASSERT_TRUE(good) << good.error().message();
  EXPECT_EQ(good->snapshot.path, "p.json") << "the device's name is short";
  const auto chosen = loadProfile(dir.file("p.json"), "/dev/dri/card1");
  ASSERT_FALSE(chosen);
  EXPECT_NE(chosen.error().what.find("has no device \"/dev/dri/card1\" to choose"), std::string::npos)
      << chosen.error().what;
}

// What a shell gives for <(command), whoever is faster.
TEST(Profile, ThroughAPipe) {
  const TempDir dir;
  const std::string pipe = dir.file("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  std::thread writer([&] {
    std::ofstream out(pipe); // waits for who reads
    const std::string text = kSmall;
    out << text.substr(0, 40) << std::flush;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    out << text.substr(40);
  });
  const auto profile = loadProfile(pipe);
  writer.join();
  ASSERT_TRUE(profile) << profile.error().message();
  EXPECT_EQ(writeProfile(*profile), [&] {
    DeviceProfile same = parsed(kSmall);
    same.snapshot.path = "pipe";
    return writeProfile(same);
  }());
}

TEST(TestPlane, LimitsRefusalsAndWhatNobodyKnows) {
  DeviceProfile p = parsed(kFull);
  PlaneTest t;
  t.plane = 1;
  t.format = {DRM_FORMAT_NV12, 0};
  t.source = {0, 0, 640, 480};
  t.target = {100, 100, 640, 480};
  EXPECT_EQ(testPlane(p, t).error, 0) << testPlane(p, t).why;
  EXPECT_FALSE(testPlane(p, t).open);
  t.target.width = 320;
  EXPECT_EQ(testPlane(p, t).error, ERANGE); // by limits: pixel for pixel
  t.target = {0, 0, 640, 480};
  t.format.modifier = I915_FORMAT_MOD_Y_TILED;
  EXPECT_EQ(testPlane(p, t).error, EINVAL);
  t.format.modifier = 0;
  t.buffer_width = 600; // the source is not within it
  t.buffer_height = 480;
  EXPECT_EQ(testPlane(p, t).error, ENOSPC);
  t.buffer_width = t.buffer_height = 0;
  t.rotation = DRM_MODE_ROTATE_90;
  EXPECT_EQ(testPlane(p, t).error, EINVAL);
  t.rotation = DRM_MODE_ROTATE_180;
  EXPECT_EQ(testPlane(p, t).error, 0);
  t.source = {0, 0, 64, 64};
  t.target = {0, 0, 128, 128};
  EXPECT_EQ(testPlane(p, t).error, ENOSPC); // what the profile says that TEST_ONLY refuses
  EXPECT_EQ(testPlane(p, t).why, "too dear");
  t.plane = 0;
  t.rotation = 0;
  t.format = {DRM_FORMAT_XRGB8888, 0};
  EXPECT_EQ(testPlane(p, t).error, 0);
  EXPECT_TRUE(testPlane(p, t).open);
  t.plane = 99;
  EXPECT_EQ(testPlane(p, t).error, EINVAL);
}

TEST(Explain, ProfilesDecideWhatSnapshotsLeaveOpen) {
  DeviceProfile p = parsed(kSmall);
  FrameNeed need;
  need.format = {DRM_FORMAT_NV12, I915_FORMAT_MOD_Y_TILED};
  need.width = 1920;
  need.height = 1080;
  Explanation e = explain(p, 0, need, {});
  EXPECT_TRUE(e.shown);
  EXPECT_EQ(e.choice->plane, 0u);
  EXPECT_NE(toText(e).find("if TEST_ONLY agrees"), std::string::npos) << toText(e);
  ProfileRefusal r;
  r.fourccs = {DRM_FORMAT_NV12};
  r.error = EINVAL;
  r.why = "no YCbCr today";
  p.refusals.push_back(r);
  e = explain(p, 0, need, {});
  EXPECT_FALSE(e.shown);
  EXPECT_NE(toText(e).find("no YCbCr today"), std::string::npos) << toText(e);
  ASSERT_FALSE(e.near_misses.empty());
  EXPECT_TRUE(explain(p.snapshot, 0, need, {}).shown); // without the profile's knowledge
  EXPECT_FALSE(explain(p, 5, need, {}).shown);
}

} // namespace
