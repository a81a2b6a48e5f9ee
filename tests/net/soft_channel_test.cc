// Channels over soft devices and loopback TCP, in real time: every wait has a deadline.
#include <braid/blocking.h>
#include <braid/soft_device.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <memory>
#include <thread>

#include "base/random.h"

namespace braid {
namespace {

constexpr Duration kDeadline = std::chrono::seconds(30);

class SoftChannel : public testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    for (auto* device : {&left_device, &right_device}) {
      Result<Device> opened = Device::open_soft({}, &why);
      ASSERT_TRUE(opened) << why;
      *device = std::make_unique<Device>(std::move(*opened));
    }
    Result<Listener> made = Listener::create("127.0.0.1", 0, &why);
    ASSERT_TRUE(made) << why;
    listener = std::make_unique<Listener>(std::move(*made));
  }

  void join(const ChannelOptions& left_options, const ChannelOptions& right_options) {
    std::string left_why, right_why;
    Result<std::unique_ptr<Channel>> accepted = Status(StatusCode::kInternal);
    std::thread acceptor([&] {
      accepted = blocking::accept(*listener, *right_device, right_options, kDeadline, &right_why);
    });
    Result<std::unique_ptr<Channel>> connected = blocking::connect(
        *left_device, "127.0.0.1", listener->port(), left_options, kDeadline, &left_why);
    acceptor.join();
    ASSERT_TRUE(connected) << left_why;
    ASSERT_TRUE(accepted) << right_why;
    left = std::move(*connected);
    right = std::move(*accepted);
  }

  // Progresses both until the condition holds.
  template <typename Condition>
  bool run_until(Condition condition) {
    const TimePoint end = blocking::now() + kDeadline;
    while (!condition()) {
      if (blocking::now() > end) return false;
      bool moved = left && left->progress(blocking::now());
      moved = (right && right->progress(blocking::now())) || moved;
      if (!moved) std::this_thread::yield();
    }
    return true;
  }

  std::unique_ptr<Device> left_device, right_device;
  std::unique_ptr<Listener> listener;
  std::unique_ptr<Channel> left, right;
};

class SoftChannelLanes : public SoftChannel, public testing::WithParamInterface<std::uint32_t> {};

// Fault: A19
TEST_P(SoftChannelLanes, PutsBothWays_ArriveWholeBeforeTheirNotifications) {
  constexpr std::uint64_t kBytes = (3U << 20U) + 1;
  struct End {
    Memory source, target;
  } ends[2];
  Device* devices[2] = {left_device.get(), right_device.get()};
  ChannelOptions options[2];
  for (int i = 0; i < 2; ++i) {
    ends[i].source = std::move(*devices[i]->allocate(kBytes, MemoryAccess::kLocal));
    ends[i].target = std::move(*devices[i]->allocate(kBytes, MemoryAccess::kRemoteWrite));
    Random random(static_cast<std::uint64_t>(i) + 1);
    for (std::uint64_t k = 0; k < kBytes; ++k) {
      ends[i].source.data()[k] = static_cast<std::byte>(random.next() & 0xFFU);
    }
    options[i].lanes = GetParam();
    options[i].segment_bytes = 16U << 10U;
    options[i].exports = {ends[i].target.remote()};
  }
  join(options[0], options[1]);
  if (HasFatalFailure()) return;
  for (Channel* channel : {left.get(), right.get()}) {
    const Memory& source = channel == left.get() ? ends[0].source : ends[1].source;
    ASSERT_TRUE(channel->put(source.range(0, kBytes),
                             channel->remote_memories()[0].range(0, kBytes), {.notify = {7}}));
  }
  std::size_t notified[2] = {0, 0};
  Notification notification;
  ASSERT_TRUE(run_until([&] {
    notified[0] += left->poll_notifications({&notification, 1});
    notified[1] += right->poll_notifications({&notification, 1});
    return (notified[0] == 1 && notified[1] == 1) || left->state() == ChannelState::kFailed ||
           right->state() == ChannelState::kFailed;
  }));
  ASSERT_EQ(left->state(), ChannelState::kOpen) << left->error().text;
  ASSERT_EQ(right->state(), ChannelState::kOpen) << right->error().text;
  EXPECT_EQ(std::memcmp(ends[0].source.data(), ends[1].target.data(), kBytes), 0);
  EXPECT_EQ(std::memcmp(ends[1].source.data(), ends[0].target.data(), kBytes), 0);
  left->close();
  right->close();
  ASSERT_TRUE(run_until([&] {
    return left->state() != ChannelState::kOpen && right->state() != ChannelState::kOpen;
  }));
  EXPECT_EQ(left->state(), ChannelState::kClosed) << left->error().text;
  EXPECT_EQ(right->state(), ChannelState::kClosed) << right->error().text;
}

INSTANTIATE_TEST_SUITE_P(Lanes, SoftChannelLanes, testing::Values(1U, 4U, 32U, 128U));

TEST_F(SoftChannel, Idle_KeepalivesPassAndTheChannelStaysOpen) {
  ChannelOptions options;
  options.keepalive_interval = std::chrono::milliseconds(5);
  join(options, options);
  if (HasFatalFailure()) return;
  ASSERT_TRUE(run_until([&] {
    return (left->stats().keepalives >= 20 && right->stats().keepalives >= 20) ||
           left->state() != ChannelState::kOpen || right->state() != ChannelState::kOpen;
  }));
  EXPECT_EQ(left->state(), ChannelState::kOpen) << left->error().text;
  EXPECT_EQ(right->state(), ChannelState::kOpen) << right->error().text;
}

