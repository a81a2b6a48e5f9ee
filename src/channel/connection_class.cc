#include "channel/connection_class.h"

#include <algorithm>
#include <cassert>
#include <charconv>

namespace braid::channel {
namespace {

using namespace std::chrono_literals;

// The table's round trips.
constexpr Duration kRackLocalBelow = 5us;
constexpr Duration kCrossRackMost = 20us;
constexpr Duration kCrossDcLeast = 1ms;
constexpr Duration kCrossDcMost = 10ms;

constexpr std::uint32_t kSegmentWithinDc = 64U << 10U;
constexpr std::uint32_t kSegmentBetweenDcs = 1U << 20U;

constexpr std::uint64_t kNanosecondsPerSecond = 1'000'000'000;
// Their product stays below 2^64 once the rate is divided by 10^9.
constexpr std::uint64_t kMostRate = 1'000'000'000'000'000'000;
constexpr Duration kMostRoundTrip = 10s;

/// The whole text as a decimal number from `least` to `most`.
std::optional<std::uint32_t> parse_number(std::string_view text, std::uint32_t least,
                                          std::uint32_t most) noexcept {
  std::uint32_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || value < least || value > most) return std::nullopt;
  return value;
}

bool is_name(std::string_view text) noexcept {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char each) { return each > ' ' && each <= '~'; });
}

}  // namespace

std::optional<FabricId> decode_fabric_id(std::uint32_t number, std::uint32_t max_rails) noexcept {
  if (max_rails == 0) return std::nullopt;
  return FabricId{number / max_rails, number % max_rails};
}

std::optional<std::uint32_t> encode_fabric_id(const FabricId& id,
                                              std::uint32_t max_rails) noexcept {
  if (id.rail >= max_rails) return std::nullopt;
  const std::uint64_t number = std::uint64_t{id.dc} * max_rails + id.rail;
  if (number > UINT32_MAX) return std::nullopt;
  return static_cast<std::uint32_t>(number);
}

std::optional<FabricPort> parse_fabric_port(std::string_view text,
                                            std::uint32_t max_rails) noexcept {
  const std::size_t first = text.find(':');
  if (first == std::string_view::npos) return std::nullopt;
  const std::size_t second = text.find(':', first + 1);
  if (second == std::string_view::npos) return std::nullopt;
  const std::string_view device = text.substr(0, first);
  const auto port = parse_number(text.substr(first + 1, second - first - 1), 1, UINT8_MAX);
  // A third colon is no digit, so it ends here as well.
  const auto number = parse_number(text.substr(second + 1), 0, UINT32_MAX);
  if (!is_name(device) || !port || !number) return std::nullopt;
  const auto fabric = decode_fabric_id(*number, max_rails);
  if (!fabric) return std::nullopt;
  return FabricPort{device, static_cast<std::uint8_t>(*port), *fabric};
}

ConnectionClass class_of(const FabricId& local, const FabricId& peer) noexcept {
  if (local == peer) return ConnectionClass::kRackLocal;
  return local.dc == peer.dc ? ConnectionClass::kCrossRack : ConnectionClass::kCrossDc;
}

ClassLimits limits_of(ConnectionClass connection_class) noexcept {
  switch (connection_class) {
    case ConnectionClass::kRackLocal: return {4, 4, 4, 8};
    case ConnectionClass::kCrossRack: return {8, 16, 8, 32};
    case ConnectionClass::kCrossDc: break;
  }
  return {16, 32, 64, 256};
}

RttClass class_of(Duration round_trip) noexcept {
  if (round_trip < kRackLocalBelow) return {ConnectionClass::kRackLocal, false};
  if (round_trip <= kCrossRackMost) return {ConnectionClass::kCrossRack, false};
  if (round_trip >= kCrossDcLeast) {
    return {ConnectionClass::kCrossDc, round_trip > kCrossDcMost};
  }
  const bool below = round_trip - kCrossRackMost <= kCrossDcLeast - round_trip;
  return {below ? ConnectionClass::kCrossRack : ConnectionClass::kCrossDc, true};
}

std::uint64_t segments_to_fill(std::uint64_t bytes_per_second, Duration round_trip,
                               std::uint32_t segment_bytes) noexcept {
  assert(segment_bytes > 0);
  const std::uint64_t rate = std::min(bytes_per_second, kMostRate);
  const auto time =
      static_cast<std::uint64_t>(std::clamp(round_trip, Duration(0), kMostRoundTrip).count());
  // In two parts, so that neither product leaves 64 bits. Rounding up twice rounds up once.
  const std::uint64_t part = rate % kNanosecondsPerSecond * time;
  const std::uint64_t bytes = rate / kNanosecondsPerSecond * time + part / kNanosecondsPerSecond +
                              (part % kNanosecondsPerSecond != 0 ? 1 : 0);
  return std::max<std::uint64_t>(bytes / segment_bytes + (bytes % segment_bytes != 0 ? 1 : 0), 1);
}

ClassPlan plan_connection(const ClassRequest& request) noexcept {
  ClassPlan plan;
  plan.connection_class = request.assumed;
  if (request.connection_class) {
    plan.connection_class = *request.connection_class;
  } else if (request.round_trip) {
    const RttClass measured = class_of(*request.round_trip);
    plan.connection_class = measured.nearest;
    plan.corrected = measured.nearest != request.assumed;
    plan.outside = measured.outside;
  }
  const ClassLimits limits = limits_of(plan.connection_class);
  const bool between_dcs = plan.connection_class == ConnectionClass::kCrossDc;
  plan.segment_bytes =
      request.segment_bytes.value_or(between_dcs ? kSegmentBetweenDcs : kSegmentWithinDc);
  plan.lanes = request.lanes.value_or(limits.least_lanes);
  plan.wanted_outstanding = limits.least_outstanding;
  if (request.round_trip && request.bytes_per_second != 0 && plan.segment_bytes != 0) {
    plan.wanted_outstanding =
        segments_to_fill(request.bytes_per_second, *request.round_trip, plan.segment_bytes);
  }
  plan.outstanding =
      request.outstanding.value_or(static_cast<std::uint32_t>(std::clamp<std::uint64_t>(
          plan.wanted_outstanding, limits.least_outstanding, limits.most_outstanding)));
  return plan;
}

}  // namespace braid::channel
