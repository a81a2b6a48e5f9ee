// The data path allocates nothing: a million segments with every allocation of the process
// counted.
#include <atomic>
#include <cstdlib>
#include <new>

#include "channel/channel_bed.h"

namespace {
std::atomic<std::uint64_t> allocation_count{0};

void* counted(std::size_t bytes) {
  allocation_count.fetch_add(1, std::memory_order_relaxed);
  void* memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
}  // namespace

void* operator new(std::size_t bytes) { return counted(bytes); }
void* operator new[](std::size_t bytes) { return counted(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace braid {
namespace {

class AllocationTest : public test::ChannelBed {};

TEST_F(AllocationTest, AMillionSegments_PutToNotification_AllocateNothing) {
  open();
  constexpr std::uint64_t kBytes = 64 * 128;
  Memory& source = allocate(kBytes);
  Memory& target = allocate(kBytes);
  ChannelOptions options;
  options.lanes = 16;
  options.segment_bytes = 128;
  options.exports = {target.remote()};
  join(options);
  const RemoteRange remote = a->remote_memories()[0].range(0, kBytes);
  std::array<Completion, 32> completions{};
  std::array<Notification, 32> notifications{};
  std::uint64_t segments = 0, notified = 0;

  const std::uint64_t before = allocation_count.load();
  EXPECT_GT(before, 0U) << "the counter does not count";
  while (notified * 64 < 1'000'000) {
    if (a->put(source.range(0, kBytes), remote, {.notify = {1}})) segments += 64;
    turn();
    (void)a->poll_completions(completions);
    notified += b->poll_notifications(notifications);
    if (a->state() != ChannelState::kOpen) break;
  }
  const std::uint64_t after = allocation_count.load();
  EXPECT_EQ(after - before, 0U);
  EXPECT_GE(segments, 1'000'000U);
  EXPECT_EQ(a->state(), ChannelState::kOpen);
}

}  // namespace
}  // namespace braid
