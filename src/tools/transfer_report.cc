#include "tools/transfer_report.h"

#include <cinttypes>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "tools/exit_code.h"
#include "tools/progress_bar.h"

namespace braid::tools {
namespace {

// Ordered, so that the output reads like the table.
using Json = nlohmann::ordered_json;

struct Row {
  std::uint64_t segments;
  std::uint64_t bytes;
  double share;
  double mean_us;  // negative: only the sending side knows
};

Row row_of(const TransferReport& report, const LaneStats& lane) {
  std::uint64_t total = 0;
  for (const LaneStats& each : report.lanes) {
    total += report.sending ? each.completed_bytes : each.received_bytes;
  }
  Row row{};
  row.segments = report.sending ? lane.completed_segments : lane.received_segments;
  row.bytes = report.sending ? lane.completed_bytes : lane.received_bytes;
  row.share = total == 0 ? 0 : static_cast<double>(row.bytes) / static_cast<double>(total);
  row.mean_us = report.sending
                    ? std::chrono::duration<double, std::micro>(lane.mean_completion_time()).count()
                    : -1;
  return row;
}

// File names need not be UTF-8; JSON does.
std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

TransferReport make_report(const Channel& channel, bool sending) {
  TransferReport report;
  report.sending = sending;
  report.peer_address = channel.peer_address();
  report.path_mtu_bytes = channel.options().path_mtu_bytes;
  report.segment_bytes = channel.options().segment_bytes;
  report.channel = channel.stats();
  for (std::uint32_t i = 0; i < channel.lane_count(); ++i) {
    report.lanes.push_back(channel.lane_stats(i));
  }
  return report;
}

namespace {

void print_table(const TransferReport& report) {
  const double seconds = std::chrono::duration<double>(report.elapsed).count();
  const double rate = seconds > 0 ? static_cast<double>(report.bytes) / seconds : 0;
  std::printf("%s %s: %s in %.3f s, %s/s\n", report.sending ? "sent" : "received",
              report.file.c_str(), human_bytes(static_cast<double>(report.bytes)).c_str(), seconds,
              human_bytes(rate).c_str());
  std::printf("%s %s -> %s, path MTU %u, segments of %s\n", report.device.c_str(),
              report.local_address.c_str(), report.peer_address.c_str(), report.path_mtu_bytes,
              human_bytes(report.segment_bytes).c_str());
  std::printf("%4s  %8s  %11s  %9s  %13s  %7s  %15s\n", "lane", "QPN", "source port", "segments",
              "bytes", "share", "mean completion");
  for (const LaneStats& lane : report.lanes) {
    const Row row = row_of(report, lane);
    const std::string port =
        lane.source_port_effective != 0
            ? std::to_string(lane.source_port_effective)
            : (lane.source_port_requested != 0 ? std::to_string(lane.source_port_requested) + "?"
                                               : std::string("-"));
    std::printf("%4u  %8u  %11s  %9" PRIu64 "  %13" PRIu64 "  %6.2f%%", lane.lane, lane.qpn,
                port.c_str(), row.segments, row.bytes, row.share * 100);
    if (row.mean_us >= 0) {
      std::printf("  %12.1f us\n", row.mean_us);
    } else {
      std::printf("  %15s\n", "-");
    }
  }
  for (const LaneStats& lane : report.lanes) {
    if (lane.moves > 0) {
      std::printf("lane %u changed its source port %" PRIu64 " time(s), because it was slow\n",
                  lane.lane, lane.moves);
    }
    if (lane.generation == 0) continue;
    std::printf("lane %u failed and was replaced %u time(s); %" PRIu64
                " segment(s) were sent again\n",
                lane.lane, lane.generation, lane.replayed_segments);
  }
  std::printf("sha256 %s %s\n", to_hex(report.digest).c_str(),
              report.verified ? "(equal on both sides)" : "(DIFFERENT on the two sides)");
}

void print_json(const TransferReport& report) {
  const double seconds = std::chrono::duration<double>(report.elapsed).count();
  Json json;
  json["ok"] = report.verified;
  json["role"] = report.sending ? "send" : "receive";
  json["file"] = report.file;
  json["bytes"] = report.bytes;
  json["seconds"] = seconds;
  json["bytes_per_second"] = seconds > 0 ? static_cast<double>(report.bytes) / seconds : 0.0;
  json["sha256"] = to_hex(report.digest);
  json["verified"] = report.verified;
  json["device"] = report.device;
  json["local_address"] = report.local_address;
  json["peer_address"] = report.peer_address;
  json["path_mtu_bytes"] = report.path_mtu_bytes;
  json["segment_bytes"] = report.segment_bytes;
  json["lanes"] = Json::array();
  for (const LaneStats& lane : report.lanes) {
    const Row row = row_of(report, lane);
    Json entry;
    entry["lane"] = lane.lane;
    entry["qpn"] = lane.qpn;
    entry["peer_qpn"] = lane.peer_qpn;
    entry["source_port_requested"] = lane.source_port_requested;
    entry["source_port"] = lane.source_port_effective;
    entry["segments"] = row.segments;
    entry["bytes"] = row.bytes;
    entry["share"] = row.share;
    entry["replaced"] = lane.generation;
    entry["replayed_segments"] = lane.replayed_segments;
    entry["moves"] = lane.moves;
    if (row.mean_us >= 0) entry["mean_completion_us"] = row.mean_us;
    json["lanes"].push_back(std::move(entry));
  }
  json["reorder_high_water"] = report.channel.reorder_high_water;
  json["duplicate_segments"] = report.channel.duplicate_segments;
  json["out_of_window_segments"] = report.channel.out_of_window_segments;
  json["window_stalls"] = report.channel.window_stalls;
  json["credit_stalls"] = report.channel.credit_stalls;
  std::printf("%s\n", dump(json).c_str());
}

}  // namespace

MaybeFailure print_report(const TransferReport& report, bool json) {
  print_table(report);
  if (json) print_json(report);
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return std::nullopt;
  return Failure{kExitFile, "the file is complete, but the report cannot be written to stdout"};
}

void print_failure_json(bool sending, int exit_code, const std::string& text) {
  Json json;
  json["ok"] = false;
  json["role"] = sending ? "send" : "receive";
  json["exit_code"] = exit_code;
  json["error"] = text;
  std::printf("%s\n", dump(json).c_str());
}

}  // namespace braid::tools
