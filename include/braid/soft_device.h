#pragma once

#include <braid/time.h>

#include <cstdint>
#include <string>
#include <vector>

namespace braid {

/// What the soft device does to packets that it sends from one UDP source port, so that a test or
/// demo can make lanes differ on one machine. All zero = untouched.
struct PathImpairment {
  std::uint16_t source_port = 0;  // the lane it applies to; 0 = every port without its own entry
  std::uint64_t rate_bits_per_s = 0;  // 0 = unlimited; UDP payload is what is counted
  Duration delay{0};                  // added one way
  std::uint32_t loss_ppm = 0;         // parts per million, independently per packet
  std::uint32_t duplicate_ppm = 0;
  std::uint32_t reorder_ppm = 0;  // packet is held back by reorder_delay
  Duration reorder_delay = std::chrono::microseconds(200);
  std::uint32_t corrupt_ppm = 0;  // one bit is flipped
  /// Packets that wait for their turn at the rate; beyond, the newest is dropped.
  /// Memory: up to this many times 4 KiB. Raise it when the sum of windows is larger.
  std::uint32_t queue_packets = 4096;
};

/// The user-space RoCEv2 device over UDP.
struct SoftDeviceOptions {
  /// Device name that ibv_get_device_name returns.
  std::string name = "braid_soft0";
  /// IPv4 or IPv6 address of an interface of this host. Empty: a free one of 127.0.0.0/8, so that
  /// every process can own a device. UDP port 4791 of the address must be free.
  std::string address;
  /// Path MTU limit in bytes: 256, 512, 1024, 2048 or 4096; 0 = what the interface carries.
  std::uint32_t mtu_bytes = 0;
  /// Socket buffers. Default 8 MiB: several windows of 128 packets of 4 KiB. Needs CAP_NET_ADMIN
  /// above net.core.rmem_max; less is taken silently then, and loss is repaired by retransmission.
  std::uint32_t socket_buffer_bytes = 8U << 20U;
  /// Packets unacknowledged per QP. rxe's is 128.
  std::uint32_t window_packets = 128;
  /// UDP_SEGMENT and UDP_GRO where the kernel has them. Off only to compare or to work around.
  bool segmentation_offload = true;
  /// Where CAP_NET_RAW allows it, receive through a raw socket that shows each packet's IPv4
  /// identification. Needed to verify the ICRC of peers that number their packets (the kernel's
  /// rxe, hardware); our own peers do not need it.
  bool raw_receive = false;
  /// ICRC of received packets is verified; a mismatch is dropped and counted.
  bool verify_icrc = true;
  std::vector<PathImpairment> impairments;
  /// Seed of the impairments and of keys and QPN generations; 0 = from the system.
  std::uint64_t seed = 0;
};

}  // namespace braid
