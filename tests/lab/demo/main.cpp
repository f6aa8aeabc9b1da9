// SPDX-License-Identifier: LGPL-2.1-or-later
// first-light --model FILE --photo FILE --out DIR: both runs in the laboratory; writes DIR/report.json, DIR/display.png
// (what the display showed at the end of run `photo`) and DIR/camera.png. Exit status 1 when a run fails.
// first-light --native --model FILE --out DIR: the run `camera` on this machine's own camera and display; writes
// DIR/report.json. Exit status 3 where one of them is not there, and a line for each says what is missing.
#include <cstdio>
#include <fstream>

#include <gst/gst.h>

#include "tests/lab/demo/first_light.h"
#include "tests/lab/demo/native.h"

namespace {

void summarise(const firstlight::Report &r) {
  std::printf("%-6s  %u frames, %u shown; %zu detections; %llu copies, %llu bytes copied; %u dma-bufs, %u frames not "
              "the source's own; "
              "latency p50 %.1f ms, p95 %.1f ms\n",
              r.name.c_str(), r.frames, r.shown, r.boxes.size(), static_cast<unsigned long long>(r.copies),
              static_cast<unsigned long long>(r.bytes_copied), r.buffers, r.foreign,
              firstlight::percentile(r.latencies_ms, 0.5), firstlight::percentile(r.latencies_ms, 0.95));
  for (const auto &box : r.boxes)
    std::printf("        %s %.2f at %d %d %d %d\n", box.label.c_str(), box.score, box.x1, box.y1, box.x2, box.y2);
}

} // namespace

int main(int argc, char **argv) {
  gchar *model = nullptr, *photo = nullptr, *out = nullptr;
  gint frames = 60;
  gboolean native = FALSE;
  const GOptionEntry entries[] = {
      {"model", 0, 0, G_OPTION_ARG_FILENAME, &model, "BlazeFace front, ONNX", "FILE"},
      {"photo", 0, 0, G_OPTION_ARG_FILENAME, &photo, "PNG with a face", "FILE"},
      {"out", 0, 0, G_OPTION_ARG_FILENAME, &out, "folder for report.json and the pictures", "DIR"},
      {"native", 0, 0, G_OPTION_ARG_NONE, &native, "this machine's own camera and display", nullptr},
      {"frames", 0, 0, G_OPTION_ARG_INT, &frames, "of the camera run", "N"},
      {nullptr, 0, 0, G_OPTION_ARG_NONE, nullptr, nullptr, nullptr}};
  GOptionContext *context = g_option_context_new(nullptr);
  g_option_context_add_main_entries(context, entries, nullptr);
  g_option_context_add_group(context, gst_init_get_option_group());
  GError *error = nullptr;
  const bool parsed = g_option_context_parse(context, &argc, &argv, &error);
  g_option_context_free(context);
  if (!parsed || model == nullptr || (photo == nullptr && !native) || out == nullptr || frames < 1) {
    std::fprintf(stderr, "first-light: %s\n",
                 error != nullptr ? error->message : "--model, --photo and --out are needed");
    return 2;
  }
  const std::string folder = out;

  firstlight::Options options;
  options.model = model;
  if (photo != nullptr) options.photo = photo;
  options.frames = static_cast<unsigned>(frames);
  std::vector<firstlight::Report> reports;
  if (native) {
    const auto devices = firstlight::findNative();
    for (const auto &missing : devices.missing)
      std::fprintf(stderr, "first-light: missing: %s\n", missing.message().c_str());
    if (!devices.missing.empty()) return 3;
    std::printf("camera %s (%s), display %s\n", devices.camera.c_str(), devices.camera_name.c_str(),
                devices.display.c_str());
    auto report = firstlight::runNative(options, devices);
    if (!report) {
      std::fprintf(stderr, "first-light: %s\n", report.error().message().c_str());
      return 1;
    }
    summarise(*report);
    reports.push_back(*report);
  }
  for (const bool camera : {false, true}) {
    if (native) break;
    options.picture = folder + (camera ? "/camera.png" : "/display.png");
    auto report = camera ? firstlight::runCamera(options) : firstlight::runPhoto(options);
    if (!report) {
      std::fprintf(stderr, "first-light: run %s: %s\n", camera ? "camera" : "photo", report.error().message().c_str());
      return 1;
    }
    summarise(*report);
    reports.push_back(*report);
  }

  std::ofstream file(folder + "/report.json");
  file << firstlight::toJson(reports);
  if (!file.flush()) {
    std::fprintf(stderr, "first-light: %s/report.json cannot be written\n", folder.c_str());
    return 1;
  }
  return 0;
}
