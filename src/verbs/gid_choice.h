#pragma once

#include <braid/result.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "verbs/verbs_api.h"

namespace braid::verbs {

/// What a GID table entry is good for, worst first.
enum class GidRank : std::uint8_t {
  kUnreadable,  // the entry or its type cannot be read
  kEmpty,       // all zero
  kNotRoceV2,   // InfiniBand or RoCE v1: does not cross a router
  kLinkLocal,   // fe80::/10, RoCE v2: reaches the link only
  kGlobalIpv6,  // routable IPv6, RoCE v2
  kIpv4Mapped,  // ::ffff:a.b.c.d, RoCE v2
};

/// Why an entry has its rank, in one phrase.
[[nodiscard]] std::string_view to_string(GidRank rank) noexcept;

/// Renders a GID as an IPv4 or IPv6 address. Cold: allocates.
[[nodiscard]] std::string gid_to_string(const ibv_gid& gid);

struct GidCandidate {
  std::uint32_t index = 0;
  ibv_gid gid{};
  GidRank rank = GidRank::kEmpty;
  int error = 0;  // errno when unreadable
};

struct GidRequest {
  std::uint8_t port = 1;
  /// Take this index and no other (a user's explicit choice). It must be readable and not empty;
  /// its type is the user's business.
  std::optional<std::uint32_t> index = std::nullopt;
  /// Take the RoCE v2 entry with this value, wherever it is now: indices move after a port flap.
  std::optional<ibv_gid> value = std::nullopt;
};

struct GidChoice {
  GidCandidate chosen;
  std::vector<GidCandidate> considered;  // every entry that is not empty, in table order

  /// One line: the choice and, for each other entry, why not. Cold: allocates.
  [[nodiscard]] std::string to_string() const;
};

/// Picks the GID to connect with: IPv4-mapped RoCE v2, else global IPv6, else link-local; among
/// equals the lowest index. Entries that cannot be read are skipped and reported.
///
/// Cost: one query per table entry; allocates.
/// Errors: kNotFound when no entry qualifies; kInternal with the errno when the port cannot be
/// queried.
Result<GidChoice> choose_gid(VerbsApi& api, ibv_context* context,
                             const GidRequest& request) noexcept;

}  // namespace braid::verbs
