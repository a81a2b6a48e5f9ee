#include "config/file_cache.h"

#include <utility>

namespace braid::config {
namespace {

Status refuse_file(Report& report, const std::string& path, Status status) {
  return report.refuse(
      {.source = path, .key = "file", .value = status.to_string(), .allowed = "a readable file"});
}

void repeat(const std::vector<std::string>& warnings, Report& report) {
  for (const std::string& each : warnings) report.warn(each);
}

}  // namespace

Result<const std::vector<HcommDevice>*> FileCache::hcomm(const ConfigInputs& inputs,
                                                         Report& report) {
  if (!hcomm_) {
    Result<std::string> text = inputs.read_file(inputs.hcomm_path);
    if (!text) {
      if (text.error().code() == StatusCode::kNotFound) return nullptr;
      return refuse_file(report, inputs.hcomm_path, text.error());
    }
    Report own;
    Result<std::vector<HcommDevice>> devices = parse_hcomm_file(*text, inputs.hcomm_path, own);
    if (!devices) return report.refuse(own.fault());
    hcomm_ = {inputs.hcomm_path, std::move(*devices), own.warnings()};
  }
  repeat(hcomm_->warnings, report);
  return &hcomm_->content;
}

Result<const IpPairTable*> FileCache::pairs(const ConfigInputs& inputs, const std::string& path,
                                            Report& report) {
  if (!pairs_ || pairs_->path != path) {
    Result<std::string> text = inputs.read_file(path);
    if (!text) return refuse_file(report, path, text.error());
    Report own;
    Result<IpPairTable> table = IpPairTable::parse(*text, path, own);
    if (!table) return report.refuse(own.fault());
    pairs_ = {path, std::move(*table), own.warnings()};
  }
  repeat(pairs_->warnings, report);
  return &pairs_->content;
}

}  // namespace braid::config
