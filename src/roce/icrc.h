#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <span>

#include "roce/address.h"
#include "roce/datagram.h"

namespace braid::roce {

// Invariant CRC of RoCEv2 (IBTA annex A17.3.3; requirements on RoCEv2 framing). It covers the IP
// and UDP headers with the fields that routers change replaced by ones, so it depends on the
// addresses, the source port and, for IPv4, the identification.

/// Computes the ICRC of a packet, for IPv4 identification 0 and DF set.
///
/// Shape: `pieces` hold the UDP payload from the BTH up to the pad, without the ICRC. The first
/// piece holds at least the whole BTH.
/// Returns the value whose least significant byte goes on the wire first.
/// Cost: O(bytes), carry-less multiply, does not allocate.
[[nodiscard]] std::uint32_t compute_icrc(const FlowAddress& flow,
                                         std::span<const iovec> pieces) noexcept;

/// Verifies the ICRC of a received datagram, honouring datagram.ip_id as described there.
[[nodiscard]] bool verify_icrc(const RxDatagram& datagram) noexcept;

/// What XORing an IPv4 identification into a packet of `udp_payload_bytes` (ICRC included) does to
/// its ICRC. CRC is linear, so the effect depends on the length alone.
///
/// Shape: ip_id in [0, kMaxBatchIpId]; udp_payload_bytes in [16, 4096 + 64].
/// Cost: a table load per set bit; thread-safe.
[[nodiscard]] std::uint32_t icrc_delta_for_ip_id(std::size_t udp_payload_bytes,
                                                 std::uint16_t ip_id) noexcept;

/// Rewrites the ICRC at packet.icrc for a packet that will leave with this identification.
void adjust_icrc_for_ip_id(const TxPacket& packet, std::uint16_t ip_id) noexcept;

}  // namespace braid::roce
