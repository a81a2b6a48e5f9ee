#pragma once

#include <braid/channel.h>
#include <braid/device.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "channel/channel_core.h"
#include "channel/loop_verbs.h"
#include "channel/memory_stream.h"

namespace braid::test {

/// Fills a region with bytes that depend on the seed.
inline void fill(Memory& memory, std::uint64_t seed) {
  Random random(seed);
  for (std::uint64_t i = 0; i < memory.bytes(); ++i) {
    memory.data()[i] = static_cast<std::byte>(random.next() & 0xFFU);
  }
}

/// Two channels joined over a LoopVerbs, in virtual time.
class ChannelBed : public testing::Test {
 protected:
  void open() {
    std::string why;
    DeviceCore::Source source;
    source.api = &verbs;
    auto core = DeviceCore::open(std::move(source), "loop0", 1, -1, why);
    ASSERT_TRUE(core) << why;
    device = std::make_unique<Device>(*core);
  }

  void join(ChannelOptions left, ChannelOptions right) {
    if (device == nullptr) open();
    std::string why;
    ASSERT_TRUE(resolve_options(*device->core(), left, why).ok()) << why;
    ASSERT_TRUE(resolve_options(*device->core(), right, why).ok()) << why;
    const std::uint32_t window = std::min(left.window_segments, right.window_segments);
    auto one = ChannelCore::create(device->core(), left,
                                   {window, right.receive_depth, first_sequence}, 1, why);
    ASSERT_TRUE(one) << why;
    auto two = ChannelCore::create(device->core(), right,
                                   {window, left.receive_depth, first_sequence}, 2, why);
    ASSERT_TRUE(two) << why;
    ASSERT_TRUE((*one)->connect((*two)->endpoints(), why).ok()) << why;
    ASSERT_TRUE((*two)->connect((*one)->endpoints(), why).ok()) << why;
    if (with_streams) {
      (*one)->keep_stream(std::make_unique<MemoryStream>(to_b, to_a));
      (*two)->keep_stream(std::make_unique<MemoryStream>(to_a, to_b));
    }
    a = std::make_unique<Channel>(std::move(*one));
    b = std::make_unique<Channel>(std::move(*two));
  }
  void join(const ChannelOptions& options) { join(options, options); }

  /// One turn of everything; time advances by 10 us.
  void turn() {
    now += std::chrono::microseconds(10);
    if (a) a->progress(now);
    verbs.deliver_all();
    if (b) b->progress(now);
    verbs.deliver_all();
  }

  void TearDown() override {
    EXPECT_EQ(verbs.rnr_count(), 0U) << "a segment met no receive";
    EXPECT_EQ(verbs.cq_overruns(), 0U);
    a.reset();
    b.reset();
    memories.clear();
    device.reset();
    EXPECT_EQ(verbs.live_objects(), 0U);
  }

  Memory& allocate(std::uint64_t bytes, MemoryAccess access = MemoryAccess::kRemoteWrite) {
    auto memory = device->allocate(bytes, access);
    EXPECT_TRUE(memory);
    memories.push_back(std::make_unique<Memory>(std::move(*memory)));
    return *memories.back();
  }

  LoopVerbs verbs;
  std::unique_ptr<Device> device;
  std::vector<std::unique_ptr<Memory>> memories;
  std::unique_ptr<Channel> a, b;
  TimePoint now{};
  channel::Sequence first_sequence{};
  /// The channels keep a stream of their exchange, and these are its two ways.
  bool with_streams = true;
  std::shared_ptr<MemoryStream::Way> to_a = std::make_shared<MemoryStream::Way>();
  std::shared_ptr<MemoryStream::Way> to_b = std::make_shared<MemoryStream::Way>();
};

}  // namespace braid::test
