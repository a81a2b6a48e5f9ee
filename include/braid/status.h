#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

namespace braid {

/// Kinds of outcome. The values in the comment are the numeric errors of the HCOMM interface that
/// each code maps to (requirement 40).
enum class StatusCode : std::uint8_t {
  kOk = 0,
  kWouldBlock,        // 20 AGAIN: a queue, window or buffer is full, or nothing is ready yet
  kInvalidArgument,   // 1 PARA
  kOutOfMemory,       // 3 MEMORY
  kInternal,          // 4 INTERNAL
  kNotSupported,      // 5 NOT_SUPPORT
  kNotFound,          // 6 NOT_FOUND
  kTimeout,           // 9 TIMEOUT
  kConnectionFailed,  // 12 ROCE_CONNECT
  kNetwork,           // 19 NETWORK
  kPermission,        // 1 PARA: a limit or permission of the system forbids it
  kIo,                // 4 INTERNAL: a file or descriptor failed
  kProtocol,          // 12 ROCE_CONNECT: the peer sent what no peer of ours sends
  kAborted,           // 19 NETWORK: closed, flushed or cancelled before it completed
  kUnknownOutcome,    // 19 NETWORK: a lane died, and nobody knows whether the atomic was executed
};

/// Where a status arose, which also says how to read its detail.
enum class StatusOrigin : std::uint8_t {
  kNone = 0,        // detail has no meaning
  kSystem,          // detail is an errno
  kVerbs,           // detail is an errno returned by a verbs call
  kWorkCompletion,  // detail is an ibv_wc_status
  kPeer,            // detail is a StatusCode that the peer reported
};

/// Outcome of an operation.
///
/// Shape: trivially copyable, 8 bytes: code, origin, 32-bit detail.
/// Cost: O(1), never allocates; to_string() allocates and belongs on cold paths only.
class [[nodiscard]] Status {
 public:
  constexpr Status() noexcept = default;
  constexpr explicit Status(StatusCode code, StatusOrigin origin = StatusOrigin::kNone,
                            std::int32_t detail = 0) noexcept
      : code_(code), origin_(origin), detail_(detail) {}

  static constexpr Status from_errno(StatusCode code, int error) noexcept {
    return Status(code, StatusOrigin::kSystem, error);
  }
  static constexpr Status from_verbs(StatusCode code, int error) noexcept {
    return Status(code, StatusOrigin::kVerbs, error);
  }
  static constexpr Status from_completion(int wc_status) noexcept {
    return Status(StatusCode::kNetwork, StatusOrigin::kWorkCompletion, wc_status);
  }

  [[nodiscard]] constexpr bool ok() const noexcept { return code_ == StatusCode::kOk; }
  [[nodiscard]] constexpr StatusCode code() const noexcept { return code_; }
  [[nodiscard]] constexpr StatusOrigin origin() const noexcept { return origin_; }
  [[nodiscard]] constexpr std::int32_t detail() const noexcept { return detail_; }

  /// Renders code, detail and what to do about it. Cold: allocates.
  [[nodiscard]] std::string to_string() const;

  friend constexpr bool operator==(const Status&, const Status&) noexcept = default;

 private:
  StatusCode code_ = StatusCode::kOk;
  StatusOrigin origin_ = StatusOrigin::kNone;
  std::int32_t detail_ = 0;
};

static_assert(std::is_trivially_copyable_v<Status>);
static_assert(sizeof(Status) == 8);

/// Names a code in lower case with underscores, for logs and JSON.
[[nodiscard]] std::string_view to_string(StatusCode code) noexcept;

/// Maps a code to the numeric errors of the HCOMM interface (requirement 40); 0 for kOk.
[[nodiscard]] int hcomm_error_number(StatusCode code) noexcept;

}  // namespace braid