// Fault: A28
TEST_F(SoftChannel, PeerIsGoneWithoutFarewell_TheSilentSideNotices) {
  ChannelOptions options;
  options.keepalive_interval = std::chrono::milliseconds(20);
  options.ack_timeout_exponent = 12;  // 17 ms
  options.retry_count = 2;
  join(options, options);
  if (HasFatalFailure()) return;
  left.reset();
  ASSERT_TRUE(run_until([&] { return right->state() != ChannelState::kOpen; }));
  EXPECT_EQ(right->state(), ChannelState::kFailed);
  EXPECT_NE(right->error().text.find(right_device->address()), std::string::npos);
  EXPECT_NE(right->error().text.find(left_device->address()), std::string::npos);
}

// Fault: A23
TEST_F(SoftChannel, ManyConnectAndCloseCycles_LeaveNoDescriptorAndNoThread) {
  auto entries = [](const char* directory) {
    return std::distance(std::filesystem::directory_iterator(directory), {});
  };
  ChannelOptions options;
  options.lanes = 8;
  std::ptrdiff_t descriptors = 0, threads = 0;
  for (int i = 0; i < 25; ++i) {
    join(options, options);
    if (HasFatalFailure()) return;
    left->close();
    right->close();
    ASSERT_TRUE(run_until([&] {
      return left->state() == ChannelState::kClosed && right->state() == ChannelState::kClosed;
    }));
    left.reset();
    right.reset();
    // The first cycle may open what the process keeps.
    if (i == 0) {
      descriptors = entries("/proc/self/fd");
      threads = entries("/proc/self/task");
    }
  }
  EXPECT_EQ(entries("/proc/self/fd"), descriptors);
  EXPECT_EQ(entries("/proc/self/task"), threads);
}

TEST(SoftDevice, MtuOutsideTheFive_IsAnInvalidArgumentThatIsNamed) {
  std::string why;
  SoftDeviceOptions options;
  options.mtu_bytes = 1024;
  EXPECT_TRUE(Device::open_soft(options, &why)) << why;
  options.mtu_bytes = 1000;
  EXPECT_EQ(Device::open_soft(options, &why).error().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(why.find("1000"), std::string::npos) << why;
}

// The peer's program does nothing: its device answers gets and atomics alone.
TEST_F(SoftChannel, GetsAtomicsAndFence_NeedNothingFromThePeersProgram) {
  constexpr std::uint64_t kBytes = (2U << 20U) + 7;
  Memory there = std::move(
      *right_device->allocate(kBytes, MemoryAccess::kRemoteRead | MemoryAccess::kRemoteAtomic));
  Memory here = std::move(*left_device->allocate(kBytes, MemoryAccess::kLocal));
  Memory old = std::move(*left_device->allocate(16, MemoryAccess::kLocal));
  Random random(3);
  for (std::uint64_t k = 0; k < kBytes; ++k) {
    there.data()[k] = static_cast<std::byte>(random.next() & 0xFFU);
  }
  ChannelOptions options;
  options.segment_bytes = 64U << 10U;
  ChannelOptions exporting = options;
  exporting.exports = {there.remote()};
  join(options, exporting);
  if (HasFatalFailure()) return;
  const RemoteMemory remote = left->remote_memories()[0];
  std::uint64_t first_word = 0;
  std::memcpy(&first_word, there.data(), 8);

  const Result<Ticket> get = left->get(here.range(0, kBytes), remote.range(0, kBytes));
  ASSERT_TRUE(get);
  ASSERT_TRUE(left->fence().ok());
  const Result<Ticket> add = left->fetch_add(old.range(0, 8), remote.range(0, 8), 3);
  ASSERT_TRUE(add);
  ASSERT_TRUE(left->fence().ok());
  const Result<Ticket> swap =
      left->compare_swap(old.range(8, 8), remote.range(0, 8), first_word + 3, 99);
  ASSERT_TRUE(swap);
  // In any order: each wait takes its own completion.
  for (const Ticket ticket : {*swap, *get, *add}) {
    const Result<Completion> done = blocking::wait(*left, ticket, kDeadline);
    ASSERT_TRUE(done) << done.error().to_string() << left->error().text;
    EXPECT_TRUE(done->status.ok()) << left->error().text;
    EXPECT_EQ(done->ticket, ticket);
  }
  EXPECT_EQ(blocking::wait(*left, *get, kDeadline).error().code(), StatusCode::kNotFound);
  std::uint64_t words[2], last_word = 0;
  std::memcpy(words, old.data(), 16);
  std::memcpy(&last_word, there.data(), 8);
  EXPECT_EQ(words[0], first_word);
  EXPECT_EQ(words[1], first_word + 3);
  EXPECT_EQ(last_word, 99U);
  std::memcpy(there.data(), &first_word, 8);
  EXPECT_EQ(std::memcmp(here.data(), there.data(), kBytes), 0) << "the get saw the later add";
}

// Requirement: 21
TEST_F(SoftChannel, WaitForOneIndex_ThatTimesOut_LosesNothing) {
  join(ChannelOptions{}, ChannelOptions{});
  if (HasFatalFailure()) return;
  ASSERT_TRUE(left->notify({3}));
  ASSERT_TRUE(left->notify({4}));
  ASSERT_TRUE(blocking::drain(*left, kDeadline).ok());
  EXPECT_EQ(blocking::wait_notification(*right, NotifyIndex{5}, std::chrono::milliseconds(5))
                .error()
                .code(),
            StatusCode::kTimeout);
  const Result<Notification> four = blocking::wait_notification(*right, NotifyIndex{4}, kDeadline);
  ASSERT_TRUE(four);
  EXPECT_EQ(four->id, 4U);
  const Result<Notification> three = blocking::wait_notification(*right, kDeadline);
  ASSERT_TRUE(three);
  EXPECT_EQ(three->id, 3U);
}

}  // namespace
}  // namespace braid
