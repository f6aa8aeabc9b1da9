// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/zerocopy/fence_policy.h"

#include <cerrno>

#include <gtest/gtest.h>

using namespace gstzc;
using namespace std::chrono_literals;

namespace {

TEST(FencePolicy, WhatSignalledIsUsed) {
  for (const auto policy : {GST_ZC_ON_FENCE_ERROR_DROP, GST_ZC_ON_FENCE_ERROR_PASS, GST_ZC_ON_FENCE_ERROR_ERROR}) {
    const auto verdict = judgeFence(FenceResult{FenceOutcome::Signalled, 0, 5}, policy, 1s);
    EXPECT_EQ(verdict.fate, FrameFate::Use);
    EXPECT_TRUE(verdict.error.message().empty());
  }
}

TEST(FencePolicy, EveryOtherEndIsJudgedByThePolicy) {
  const FenceResult ends[] = {
      {FenceOutcome::Failed, EIO, 5}, {FenceOutcome::TimedOut, ETIMEDOUT, 5}, {FenceOutcome::Cancelled, ECANCELED, 5}};
  struct {
    GstZcOnFenceError policy;
    FrameFate fate;
    const char *says;
  } const rows[] = {
      {GST_ZC_ON_FENCE_ERROR_DROP, FrameFate::Drop, "dropped"},
      {GST_ZC_ON_FENCE_ERROR_PASS, FrameFate::Pass, "passed on"},
      {GST_ZC_ON_FENCE_ERROR_ERROR, FrameFate::Fail, "on-fence-error=drop or pass"},
  };
  for (const auto &row : rows) {
    for (const FenceResult &end : ends) {
      const auto verdict = judgeFence(end, row.policy, 250ms);
      EXPECT_EQ(verdict.fate, row.fate);
      EXPECT_EQ(verdict.error.code, end.error);
      EXPECT_NE(verdict.error.message().find(row.says), std::string::npos) << verdict.error.message();
    }
    const auto unknown = judgeFence(Error{"poll descriptor 7", EBADF, ""}, row.policy);
    EXPECT_EQ(unknown.fate, row.fate);
    EXPECT_EQ(unknown.error.code, EBADF);
    EXPECT_NE(unknown.error.message().find("descriptor 7"), std::string::npos);
  }
}

TEST(FencePolicy, ATimeoutSaysHowLong) {
  const auto verdict = judgeFence({FenceOutcome::TimedOut, ETIMEDOUT, 5}, GST_ZC_ON_FENCE_ERROR_DROP, 250ms);
  EXPECT_NE(verdict.error.message().find("250 ms"), std::string::npos) << verdict.error.message();
}

TEST(FencePolicy, ThePropertiesOfEveryElement) {
  GParamSpec *timeout = g_param_spec_ref_sink(fenceTimeoutSpec()), *policy = g_param_spec_ref_sink(onFenceErrorSpec());
  EXPECT_STREQ(timeout->name, "fence-timeout");
  EXPECT_EQ(g_value_get_uint(g_param_spec_get_default_value(timeout)), 1000u);
  EXPECT_STREQ(policy->name, "on-fence-error");
  EXPECT_EQ(g_value_get_enum(g_param_spec_get_default_value(policy)), GST_ZC_ON_FENCE_ERROR_DROP);
  auto *values = static_cast<GEnumClass *>(g_type_class_ref(GST_TYPE_ZC_ON_FENCE_ERROR));
  EXPECT_EQ(g_enum_get_value_by_nick(values, "pass")->value, GST_ZC_ON_FENCE_ERROR_PASS);
  EXPECT_EQ(g_enum_get_value_by_nick(values, "error")->value, GST_ZC_ON_FENCE_ERROR_ERROR);
  g_type_class_unref(values);
  g_param_spec_unref(timeout);
  g_param_spec_unref(policy);
}

} // namespace
