#pragma once

#include <braid/time.h>

#include <cstdint>
#include <optional>
#include <string_view>

namespace braid::channel {

/// How far apart the two ends of a connection are (seed S2).
enum class ConnectionClass : std::uint8_t { kRackLocal, kCrossRack, kCrossDc };

/// Data center and rail of a NIC port. As one number: dc x max_rails + rail.
struct FabricId {
  std::uint32_t dc = 0;
  std::uint32_t rail = 0;

  friend constexpr bool operator==(const FabricId& a, const FabricId& b) noexcept {
    return a.dc == b.dc && a.rail == b.rail;
  }
};

/// Takes the number apart; empty when `max_rails` is 0. The remainder is below max_rails always.
[[nodiscard]] std::optional<FabricId> decode_fabric_id(std::uint32_t number,
                                                       std::uint32_t max_rails) noexcept;
/// The number; empty when the rail is not below `max_rails` or the number takes more than 32 bits.
/// Such a rail would be mistaken for one of the next data center.
[[nodiscard]] std::optional<std::uint32_t> encode_fabric_id(const FabricId& id,
                                                            std::uint32_t max_rails) noexcept;

/// A port of a device and where it is attached.
struct FabricPort {
  std::string_view device;  // into the text that was parsed
  std::uint8_t port = 1;
  FabricId fabric;
};

/// Parses `device:port:fabricID`: a name without blanks, 1..255, and a decimal number of 32 bits.
/// Empty when the text is anything else, blanks and signs included.
[[nodiscard]] std::optional<FabricPort> parse_fabric_port(std::string_view text,
                                                          std::uint32_t max_rails) noexcept;

/// Same data center and rail: rack-local. Same data center: cross-rack. Else cross-DC.
[[nodiscard]] ConnectionClass class_of(const FabricId& local, const FabricId& peer) noexcept;

/// What a class allows, both ends included.
struct ClassLimits {
  std::uint32_t least_lanes;
  std::uint32_t most_lanes;
  std::uint32_t least_outstanding;  // segments per lane
  std::uint32_t most_outstanding;
};
/// Seed S2's table: rack-local 4 lanes, 4..8 segments; cross-rack 8..16, 8..32; cross-DC 16..32,
/// 64..256.
[[nodiscard]] ClassLimits limits_of(ConnectionClass connection_class) noexcept;

/// A round trip and the class that it stands for.
struct RttClass {
  ConnectionClass nearest = ConnectionClass::kRackLocal;
  /// No class covers it: between 20 us and 1 ms, or beyond 10 ms. `nearest` ends closest to it.
  bool outside = false;
};
/// Below 5 us rack-local; 5..20 us cross-rack; 1..10 ms cross-DC. In the gap the closer end counts,
/// and halfway (510 us) the lesser distance.
[[nodiscard]] RttClass class_of(Duration round_trip) noexcept;

/// Segments that fill the path: ceil(rate x round trip / segment), in integers, at least 1.
/// Shape: bytes_per_second up to 10^18 and round_trip up to 10 s, more counts as that;
/// segment_bytes > 0.
[[nodiscard]] std::uint64_t segments_to_fill(std::uint64_t bytes_per_second, Duration round_trip,
                                             std::uint32_t segment_bytes) noexcept;

/// What is known before and at connect, and what the user settled: each value given here holds
/// as it is, without regard to the class.
struct ClassRequest {
  ConnectionClass assumed = ConnectionClass::kRackLocal;  // from the fabric ids
  std::optional<Duration> round_trip;                     // measured at connect
  std::uint64_t bytes_per_second = 0;                     // wanted of the connection
  std::optional<ConnectionClass> connection_class;
  std::optional<std::uint32_t> lanes;
  std::optional<std::uint32_t> outstanding;
  std::optional<std::uint32_t> segment_bytes;
};

/// What a connection gets.
struct ClassPlan {
  ConnectionClass connection_class = ConnectionClass::kRackLocal;
  std::uint32_t lanes = 0;
  std::uint32_t outstanding = 0;
  std::uint32_t segment_bytes = 0;
  std::uint64_t wanted_outstanding = 0;  // before the class's limits
  // For the log: why it is not what the fabric ids alone would give.
  bool corrected = false;  // the round trip names another class than was assumed
  bool outside = false;    // the round trip is in no class, the nearest was taken
};

/// Chooses lanes, segments per lane and segment size.
///
/// The measured round trip corrects the assumed class, unless the user settled it. Segments are
/// 64 KiB within a data center and 1 MiB between two, the ends of the seed's range. Segments per
/// lane follow from the rate and the round trip and stay within the class; without a round trip or
/// a rate the class's least holds. Lanes are the class's least.
/// Cost: O(1), does not allocate.
[[nodiscard]] ClassPlan plan_connection(const ClassRequest& request) noexcept;

}  // namespace braid::channel
