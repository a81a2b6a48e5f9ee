#pragma once

#include <braid/result.h>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace braid {

class DeviceCore;
class Memory;

/// What a registered region allows. Values combine with `|`; the smallest set that does the job is
/// the right one, because a remote key that leaks gives away exactly this.
enum class MemoryAccess : std::uint8_t {
  kLocal = 0,         // source of puts only
  kRemoteWrite = 1,   // target of the peer's puts
  kRemoteRead = 2,    // source of the peer's gets
  kRemoteAtomic = 4,  // target of the peer's atomics
};

[[nodiscard]] constexpr MemoryAccess operator|(MemoryAccess a, MemoryAccess b) noexcept {
  return static_cast<MemoryAccess>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}
[[nodiscard]] constexpr bool has_access(MemoryAccess set, MemoryAccess flag) noexcept {
  return (static_cast<unsigned>(set) & static_cast<unsigned>(flag)) != 0;
}

/// Part of a local region: source of a put. Borrows the Memory.
struct LocalRange {
  const Memory* memory = nullptr;
  std::uint64_t offset = 0;  // bytes from the beginning of the region
  std::uint64_t bytes = 0;
};

class RemoteMemory;

/// Part of a region of the peer: target of a put.
struct RemoteRange {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  std::uint32_t rkey = 0;
  bool valid = false;  // false when the range was not inside its region
};

/// A region of the peer, as it exported it. Value type: copy it, send it, keep it; it gives no
/// access to anything unless a channel to its owner exists.
class RemoteMemory {
 public:
  constexpr RemoteMemory() noexcept = default;
  constexpr RemoteMemory(std::uint64_t address, std::uint64_t bytes, std::uint32_t rkey) noexcept
      : address_(address), bytes_(bytes), rkey_(rkey) {}

  [[nodiscard]] constexpr std::uint64_t address() const noexcept { return address_; }
  [[nodiscard]] constexpr std::uint64_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] constexpr std::uint32_t rkey() const noexcept { return rkey_; }

  /// Part of the region. A range that leaves it is marked and refused by the operation that is
  /// given it (kNotFound).
  [[nodiscard]] constexpr RemoteRange range(std::uint64_t offset,
                                            std::uint64_t bytes) const noexcept {
    const bool inside = offset <= bytes_ && bytes <= bytes_ - offset;
    return {address_ + offset, bytes, rkey_, inside};
  }

  friend constexpr bool operator==(const RemoteMemory&, const RemoteMemory&) noexcept = default;

 private:
  std::uint64_t address_ = 0;
  std::uint64_t bytes_ = 0;
  std::uint32_t rkey_ = 0;
};

/// A registered local region.
///
/// Owner: the handle owns the registration, and the bytes too when Device::allocate() made it.
/// It keeps its device open. Destroy it only when no operation uses it any more and no peer may
/// write into it: the keys stop working then.
/// Thread: const members from any thread.
class Memory {
 public:
  Memory() noexcept;
  ~Memory();
  Memory(Memory&& other) noexcept;
  Memory& operator=(Memory&& other) noexcept;

  [[nodiscard]] bool valid() const noexcept { return registration_ != nullptr; }
  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] std::uint32_t lkey() const noexcept { return lkey_; }

  /// Part of the region; checked by the operation that is given it.
  [[nodiscard]] LocalRange range(std::uint64_t offset, std::uint64_t bytes) const noexcept {
    return {this, offset, bytes};
  }
  /// The value to export to a peer.
  [[nodiscard]] RemoteMemory remote() const noexcept {
    return RemoteMemory(reinterpret_cast<std::uintptr_t>(data_), bytes_, rkey_);
  }

 private:
  friend class Device;
  void release() noexcept;

  std::shared_ptr<DeviceCore> device_;
  void* registration_ = nullptr;
  std::byte* data_ = nullptr;
  std::uint64_t bytes_ = 0;
  std::uint32_t lkey_ = 0;
  std::uint32_t rkey_ = 0;
  std::uint64_t mapped_bytes_ = 0;  // of our own mapping; 0 = the caller's bytes
};

}  // namespace braid
