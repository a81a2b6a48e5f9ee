// A hundred channels, one after another, between two soft devices: what is left of them.
#include <braid/blocking.h>
#include <braid/soft_device.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <memory>
#include <thread>

#include "softverbs/allocation_counter.h"

namespace braid {
namespace {

constexpr Duration kDeadline = std::chrono::seconds(30);
constexpr int kCycles = 100;
constexpr int kWarmUp = 3;  // what the process keeps for good comes with the first ones

std::ptrdiff_t entries(const char* directory) {
  return std::distance(std::filesystem::directory_iterator(directory), {});
}

struct Left {
  std::int64_t bytes;
  std::ptrdiff_t descriptors;
  std::ptrdiff_t threads;
  friend bool operator==(const Left&, const Left&) = default;
};

Left what_is_left() {
  return {testing::allocated_bytes(), entries("/proc/self/fd"), entries("/proc/self/task")};
}

class ConnectLeak : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    for (auto* device : {&here_, &there_}) {
      Result<Device> opened = Device::open_soft({}, &why);
      ASSERT_TRUE(opened) << why;
      *device = std::make_unique<Device>(std::move(*opened));
    }
    Result<Listener> made = Listener::create("127.0.0.1", 0, &why);
    ASSERT_TRUE(made) << why;
    listener_ = std::make_unique<Listener>(std::move(*made));
  }

  // Connects, passes one notification, and closes on both sides.
  void cycle(const ChannelOptions& options) {
    std::string here_why, there_why;
    Result<std::unique_ptr<Channel>> accepted = Status(StatusCode::kInternal);
    std::thread acceptor(
        [&] { accepted = blocking::accept(*listener_, *there_, options, kDeadline, &there_why); });
    Result<std::unique_ptr<Channel>> connected =
        blocking::connect(*here_, "127.0.0.1", listener_->port(), options, kDeadline, &here_why);
    acceptor.join();
    ASSERT_TRUE(connected) << here_why;
    ASSERT_TRUE(accepted) << there_why;
    ASSERT_TRUE((*connected)->notify({5}));
    ASSERT_TRUE(blocking::drain(**connected, kDeadline).ok());
    ASSERT_TRUE(blocking::wait_notification(**accepted, kDeadline));
    Status closed;
    std::thread closer([&] { closed = blocking::close(**accepted, kDeadline); });
    const Status own = blocking::close(**connected, kDeadline);
    closer.join();
    ASSERT_TRUE(own.ok() && closed.ok()) << own.to_string() << closed.to_string();
  }

  std::unique_ptr<Device> here_, there_;
  std::unique_ptr<Listener> listener_;
};

// Requirement: 1
// Fault: A23, A28
TEST_F(ConnectLeak, HundredCycles_NoByteNoDescriptorNoThreadIsLeft) {
  ChannelOptions options;
  options.lanes = 8;
  Left before{};
  for (int i = 0; i < kCycles; ++i) {
    cycle(options);
    if (HasFatalFailure()) return;
    if (i == kWarmUp) before = what_is_left();
  }
  const Left after = what_is_left();
  EXPECT_EQ(after.bytes, before.bytes);
  EXPECT_EQ(after.descriptors, before.descriptors);
  EXPECT_EQ(after.threads, before.threads);
}

// Requirement: 5
// Fault: A6, A23
TEST_F(ConnectLeak, HundredRefusedConnections_NoByteNoDescriptorNoThreadIsLeft) {
  Left before{};
  for (int i = 0; i < kCycles; ++i) {
    ChannelOptions ours, theirs;
    ours.lanes = 3;
    theirs.lanes = 5;
    Result<std::unique_ptr<Channel>> accepted = Status(StatusCode::kInternal);
    std::thread acceptor(
        [&] { accepted = blocking::accept(*listener_, *there_, theirs, kDeadline); });
    const auto connected =
        blocking::connect(*here_, "127.0.0.1", listener_->port(), ours, kDeadline);
    acceptor.join();
    ASSERT_EQ(connected.error().code(), StatusCode::kConnectionFailed);
    ASSERT_EQ(accepted.error().code(), StatusCode::kConnectionFailed);
    if (i == kWarmUp) before = what_is_left();
  }
  EXPECT_TRUE(what_is_left() == before);
}

}  // namespace
}  // namespace braid
