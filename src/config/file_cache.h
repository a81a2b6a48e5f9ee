#pragma once

#include <braid/config.h>
#include <braid/result.h>

#include <optional>
#include <string>
#include <vector>

#include "config/hcomm_file.h"
#include "config/ip_pair_file.h"
#include "config/report.h"

namespace braid::config {

/// Files that were read and understood. One that has any fault leaves no trace, so that a later
/// call reads it again.
///
/// Thread: none.
class FileCache {
 public:
  /// The devices of hcomm.cfg; null when there is no such file. The pointer holds until the next
  /// call. Warnings come with every call.
  Result<const std::vector<HcommDevice>*> hcomm(const ConfigInputs& inputs, Report& report);
  /// The table of the file, which must exist. As hcomm().
  Result<const IpPairTable*> pairs(const ConfigInputs& inputs, const std::string& path,
                                   Report& report);

 private:
  template <typename T>
  struct Kept {
    std::string path;
    T content;
    std::vector<std::string> warnings;
  };
  std::optional<Kept<std::vector<HcommDevice>>> hcomm_;
  std::optional<Kept<IpPairTable>> pairs_;
};

}  // namespace braid::config
