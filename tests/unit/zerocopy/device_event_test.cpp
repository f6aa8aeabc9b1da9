// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/zerocopy/gstzcdeviceevent.h"

#include <atomic>
#include <cerrno>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>

#include "gst/zerocopy/core/unique_fd.h"
#include "tests/support/open_fds.h"

using namespace gstzc;
using gstzc::test::openFds;

namespace {

bool readable(int fd) {
  pollfd request = {fd, POLLIN, 0};
  return poll(&request, 1, 0) == 1;
}

struct Counted {
  int status = 0;
  int *freed;
};

const GstZcDeviceEventFuncs counted_funcs = {
    "counted",
    [](gpointer data) { return static_cast<Counted *>(data)->status; },
    [](gpointer) { return -ENOSYS; },
    [](gpointer data) { return data; },
    [](gpointer data) { ++*static_cast<Counted *>(data)->freed; },
    {},
};

TEST(DeviceEvent, IsWhatItsFunctionsSayUntilTheLastReference) {
  int freed = 0;
  Counted counted{0, &freed};
  GstZcDeviceEvent *event = gst_zc_device_event_new(&counted_funcs, &counted);
  EXPECT_STREQ(gst_zc_device_event_get_kind(event), "counted");
  EXPECT_EQ(gst_zc_device_event_get_native(event), &counted);
  EXPECT_EQ(gst_zc_device_event_get_status(event), 0);
  counted.status = -EIO;
  EXPECT_EQ(gst_zc_device_event_get_status(event), -EIO);
  EXPECT_EQ(gst_zc_device_event_make_fd(event), -ENOSYS);
  auto *second = static_cast<GstZcDeviceEvent *>(g_boxed_copy(GST_TYPE_ZC_DEVICE_EVENT, event));
  EXPECT_EQ(second, event);
  gst_zc_device_event_unref(event);
  EXPECT_EQ(freed, 0);
  g_boxed_free(GST_TYPE_ZC_DEVICE_EVENT, second);
  EXPECT_EQ(freed, 1);
}

TEST(DeviceEvent, AnEventfdIsDoneOnceItIsReadable) {
  const size_t before = openFds();
  {
    const UniqueFd signal(eventfd(0, EFD_CLOEXEC));
    GError *error = nullptr;
    GstZcDeviceEvent *event = gst_zc_device_event_new_eventfd(UniqueFd::duplicate(signal.get()).release(), &error);
    ASSERT_NE(event, nullptr) << error->message;
    EXPECT_STREQ(gst_zc_device_event_get_kind(event), "eventfd");
    EXPECT_EQ(gst_zc_device_event_get_native(event), nullptr);
    EXPECT_EQ(gst_zc_device_event_get_status(event), 0);
    const UniqueFd fd(gst_zc_device_event_make_fd(event));
    ASSERT_TRUE(fd.isValid());
    EXPECT_FALSE(readable(fd.get()));
    eventfd_write(signal.get(), 1);
    EXPECT_TRUE(readable(fd.get()));
    EXPECT_EQ(gst_zc_device_event_get_status(event), 1);
    EXPECT_EQ(gst_zc_device_event_get_status(event), 1) << "nobody reads it, so it stays done";
    gst_zc_device_event_unref(event);
  }
  EXPECT_EQ(openFds(), before);
}

TEST(DeviceEvent, APipeWhoseWriterIsGoneHasFailed) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  UniqueFd writer(ends[1]);
  GstZcDeviceEvent *event = gst_zc_device_event_new_eventfd(ends[0], nullptr);
  ASSERT_NE(event, nullptr);
  EXPECT_EQ(gst_zc_device_event_get_status(event), 0);
  writer.reset();
  EXPECT_EQ(gst_zc_device_event_get_status(event), -EPIPE);
  gst_zc_device_event_unref(event);
}

TEST(DeviceEvent, ReferencesAreCountedInAllThreads) {
  int freed = 0;
  Counted counted{1, &freed};
  GstZcDeviceEvent *event = gst_zc_device_event_new(&counted_funcs, &counted);
  const auto churn = [event] {
    for (int i = 0; i < 10000; ++i) gst_zc_device_event_unref(gst_zc_device_event_ref(event));
  };
  std::thread a(churn), b(churn);
  a.join();
  b.join();
  EXPECT_EQ(freed, 0);
  gst_zc_device_event_unref(event);
  EXPECT_EQ(freed, 1);
}

} // namespace
