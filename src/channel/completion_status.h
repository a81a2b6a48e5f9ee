#pragma once

#include <infiniband/verbs.h>

#include <string>

namespace braid::channel {

/// Says in one phrase what the status means and what to look at. Cold: allocates.
[[nodiscard]] std::string describe(ibv_wc_status status);

/// True for what a request did wrong, which repeats itself on any queue pair: a key, a range, a
/// length. Other errors are those of a queue pair, a path or a peer's device.
[[nodiscard]] bool is_fault_of_request(ibv_wc_status status) noexcept;

}  // namespace braid::channel
