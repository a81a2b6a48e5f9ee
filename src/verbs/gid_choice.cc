#include "verbs/gid_choice.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace braid::verbs {
namespace {

bool is_empty(const ibv_gid& gid) noexcept {
  return std::all_of(std::begin(gid.raw), std::end(gid.raw), [](auto byte) { return byte == 0; });
}

bool is_link_local(const ibv_gid& gid) noexcept {
  return gid.raw[0] == 0xFE && (gid.raw[1] & 0xC0) == 0x80;
}

bool is_ipv4_mapped(const ibv_gid& gid) noexcept {
  static constexpr std::uint8_t kPrefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};
  return std::memcmp(gid.raw, kPrefix, sizeof kPrefix) == 0;
}

GidCandidate inspect(VerbsApi& api, ibv_context* context, std::uint8_t port, std::uint32_t index) {
  GidCandidate candidate;
  candidate.index = index;
  ibv_gid_entry entry{};
  const int error = api.query_gid_ex(context, port, index, &entry);
  if (error != 0) {
    // An unset entry is reported by ENODATA on newer kernels and by zeros on older ones.
    const int number = error > 0 ? error : errno;
    candidate.rank = number == ENODATA ? GidRank::kEmpty : GidRank::kUnreadable;
    candidate.error = number;
    return candidate;
  }
  candidate.gid = entry.gid;
  if (is_empty(entry.gid)) {
    candidate.rank = GidRank::kEmpty;
  } else if (entry.gid_type != IBV_GID_TYPE_ROCE_V2) {
    candidate.rank = GidRank::kNotRoceV2;
  } else if (is_ipv4_mapped(entry.gid)) {
    candidate.rank = GidRank::kIpv4Mapped;
  } else {
    candidate.rank = is_link_local(entry.gid) ? GidRank::kLinkLocal : GidRank::kGlobalIpv6;
  }
  return candidate;
}

bool qualifies(const GidCandidate& candidate, const GidRequest& request) noexcept {
  if (request.index.has_value()) {
    return candidate.index == *request.index && candidate.rank >= GidRank::kNotRoceV2;
  }
  if (candidate.rank < GidRank::kLinkLocal) return false;
  if (!request.value.has_value()) return true;
  return std::memcmp(candidate.gid.raw, request.value->raw, sizeof candidate.gid.raw) == 0;
}

}  // namespace

std::string_view to_string(GidRank rank) noexcept {
  switch (rank) {
    case GidRank::kUnreadable: return "cannot be read";
    case GidRank::kEmpty: return "empty";
    case GidRank::kNotRoceV2: return "not RoCE v2";
    case GidRank::kLinkLocal: return "link-local, RoCE v2";
    case GidRank::kGlobalIpv6: return "global IPv6, RoCE v2";
    case GidRank::kIpv4Mapped: return "IPv4, RoCE v2";
  }
  return "unknown";
}

std::string gid_to_string(const ibv_gid& gid) {
  char text[INET6_ADDRSTRLEN] = {};
  const bool mapped = is_ipv4_mapped(gid);
  const void* address = mapped ? static_cast<const void*>(gid.raw + 12) : gid.raw;
  // Cannot fail: the family is known and the buffer holds the longest form.
  inet_ntop(mapped ? AF_INET : AF_INET6, address, text, sizeof text);
  return text;
}

std::string GidChoice::to_string() const {
  std::string text = "GID index " + std::to_string(chosen.index) + " " + gid_to_string(chosen.gid) +
                     " (" + std::string(verbs::to_string(chosen.rank)) + ")";
  for (const GidCandidate& other : considered) {
    if (other.index == chosen.index) continue;
    text += "; not " + std::to_string(other.index);
    if (other.rank != GidRank::kUnreadable) text += " " + gid_to_string(other.gid);
    text += " (" + std::string(verbs::to_string(other.rank));
    if (other.error != 0) text += ", errno " + std::to_string(other.error);
    text += ")";
  }
  return text;
}

Result<GidChoice> choose_gid(VerbsApi& api, ibv_context* context,
                             const GidRequest& request) noexcept {
  ibv_port_attr port{};
  const int error = api.query_port(context, request.port, &port);
  if (error != 0) {
    return Status::from_verbs(StatusCode::kInternal, error > 0 ? error : errno);
  }
  GidChoice choice;
  bool found = false;
  const auto table_entries = static_cast<std::uint32_t>(std::max(port.gid_tbl_len, 0));
  for (std::uint32_t index = 0; index < table_entries; ++index) {
    const GidCandidate candidate = inspect(api, context, request.port, index);
    if (candidate.rank != GidRank::kEmpty) choice.considered.push_back(candidate);
    if (!qualifies(candidate, request)) continue;
    if (!found || candidate.rank > choice.chosen.rank) choice.chosen = candidate;
    found = true;
  }
  if (!found) return Status(StatusCode::kNotFound);
  return choice;
}

}  // namespace braid::verbs
