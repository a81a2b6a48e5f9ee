#pragma once

#include <braid/channel.h>
#include <braid/time.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tools/failure.h"
#include "tools/sha256.h"

namespace braid::tools {

/// What is printed after a transfer.
struct TransferReport {
  bool sending = true;
  std::string file;
  std::uint64_t bytes = 0;
  Duration elapsed{0};
  Digest digest{};
  bool verified = false;
  std::string device;
  std::string local_address;
  std::string peer_address;
  std::uint32_t path_mtu_bytes = 0;
  std::uint32_t segment_bytes = 0;
  std::vector<LaneStats> lanes;
  ChannelStats channel;
};

/// Takes what the channel knows; the caller fills in the file, its size, time and digest.
[[nodiscard]] TransferReport make_report(const Channel& channel, bool sending);

/// The table for people, and with `json` the same as one JSON object on the last line, on stdout.
/// Fails when stdout does not take it: the transfer is done then, but nobody can know.
[[nodiscard]] MaybeFailure print_report(const TransferReport& report, bool json);
/// A failure as one JSON object on one line, on stdout.
void print_failure_json(bool sending, int exit_code, const std::string& text);

}  // namespace braid::tools
