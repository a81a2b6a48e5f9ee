#include "config/soft_device_env.h"

#include <charconv>

#include "config/parse_units.h"

namespace braid::config {
namespace {

constexpr Duration kMaxDelay = std::chrono::seconds(60);
constexpr std::uint64_t kMaxRate = 1'000'000'000'000;  // 1 Tbit/s
constexpr std::uint64_t kMaxQueue = 1U << 20U;

/// Takes the text up to `separator` off the front.
std::string_view take(std::string_view& text, char separator) {
  const std::size_t at = text.find(separator);
  const std::string_view head = text.substr(0, at);
  text = at == std::string_view::npos ? std::string_view() : text.substr(at + 1);
  return head;
}

std::string quoted(std::string_view text) { return "'" + std::string(text) + "'"; }

/// What a key wants, for the error message; null when the value was taken.
const char* set_field(PathImpairment& entry, std::string_view key, std::string_view value) {
  const auto probability = [&](std::uint32_t& out) {
    const auto parsed = parse_ppm(value);
    if (parsed) out = *parsed;
    return parsed ? nullptr : "a probability from 0% to 100%, as in 0.1%";
  };
  const auto delay = [&](Duration& out) {
    const auto parsed = parse_duration(value);
    if (!parsed || *parsed > kMaxDelay) return "a time up to 60s, as in 200us (ns, us, ms, s)";
    out = *parsed;
    return static_cast<const char*>(nullptr);
  };
  if (key == "port") {
    const auto parsed = parse_integer(value, 1, 65535);
    if (parsed) entry.source_port = static_cast<std::uint16_t>(*parsed);
    return parsed ? nullptr : "a port from 1 to 65535";
  }
  if (key == "rate") {
    const auto parsed = parse_rate(value);
    if (!parsed || *parsed == 0 || *parsed > kMaxRate) {
      return "a rate up to 1000Gbit, as in 400Mbit (bit, Kbit, Mbit, Gbit)";
    }
    entry.rate_bits_per_s = *parsed;
    return nullptr;
  }
  if (key == "queue") {
    const auto parsed = parse_integer(value, 1, kMaxQueue);
    if (parsed) entry.queue_packets = static_cast<std::uint32_t>(*parsed);
    return parsed ? nullptr : "a number of packets from 1 to 1048576";
  }
  if (key == "delay") return delay(entry.delay);
  if (key == "reorder-delay") return delay(entry.reorder_delay);
  if (key == "loss") return probability(entry.loss_ppm);
  if (key == "dup") return probability(entry.duplicate_ppm);
  if (key == "reorder") return probability(entry.reorder_ppm);
  if (key == "corrupt") return probability(entry.corrupt_ppm);
  return "one of the keys port, rate, delay, loss, dup, reorder, reorder-delay, corrupt, queue";
}

/// What libibverbs has room for (IBV_SYSFS_NAME_MAX with its zero), in characters of device names.
bool is_device_name(std::string_view text) {
  constexpr std::size_t kMaxNameBytes = 63;
  constexpr std::string_view kAllowed =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.:";
  return !text.empty() && text.size() <= kMaxNameBytes &&
         text.find_first_not_of(kAllowed) == std::string_view::npos;
}

Status refuse(std::string& error, std::string text) {
  error = std::move(text);
  return Status(StatusCode::kInvalidArgument);
}

Status parse_entry(std::string_view text, PathImpairment& out, std::string& error) {
  const std::string where = "impairment " + quoted(text) + ": ";
  std::vector<std::string_view> seen;
  for (std::string_view rest = text; !rest.empty() || seen.empty();) {
    const bool more = rest.find(',') != std::string_view::npos;
    std::string_view value = take(rest, ',');
    if (value.find('=') == std::string_view::npos || (more && rest.empty())) {
      return refuse(error, where + "expected key=value pairs separated by ','");
    }
    const std::string_view key = take(value, '=');
    for (const std::string_view other : seen) {
      if (other == key) return refuse(error, where + "key " + quoted(key) + " is given twice");
    }
    seen.push_back(key);
    if (const char* wanted = set_field(out, key, value)) {
      return refuse(error, where + quoted(key) + " is " + quoted(value) + "; expected " + wanted);
    }
  }
  return {};
}

/// Reads variables one by one, and stops at the first that is wrong.
class Reader {
 public:
  Reader(const Lookup& lookup, std::string& error) : lookup_(lookup), error_(error) {}

