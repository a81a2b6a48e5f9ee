#pragma once

#include <braid/result.h>
#include <braid/soft_device.h>
#include <braid/time.h>
#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "softverbs/soft_verbs.h"

namespace braid::bench {

/// One process's end of a SoftPair: an open soft device with QPs that share one CQ, and a buffer.
class SoftEnd {
 public:
  /// Errors: kInternal when the device or an object cannot be had.
  Status open(std::uint32_t qp_count, std::size_t buffer_bytes) noexcept;
  ~SoftEnd();
  SoftEnd() = default;
  SoftEnd(const SoftEnd&) = delete;
  SoftEnd& operator=(const SoftEnd&) = delete;

  /// Swaps endpoints with the other end over a stream socket and brings the QPs up.
  Status connect(int socket) noexcept;

  /// Posts one RDMA WRITE of the buffer's first bytes to the same place at the peer.
  Status post_write(std::uint32_t qp, std::uint32_t bytes, std::uint64_t wr_id, bool inlined,
                    std::uint64_t local_offset, std::uint64_t remote_offset) noexcept;
  [[nodiscard]] ibv_cq* cq() noexcept { return cq_; }
  [[nodiscard]] std::uint8_t* buffer() noexcept { return buffer_.get(); }

 private:
  std::unique_ptr<softverbs::SoftVerbs> api_;
  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_mr* mr_ = nullptr;
  ibv_cq* cq_ = nullptr;
  std::vector<ibv_qp*> qps_;
  std::unique_ptr<std::uint8_t[]> buffer_;
  std::uint64_t peer_address_ = 0;
  std::uint32_t peer_key_ = 0;
};

/// Goodput of RDMA WRITEs from this process to a forked one, whose application does nothing: its
/// device's own thread receives.
///
/// Shape: `message_bytes` per WR, `in_flight` WRs on each of `qp_count` QPs, MTU 4096.
/// Returns bytes per second whose completions were polled within `duration`, after a tenth of it
/// for warming up. Errors: kInternal (also when the bytes at the target are not the source's),
/// kNetwork (a completion with an error).
[[nodiscard]] Result<double> measure_write_goodput(std::uint32_t qp_count,
                                                   std::uint32_t message_bytes,
                                                   std::uint32_t in_flight,
                                                   Duration duration) noexcept;

/// Mean seconds per round trip of 8-byte RDMA WRITEs between two processes that each wait for the
/// bytes to change in memory while polling their CQ. Errors: as above.
[[nodiscard]] Result<double> measure_write_ping_pong(std::uint64_t round_trips) noexcept;

/// Bytes of resident memory that each of `qp_count` idle connected QPs of depth 128 costs in one
/// process (64 bytes of inline data, one SGE). Measured in a forked process.
[[nodiscard]] Result<double> measure_memory_per_qp(std::uint32_t qp_count) noexcept;

}  // namespace braid::bench
