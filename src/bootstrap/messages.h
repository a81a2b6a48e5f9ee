#pragma once

#include <braid/memory.h>
#include <braid/status.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace braid::bootstrap {

/// What peers say to each other over the bootstrap connection. Every frame is a header (magic,
/// version, type, length) and a payload; all integers in network byte order.
inline constexpr std::uint32_t kMagic = 0x42524431;  // "BRD1"
inline constexpr std::uint16_t kVersion = 1;
inline constexpr std::size_t kHeaderBytes = 12;
inline constexpr std::size_t kMaxPayloadBytes = 64U << 10U;
inline constexpr std::size_t kMaxExports = 1024;
inline constexpr std::size_t kMaxReasonBytes = 512;

enum class FrameType : std::uint16_t {
  kCapabilities = 1,
  kEndpoints = 2,
  kReady = 3,    // no payload: all queue pairs can send
  kRefuse = 4,   // why the sender gives up
  kControl = 5,  // a control message of the channel, while its queue pair is down
};

struct FrameHeader {
  FrameType type = FrameType::kCapabilities;
  std::uint32_t payload_bytes = 0;
};

void encode_header(const FrameHeader& header, std::span<std::byte, kHeaderBytes> out) noexcept;
/// Errors: kProtocol for another magic, version or type or a payload beyond kMaxPayloadBytes.
/// `why` gets a phrase that says which.
Status decode_header(std::span<const std::byte, kHeaderBytes> in, FrameHeader& header,
                     std::string& why);

/// First exchange: what must agree or be reconciled before queues are made.
struct Capabilities {
  std::uint32_t lanes = 0;            // must be equal
  std::uint32_t notify_count = 0;     // must be equal
  std::uint32_t window_segments = 0;  // the smaller holds
  std::uint32_t receive_depth = 0;    // receives per lane
  friend bool operator==(const Capabilities&, const Capabilities&) noexcept = default;
};

/// One queue pair.
struct QpAddress {
  std::uint32_t qpn = 0;  // 24 bits
  std::uint32_t psn = 0;  // 24 bits
  friend bool operator==(const QpAddress&, const QpAddress&) noexcept = default;
};

/// Second exchange: where everything is.
struct Endpoints {
  std::array<std::uint8_t, 16> gid{};
  std::uint16_t lid = 0;
  std::uint8_t mtu_code = 0;  // ibv_mtu
  std::uint8_t rd_atomic = 0;
  QpAddress control;
  std::vector<QpAddress> lanes;
  std::vector<RemoteMemory> exports;
  std::vector<std::uint32_t> notify_ids;
};

[[nodiscard]] std::vector<std::byte> encode(const Capabilities& message);
[[nodiscard]] std::vector<std::byte> encode(const Endpoints& message);
/// Errors of decode: kProtocol when the payload is short, long, or holds values out of range;
/// `message` is then unspecified.
Status decode(std::span<const std::byte> payload, Capabilities& message) noexcept;
Status decode(std::span<const std::byte> payload, Endpoints& message);

/// Text of a peer, for terminals and logs: only what prints, and not too much of it.
[[nodiscard]] std::string printable(std::span<const std::byte> text);

/// Compares what both sides declared. Both get the same arguments, so both fail alike. Ok, or
/// kConnectionFailed with a sentence that has both numbers and the option to change.
Status compare(const Capabilities& ours, const Capabilities& theirs, std::string& why);

}  // namespace braid::bootstrap