  void text(const char* name, std::string& out) {
    if (const auto value = read(name)) out = *value;
  }
  void device_name(const char* name, std::string& out) {
    const auto value = read(name);
    if (!value) return;
    if (!is_device_name(*value)) {
      fail(name, *value, "1 to 63 letters, digits, '_', '-', '.' or ':'");
    } else {
      out = *value;
    }
  }
  template <typename T>
  void integer(const char* name, T& out, std::uint64_t least, std::uint64_t most) {
    const auto value = read(name);
    if (!value) return;
    if (const auto parsed = parse_integer(*value, least, most)) {
      out = static_cast<T>(*parsed);
    } else {
      fail(name, *value,
           "a whole number from " + std::to_string(least) + " to " + std::to_string(most));
    }
  }
  void boolean(const char* name, bool& out) {
    const auto value = read(name);
    if (!value) return;
    if (*value != "0" && *value != "1") {
      fail(name, *value, "0 or 1");
    } else {
      out = *value == "1";
    }
  }
  void mtu(const char* name, std::uint32_t& out) {
    const auto value = read(name);
    if (!value) return;
    const auto parsed = parse_integer(*value, 256, 4096);
    if (!parsed || (*parsed & (*parsed - 1)) != 0) {
      fail(name, *value, "256, 512, 1024, 2048 or 4096");
    } else {
      out = static_cast<std::uint32_t>(*parsed);
    }
  }
  void impairments(const char* name, std::vector<PathImpairment>& out) {
    const auto value = read(name);
    if (!value) return;
    std::string detail;
    if (!parse_impairments(*value, out, detail).ok()) {
      error_ = std::string(name) + ": " + detail;
      failed_ = true;
    }
  }
  [[nodiscard]] bool failed() const { return failed_; }

 private:
  std::optional<std::string> read(const char* name) {
    return failed_ ? std::nullopt : lookup_(name);
  }
  void fail(const char* name, const std::string& value, const std::string& wanted) {
    error_ = std::string(name) + " is " + quoted(value) + "; expected " + wanted;
    failed_ = true;
  }

  const Lookup& lookup_;
  std::string& error_;
  bool failed_ = false;
};

}  // namespace

Status parse_impairments(std::string_view text, std::vector<PathImpairment>& out,
                         std::string& error) {
  std::vector<PathImpairment> parsed;
  bool more = true;
  while (more) {
    more = text.find(';') != std::string_view::npos;
    PathImpairment entry;
    const Status status = parse_entry(take(text, ';'), entry, error);
    if (!status.ok()) return status;
    for (const PathImpairment& other : parsed) {
      if (other.source_port != entry.source_port) continue;
      return refuse(error, entry.source_port == 0
                               ? std::string("two impairments without a port")
                               : "two impairments for port " + std::to_string(entry.source_port));
    }
    parsed.push_back(entry);
  }
  out = std::move(parsed);
  return {};
}

Status load_soft_device_options(const Lookup& lookup, SoftDeviceOptions& out, std::string& error) {
  SoftDeviceOptions read = out;
  Reader reader(lookup, error);
  reader.device_name("BRAID_SOFT_NAME", read.name);
  reader.text("BRAID_SOFT_ADDRESS", read.address);
  reader.mtu("BRAID_SOFT_MTU", read.mtu_bytes);
  reader.integer("BRAID_SOFT_SOCKET_BUFFER", read.socket_buffer_bytes, 64U << 10U, 1U << 30U);
  reader.integer("BRAID_SOFT_WINDOW_PACKETS", read.window_packets, 8, 65536);
  reader.boolean("BRAID_SOFT_SEGMENTATION_OFFLOAD", read.segmentation_offload);
  reader.boolean("BRAID_SOFT_RAW_RECEIVE", read.raw_receive);
  reader.boolean("BRAID_SOFT_VERIFY_ICRC", read.verify_icrc);
  reader.integer("BRAID_SOFT_SEED", read.seed, 0, ~std::uint64_t{0});
  reader.impairments("BRAID_SOFT_IMPAIR", read.impairments);
  if (reader.failed()) return Status(StatusCode::kInvalidArgument);
  out = std::move(read);
  return {};
}

Status load_soft_device_options(SoftDeviceOptions& out, std::string& error) {
  return load_soft_device_options(process_environment(), out, error);
}

}  // namespace braid::config
