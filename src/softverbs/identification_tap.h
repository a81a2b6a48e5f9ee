#pragma once

#include <braid/result.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "base/ring.h"
#include "roce/address.h"
#include "softverbs/file_descriptor.h"

namespace braid::softverbs {

/// Finds the IPv4 identification of datagrams that a UDP socket received, by a raw socket on the
/// same address that sees their IP headers.
///
/// The kernel hands every packet to raw sockets before it queues it on a UDP socket, and in the
/// same order. So by the time the UDP socket yields a datagram, the tap has its header already, or
/// lost it to a full buffer; then the identification is unknown, never a wrong one.
///
/// Thread: none; the owner serialises. Cost: a system call per 32 packets; only the first bytes of
/// each are copied. Allocates in create() only.
class IdentificationTap {
 public:
  /// Errors: kPermission (EPERM: CAP_NET_RAW is missing) or kIo, with the errno.
  static Result<std::unique_ptr<IdentificationTap>> create(const roce::IpAddress& address) noexcept;

  /// Headers of one received message.
  struct Identity {
    std::int32_t ip_id;  // roce::kUnknownIpId when the tap has not seen the message
    bool dont_fragment;
  };

  /// Looks up the message that the UDP socket received next. Call in the order of reception.
  ///
  /// Shape: `payload` is the whole UDP payload, coalesced datagrams included.
  [[nodiscard]] Identity identify(const roce::IpAddress& source, std::uint16_t source_port,
                                  std::span<const std::uint8_t> payload) noexcept;

 private:
  static constexpr std::size_t kPrefixBytes = 16;  // BTH and the start of what follows
  static constexpr std::size_t kBatch = 32;
  static constexpr std::size_t kHeaderBytes = 60 + 8 + kPrefixBytes;  // longest IPv4 header, UDP
  static constexpr std::size_t kCapacity = 4096;

  struct Record {
    roce::IpAddress source;
    std::uint16_t source_port = 0;
    std::uint16_t payload_bytes = 0;
    std::uint16_t ip_id = 0;
    bool dont_fragment = false;
    std::uint8_t prefix_count = 0;
    std::array<std::uint8_t, kPrefixBytes> prefix{};
  };

  explicit IdentificationTap(FileDescriptor socket);

  void drain() noexcept;
  void take(std::span<const std::uint8_t> packet) noexcept;

  FileDescriptor socket_;
  Ring<Record> records_;
};

}  // namespace braid::softverbs
