#include "config/ip_pair_file.h"

#include <arpa/inet.h>

#include <algorithm>
#include <string>
#include <utility>

#include "config/port_list.h"
#include "config/text.h"

namespace braid::config {

std::optional<IpAddress> parse_ip_address(std::string_view text) {
  const std::string zero_ended(text);
  if (zero_ended.size() != std::char_traits<char>::length(zero_ended.c_str())) return std::nullopt;
  IpAddress out;
  if (inet_pton(AF_INET, zero_ended.c_str(), out.bytes.data()) == 1) return out;
  if (inet_pton(AF_INET6, zero_ended.c_str(), out.bytes.data()) != 1) return std::nullopt;
  out.v6 = true;
  constexpr std::array<std::uint8_t, 12> kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};
  if (std::equal(kMapped.begin(), kMapped.end(), out.bytes.begin())) {
    IpAddress v4;
    std::copy(out.bytes.begin() + 12, out.bytes.end(), v4.bytes.begin());
    return v4;
  }
  return out;
}

/// Reads line after line into a table.
class IpPairParser {
 public:
  IpPairParser(std::string_view file, Report& report) : file_(file), report_(report) {}

  Status take_line(std::string_view raw) {
    ++line_;
    std::string line;
    for (const char each : raw.substr(0, raw.find('#'))) {
      if (each != ' ' && each != '\t' && each != '\r') line += each;
    }
    if (line.empty()) return {};
    std::string_view value = line;
    const std::string_view key = take_until(value, '=');
    if (std::count(line.begin(), line.end(), '=') != 1 ||
        std::count(key.begin(), key.end(), ',') != 1) {
      return refuse("", line, "SOURCE,DESTINATION=PORT,PORT... with one '=' and one ',' before it");
    }
    IpPairTable::Pair pair;
    const Status status = take_pair(key, pair);
    if (!status.ok()) return status;
    const Fault where{.source = std::string(file_), .line = line_, .key = std::string(key)};
    if (value.size() > 1 && (value.front() == '0' || value.find(",0") != std::string_view::npos)) {
      return refuse(key, value, "decimal ports without leading zero or 0x");
    }
    Result<std::vector<std::uint16_t>> ports = parse_ports(value, where, report_);
    if (!ports) return ports.error();
    const auto [at, added] = table_.entries_.try_emplace(pair);
    if (!added) {
      return refuse(key, value,
                    ("one line per pair; this pair stands in line " +
                     std::to_string(at->second.line) + " already")
                        .c_str());
    }
    at->second = {std::move(*ports), line_};
    return {};
  }
  void stop_early() {
    report_.warn(std::string(file_) + ": what follows line " + std::to_string(kMaxIpPairLines) +
                 " is not read");
  }
  [[nodiscard]] bool full() const { return line_ == kMaxIpPairLines; }
  IpPairTable take() { return std::move(table_); }

 private:
  Status refuse(std::string_view key, std::string_view value, const char* allowed) {
    return report_.refuse({.source = std::string(file_),
                           .line = line_,
                           .key = std::string(key),
                           .value = std::string(value),
                           .allowed = allowed});
  }

  Status take_pair(std::string_view key, IpPairTable::Pair& pair) {
    std::string_view rest = key;
    for (IpAddress& out : pair) {
      const std::string_view text = take_until(rest, ',');
      // Older configurations write any IPv6 address with its length.
      const auto address = parse_ip_address(text == "::/128" ? "::" : text);
      if (!address) return refuse(key, text, "an IPv4 or IPv6 address; 0.0.0.0 or :: is any");
      out = *address;
    }
    if (pair[0].v6 != pair[1].v6) {
      if (pair[0].any() == pair[1].any()) {
        return refuse(key, key, "two addresses of one family");
      }
      IpAddress& any = pair[0].any() ? pair[0] : pair[1];
      any.v6 = !any.v6;
    }
    return {};
  }

  std::string_view file_;
  Report& report_;
  std::uint32_t line_ = 0;
  IpPairTable table_;
};

Result<IpPairTable> IpPairTable::parse(std::string_view text, std::string_view file,
                                       Report& report) {
  IpPairParser parser(file, report);
  while (!text.empty()) {
    if (parser.full()) {
      parser.stop_early();
      break;
    }
    const Status status = parser.take_line(take_until(text, '\n'));
    if (!status.ok()) return status;
  }
  return parser.take();
}

const IpPairTable::Entry* IpPairTable::find(const IpAddress& source,
                                            const IpAddress& destination) const {
  if (source.v6 != destination.v6) return nullptr;
  const IpAddress any{.v6 = source.v6};
  for (const Pair& pair :
       {Pair{source, destination}, Pair{any, destination}, Pair{source, any}, Pair{any, any}}) {
    const auto at = entries_.find(pair);
    if (at != entries_.end()) return &at->second;
  }
  return nullptr;
}

}  // namespace braid::config
