#pragma once

#include <cstdint>

namespace braid::bench {

/// Nanoseconds per 4 KiB packet of a long RDMA WRITE, in one process without any I/O.
struct EngineCost {
  double transmit_ns = 0;  // building the packet, ICRC included, payload left in place
  double receive_ns = 0;   // parsing, checking the ICRC, copying to memory, acknowledging
  double crc_ns = 0;       // the ICRC's CRC alone, over as many bytes
  double copy_ns = 0;      // the copy alone, between the same buffers
};

/// Shape: `packet_count` packets after as many to warm up. The buffers exceed the first-level
/// cache and fit the second, as those of a batch on its way to a socket do.
[[nodiscard]] EngineCost measure_engine_cost(std::uint64_t packet_count);

}  // namespace braid::bench
