#pragma once

#include <braid/soft_device.h>
#include <braid/status.h>

#include <string>
#include <string_view>
#include <vector>

#include "config/environment.h"

namespace braid::config {

/// Parses what a soft device's paths are to suffer.
///
/// Shape: entries separated by ';', each `key=value` pairs separated by ',', no blanks:
///   port=N        UDP source port that the entry applies to, 1..65535; without it, every port
///                 that has no entry of its own
///   rate=R        bits per second: digits with an optional fraction, then bit, Kbit, Mbit, Gbit,
///                 or K, M, G for short
///   delay=T       one way: a number, then ns, us, ms or s; at most 60 s
///   loss=P, dup=P, reorder=P, corrupt=P   probability per packet: 0%..100%, four decimals
///   reorder-delay=T   how long a reordered packet is held back
///   queue=N       packets that wait for the rate, 1..1048576
/// Example: "port=50004,rate=400Mbit,delay=1ms,loss=0.1%;delay=100us".
/// Errors: kInvalidArgument; `error` names the entry, the key, the value and what is allowed, and
/// `out` is unchanged.
Status parse_impairments(std::string_view text, std::vector<PathImpairment>& out,
                         std::string& error);

/// Reads the soft device's options from variables:
///   BRAID_SOFT_NAME (1..63 letters, digits, '_', '-', '.', ':'), BRAID_SOFT_ADDRESS,
///   BRAID_SOFT_MTU (256..4096), BRAID_SOFT_SOCKET_BUFFER (bytes, 64 KiB..1 GiB),
///   BRAID_SOFT_WINDOW_PACKETS (8..65536), BRAID_SOFT_SEGMENTATION_OFFLOAD,
///   BRAID_SOFT_RAW_RECEIVE, BRAID_SOFT_VERIFY_ICRC (0 or 1), BRAID_SOFT_SEED (decimal),
///   BRAID_SOFT_IMPAIR (as parse_impairments()).
/// A variable that is not set leaves its option as it is.
/// Errors: kInvalidArgument; `error` names the variable, its value and what is allowed, and `out`
/// is unchanged.
Status load_soft_device_options(const Lookup& lookup, SoftDeviceOptions& out, std::string& error);

/// The same from the process's environment.
Status load_soft_device_options(SoftDeviceOptions& out, std::string& error);

}  // namespace braid::config
