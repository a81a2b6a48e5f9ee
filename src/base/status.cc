#include <braid/status.h>

#include <array>
#include <cstring>

namespace braid {
namespace {

struct CodeText {
  std::string_view name;
  std::string_view remedy;
  int hcomm_number;
};

constexpr CodeText text_of(StatusCode code) noexcept {
  switch (code) {
    case StatusCode::kOk: return {"ok", "", 0};
    case StatusCode::kWouldBlock: return {"would_block", "call progress() and try again", 20};
    case StatusCode::kInvalidArgument: return {"invalid_argument", "correct the argument", 1};
    case StatusCode::kOutOfMemory:
      return {"out_of_memory", "lower the capacities or free memory", 3};
    case StatusCode::kInternal: return {"internal", "report this as a defect", 4};
    case StatusCode::kNotSupported: return {"not_supported", "the device or build lacks this", 5};
    case StatusCode::kNotFound: return {"not_found", "check the name, key or range", 6};
    case StatusCode::kTimeout: return {"timeout", "check the peer, or raise the timeout", 9};
    case StatusCode::kConnectionFailed:
      return {"connection_failed", "check that the peer listens and both sides agree", 12};
    case StatusCode::kNetwork: return {"network", "check the path to the peer", 19};
    case StatusCode::kPermission: return {"permission", "raise the limit or the privilege", 1};
    case StatusCode::kIo: return {"io", "check the file and the space on its device", 4};
    case StatusCode::kProtocol: return {"protocol", "check what listens at that address", 12};
    case StatusCode::kUnknownOutcome:
      return {
          "unknown_outcome",
          "a lane died during an atomic and nobody knows whether it was executed; read the word",
          19};
    case StatusCode::kAborted: return {"aborted", "the operation was cut short; repeat it", 19};
  }
  return {"unknown", "", 4};
}

}  // namespace

std::string_view to_string(StatusCode code) noexcept { return text_of(code).name; }

int hcomm_error_number(StatusCode code) noexcept { return text_of(code).hcomm_number; }

std::string Status::to_string() const {
  const CodeText text = text_of(code_);
  std::string out(text.name);
  switch (origin_) {
    case StatusOrigin::kNone: break;
    case StatusOrigin::kSystem:
    case StatusOrigin::kVerbs: {
      std::array<char, 128> buffer{};
      out += origin_ == StatusOrigin::kVerbs ? " (verbs: " : " (";
      out += strerror_r(detail_, buffer.data(), buffer.size());
      out += ", errno " + std::to_string(detail_) + ")";
      break;
    }
    case StatusOrigin::kWorkCompletion:
      out += " (work completion status " + std::to_string(detail_) + ")";
      break;
    case StatusOrigin::kPeer:
      out += " (reported by the peer: ";
      out += braid::to_string(static_cast<StatusCode>(detail_));
      out += ")";
      break;
  }
  if (!text.remedy.empty()) {
    out += ": ";
    out += text.remedy;
  }
  return out;
}

}  // namespace braid
