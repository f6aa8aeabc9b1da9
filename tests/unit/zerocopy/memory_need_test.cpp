// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/zerocopy/gstzcmemoryneed.h"

#include <string>

#include <gtest/gtest.h>

#include "gst/zerocopy/gstzcallocator.h"
#include "gst/zerocopy/gstzcpool.h"
#include "tests/support/event_memory.h"

namespace {

class Need : public testing::Test {
protected:
  void SetUp() override {
    GstCaps *caps = gst_caps_from_string("video/x-raw,format=NV12,width=64,height=48");
    query = gst_query_new_allocation(caps, TRUE);
    gst_caps_unref(caps);
  }
  void TearDown() override { gst_query_unref(query); }
  GstQuery *query = nullptr;
};

TEST_F(Need, NoneIsAny) {
  const gchar *who = "unset";
  EXPECT_EQ(gst_query_parse_zc_memory_need(query, &who), GST_ZC_MEMORY_NEED_ANY);
  EXPECT_EQ(who, nullptr);
}

TEST_F(Need, StatedAndReadBack) {
  gst_query_add_zc_memory_need(query, GST_ZC_MEMORY_NEED_CONTIGUOUS, "the display");
  const gchar *who = nullptr;
  EXPECT_EQ(gst_query_parse_zc_memory_need(query, &who), GST_ZC_MEMORY_NEED_CONTIGUOUS);
  EXPECT_STREQ(who, "the display");
}

TEST_F(Need, TheStricterStays) {
  gst_query_add_zc_memory_need(query, GST_ZC_MEMORY_NEED_ANY, "a");
  gst_query_add_zc_memory_need(query, GST_ZC_MEMORY_NEED_CONTIGUOUS, "b");
  gst_query_add_zc_memory_need(query, GST_ZC_MEMORY_NEED_ANY, nullptr);
  const gchar *who = nullptr;
  EXPECT_EQ(gst_query_parse_zc_memory_need(query, &who), GST_ZC_MEMORY_NEED_CONTIGUOUS);
  EXPECT_STREQ(who, "b");
  EXPECT_EQ(gst_query_get_n_allocation_metas(query), 1u);
}

TEST_F(Need, ParametersOfOthersAreNoNeed) {
  GstStructure *other =
      gst_structure_new("something", "need", G_TYPE_STRING, "contiguous", "who", G_TYPE_INT, 3, nullptr);
  for (const GstStructure *params :
       {static_cast<const GstStructure *>(other), static_cast<const GstStructure *>(nullptr)}) {
    gst_query_add_allocation_meta(query, GST_ZC_MEMORY_NEED_API_TYPE, params);
    const gchar *who = "unset";
    EXPECT_EQ(gst_query_parse_zc_memory_need(query, &who), GST_ZC_MEMORY_NEED_ANY);
    EXPECT_EQ(who, nullptr);
    gst_query_remove_nth_allocation_meta(query, 0);
  }
  gst_structure_free(other);
}

// As elements and a tee see it: the answer of each branch through a pad
class NeedThrough : public testing::Test {
protected:
  struct Answer {
    bool states;
    GstZcMemoryNeed need;
  };
  static void answer(GstElement *sink, const Answer *what) {
    GstPad *pad = gst_element_get_static_pad(sink, "sink");
    gst_pad_add_probe(
        pad, GST_PAD_PROBE_TYPE_QUERY_DOWNSTREAM,
        [](GstPad *, GstPadProbeInfo *info, gpointer data) {
          GstQuery *asked = GST_PAD_PROBE_INFO_QUERY(info);
          if (GST_QUERY_TYPE(asked) != GST_QUERY_ALLOCATION || !(info->type & GST_PAD_PROBE_TYPE_PUSH))
            return GST_PAD_PROBE_OK;
          const auto *given = static_cast<const Answer *>(data);
          gst_query_add_allocation_meta(asked, GST_VIDEO_META_API_TYPE, nullptr);
          if (given->states) gst_query_add_zc_memory_need(asked, given->need, "branch");
          return GST_PAD_PROBE_HANDLED;
        },
        const_cast<Answer *>(what), nullptr);
    gst_object_unref(pad);
  }
  // what arrives at the sink pad of the named element of a running pipeline
  static GstZcMemoryNeed ask(GstElement *pipeline, const char *name) {
    GstElement *element = gst_bin_get_by_name(GST_BIN(pipeline), name);
    GstPad *pad = gst_element_get_static_pad(element, "sink");
    GstCaps *caps = gst_caps_from_string("video/x-raw,format=NV12,width=64,height=48,framerate=25/1");
    GstQuery *query = gst_query_new_allocation(caps, TRUE);
    EXPECT_TRUE(gst_pad_query(pad, query));
    const GstZcMemoryNeed need = gst_query_parse_zc_memory_need(query, nullptr);
    gst_query_unref(query);
    gst_caps_unref(caps);
    gst_object_unref(pad);
    gst_object_unref(element);
    return need;
  }
};

TEST_F(NeedThrough, ATeeKeepsTheStricterOfBranchesThatAllState) {
  const struct {
    Answer a, b;
    GstZcMemoryNeed arrives;
  } cases[] = {
      {{true, GST_ZC_MEMORY_NEED_CONTIGUOUS}, {true, GST_ZC_MEMORY_NEED_ANY}, GST_ZC_MEMORY_NEED_CONTIGUOUS},
      {{true, GST_ZC_MEMORY_NEED_ANY}, {true, GST_ZC_MEMORY_NEED_CONTIGUOUS}, GST_ZC_MEMORY_NEED_CONTIGUOUS},
      {{true, GST_ZC_MEMORY_NEED_ANY}, {true, GST_ZC_MEMORY_NEED_ANY}, GST_ZC_MEMORY_NEED_ANY},
      {{true, GST_ZC_MEMORY_NEED_CONTIGUOUS}, {false, GST_ZC_MEMORY_NEED_ANY}, GST_ZC_MEMORY_NEED_ANY},
  };
  for (const auto &c : cases) {
    GstElement *pipeline = gst_parse_launch("tee name=t allow-not-linked=false ! queue ! fakesink name=a async=false "
                                            "t. ! queue ! fakesink name=b async=false",
                                            nullptr);
    for (const char *name : {"a", "b"}) {
      GstElement *sink = gst_bin_get_by_name(GST_BIN(pipeline), name);
      answer(sink, *name == 'a' ? &c.a : &c.b);
      gst_object_unref(sink);
    }
    gst_element_set_state(pipeline, GST_STATE_PLAYING);
    EXPECT_EQ(ask(pipeline, "t"), c.arrives) << c.a.need << " " << c.b.need;
    gst_element_set_state(pipeline, GST_STATE_NULL);
    gst_object_unref(pipeline);
  }
}

// ---- allocators ----

TEST(NeedOfAllocators, MemoryThatCannotMeetItIsRefusedWithTheRemedy) {
  GError *error = nullptr;
  GstAllocator *allocator =
      gst_zc_allocator_new_full(GST_ZC_MEMORY_SOURCE_MEMFD, nullptr, GST_ZC_MEMORY_NEED_CONTIGUOUS, &error);
  ASSERT_NE(allocator, nullptr) << error->message;
  EXPECT_EQ(gst_zc_allocator_get_need(GST_ZC_ALLOCATOR(allocator)), GST_ZC_MEMORY_NEED_CONTIGUOUS);
  EXPECT_EQ(gst_zc_allocator_try_alloc(GST_ZC_ALLOCATOR(allocator), 100 << 20, nullptr, &error), nullptr)
      << "larger than any huge page that is taken";
  ASSERT_NE(error, nullptr);
  const std::string text = error->message;
  EXPECT_NE(text.find("huge page"), std::string::npos) << text;
  g_clear_error(&error);
  gst_object_unref(allocator);

  EXPECT_EQ(gst_zc_allocator_new_full(GST_ZC_MEMORY_SOURCE_DMA_HEAP, "system", GST_ZC_MEMORY_NEED_CONTIGUOUS, &error),
            nullptr);
  ASSERT_NE(error, nullptr);
  EXPECT_NE(std::string(error->message).find("contiguous memory from dma-heap system"), std::string::npos)
      << error->message;
  g_clear_error(&error);
}

TEST(NeedOfAllocators, NumaNodeOfAMemfd) {
  GstAllocator *allocator = gst_zc_allocator_new(GST_ZC_MEMORY_SOURCE_MEMFD, nullptr, nullptr);
  GstMemory *memory = gst_allocator_alloc(allocator, 4096, nullptr);
  const gint node = gst_zc_memory_get_numa_node(memory);
  EXPECT_GE(node, -1);
  EXPECT_LT(node, 1024);
  gst_memory_unref(memory);
  gst_object_unref(allocator);
}

// GStreamer's own GstUdmabufAllocator (1.28): a dma-buf allocator with this name, of which nothing else is used
TEST(NeedOfAllocators, UpstreamsUdmabufIsKnownByItsName) {
  GstAllocator *upstream = gstzc::test::newEventAllocator("udmabuf"), *other = gstzc::test::newEventAllocator();
  GstMemory *memory = gst_allocator_alloc(upstream, 4096, nullptr),
            *unknown = gst_allocator_alloc(other, 4096, nullptr);
  EXPECT_EQ(gst_zc_memory_get_traits(memory), GST_ZC_MEMORY_TRAIT_CACHED);
  EXPECT_EQ(gst_zc_memory_get_traits(unknown), 0);
  gst_memory_unref(memory);
  gst_memory_unref(unknown);

  // pools take it, but not where their own allocator meets a need that it does not
  for (const auto need : {GST_ZC_MEMORY_NEED_ANY, GST_ZC_MEMORY_NEED_CONTIGUOUS}) {
    GstAllocator *own = gst_zc_allocator_new_full(GST_ZC_MEMORY_SOURCE_MEMFD, nullptr, need, nullptr);
    GstBufferPool *pool = gst_zc_pool_new(own, 0);
    GstCaps *caps = gst_caps_from_string("video/x-raw,format=GRAY8,width=64,height=48");
    GstStructure *config = gst_buffer_pool_get_config(pool);
    gst_buffer_pool_config_set_params(config, caps, 0, 0, 0);
    gst_buffer_pool_config_set_allocator(config, upstream, nullptr);
    EXPECT_TRUE(gst_buffer_pool_set_config(pool, config));
    config = gst_buffer_pool_get_config(pool);
    GstAllocator *taken = nullptr;
    gst_buffer_pool_config_get_allocator(config, &taken, nullptr);
    EXPECT_EQ(taken, need == GST_ZC_MEMORY_NEED_ANY ? upstream : own);
    gst_structure_free(config);
    gst_caps_unref(caps);
    gst_object_unref(pool);
    gst_object_unref(own);
  }
  gst_object_unref(upstream);
  gst_object_unref(other);
}

} // namespace
