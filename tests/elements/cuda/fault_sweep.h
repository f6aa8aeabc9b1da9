// SPDX-License-Identifier: LGPL-2.1-or-later
// Pipelines on a driver that fails: each function that they call, once, at each of its first calls.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <thread>

#include "gst/zerocopy/gstzcfencemeta.h"
#include "tests/elements/cuda/import_pipeline.h"
#include "tests/support/open_fds.h"

namespace gstzc::test {

constexpr int kUnknownFailure = 999; // CUresult
constexpr uint64_t kFirstCalls = 3;  // of a function, that fail one after the other

// What came of a pipeline.
struct SweepOutcome {
  bool error = false; // on the bus
  bool wrong = false; // a frame whose pixels are not right, and that does not say so
  unsigned frames = 0;
};

template <typename Fixture> class FaultSweep : public Fixture {
protected:
  void SetUp() override {
    Fixture::SetUp();
    if (!this->IsSkipped() && !SoftCuda::get().there()) GTEST_SKIP() << "a driver cannot be told to fail";
  }

  // To the end of the stream, or an error; `right` for what the device says is complete, and the frame's number.
  void collect(const std::function<bool(GstBuffer *, unsigned)> &right, SweepOutcome *outcome) {
    // by the clock: from a sink at its end nothing comes at once, while the message of that is on its way
    for (const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);;) {
      GstElement *sink = this->pipeline->element("sink");
      if (GstSample *sample = gst_app_sink_try_pull_sample(GST_APP_SINK(sink), 50 * GST_MSECOND)) {
        ++outcome->frames;
        GstBuffer *buffer = gst_sample_get_buffer(sample);
        const auto number = static_cast<unsigned>(GST_BUFFER_PTS(buffer) / (40 * GST_MSECOND));
        if (says(buffer) && !right(buffer, number)) outcome->wrong = true;
        gst_sample_unref(sample);
        continue;
      }
      GstBus *bus = gst_element_get_bus(this->pipeline->get());
      GstMessage *found = gst_bus_pop_filtered(bus, static_cast<GstMessageType>(GST_MESSAGE_EOS | GST_MESSAGE_ERROR));
      gst_object_unref(bus);
      if (found != nullptr) {
        outcome->error = GST_MESSAGE_TYPE(found) == GST_MESSAGE_ERROR;
        gst_message_unref(found);
        return;
      }
      if (std::chrono::steady_clock::now() > deadline) {
        ADD_FAILURE() << "it hangs";
        return;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  // The driver's functions that were called since SoftCuda::reset(), and how often.
  using Calls = std::map<std::string, uint64_t>;
  static Calls calls() {
    Calls made;
    for (const std::string &name : SoftCuda::get().callNames()) made[name] = SoftCuda::get().calls(name.c_str());
    return made;
  }

  // Each of these functions at each of its first calls. `run` arms the driver with what it is given when all that the
  // test itself needs is there, and plays. Whoever else is in the pipeline: an error, or all frames as they have to be.
  void eachFunctionFailsOnce(const Calls &made, unsigned frames, uint64_t first_calls,
                             const std::function<SweepOutcome(const std::function<void()> &)> &run) {
    const size_t fds = openFds();
    for (const auto &[name, times] : made)
      for (unsigned nth = 1; nth <= std::min(times, first_calls); ++nth) {
        SCOPED_TRACE(name + ", call " + std::to_string(nth));
        const SweepOutcome outcome = run([&] {
          SoftCuda::get().reset();
          SoftCuda::get().fail(name.c_str(), nth, kUnknownFailure);
        });
        SoftCuda::get().reset();
        EXPECT_FALSE(outcome.wrong);
        EXPECT_TRUE(outcome.error || outcome.frames == frames) << outcome.frames << " frames and no error";
        EXPECT_TRUE(this->nothingIsLeft()) << SoftCuda::get().liveList();
        if (this->HasFatalFailure()) return;
      }
    EXPECT_LE(openFds(), fds + 4);
    EXPECT_FALSE(run([] {}).error) << "and then it works again";
  }

private:
  // False: its event says that it is not complete, or who maps it is told.
  static bool says(GstBuffer *buffer) {
    if (!gst_buffer_wait_zc_fences(buffer, GST_ZC_FENCE_ACCESS_READ, 20 * GST_SECOND, nullptr)) return false;
    GstMapInfo map;
    if (!gst_buffer_map(buffer, &map, GST_MAP_READ)) return false;
    gst_buffer_unmap(buffer, &map);
    return true;
  }
};

} // namespace gstzc::test
