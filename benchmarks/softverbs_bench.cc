// Figures of the soft device, each against what bare UDP does on the same machine at the same time.

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "engine_alone.h"
#include "figure.h"
#include "soft_measurements.h"
#include "udp_baseline.h"

namespace braid::bench {
namespace {

constexpr int kRuns = 5;
constexpr std::uint64_t kRoundTrips = 20'000;
constexpr std::uint64_t kEnginePackets = 50'000;
constexpr double kMega = 1e6;
constexpr std::chrono::milliseconds kDuration{300};

struct GoodputCase {
  std::string name;
  GoodputOptions options;
};

std::vector<GoodputCase> goodput_cases() {
  std::vector<GoodputCase> cases;
  for (const std::uint32_t kilobytes : {64U, 1024U}) {
    for (const std::uint32_t qps : {1U, 4U}) {
      GoodputOptions options;
      options.message_bytes = kilobytes << 10U;
      options.qp_count = qps;
      options.depth_count = kilobytes == 64 ? 16 : 4;
      options.duration = kDuration;
      cases.push_back({"write_" + std::to_string(kilobytes) + "KiB_" + std::to_string(qps) + "qp",
                       options});
    }
  }
  return cases;
}

/// Value and error of a baseline, with the error told on stderr.
std::optional<double> goodput_of(const Result<UdpGoodput>& result, const char* name) {
  if (result) return result->bytes_per_second / kMega;
  (void)std::fprintf(stderr, "benchmark: baseline %s: %s\n", name,
                     result.error().to_string().c_str());
  return std::nullopt;
}

/// Two figures per case: against sendmmsg and against UDP_SEGMENT.
bool add_goodput(std::vector<Figure>& figures) {
  const std::vector<GoodputCase> cases = goodput_cases();
  std::vector<Figure> of_cases;
  for (const GoodputCase& one : cases) {
    of_cases.push_back({one.name + "_to_sendmmsg", "MB/s", {}, {}, Goal{Goal::Of::kRatio, Goal::Kind::kAtLeast, 1.5}});
    of_cases.push_back({one.name + "_to_udp_gso", "MB/s", {}, {}, Goal{Goal::Of::kRatio, Goal::Kind::kAtLeast, 0.4}});
  }
  UdpBaselineOptions baseline;
  baseline.duration = kDuration;
  for (int run = 0; run < kRuns; ++run) {
    const auto batches = goodput_of(measure_udp_batches(baseline), "sendmmsg");
    const auto segmented = goodput_of(measure_udp_segmented(baseline), "UDP_SEGMENT");
    if (!batches || !segmented) return false;
    for (std::size_t i = 0; i < cases.size(); ++i) {
      const std::optional<double> goodput = measure_write_goodput(cases[i].options);
      if (!goodput) return false;
      Figure& to_batches = of_cases[2 * i];
      Figure& to_segmented = of_cases[2 * i + 1];
      to_batches.values.push_back(*goodput / kMega);
      to_batches.baselines.push_back(*batches);
      to_segmented.values.push_back(*goodput / kMega);
      to_segmented.baselines.push_back(*segmented);
    }
  }
  figures.insert(figures.end(), of_cases.begin(), of_cases.end());
  return true;
}

bool add_ping_pong(std::vector<Figure>& figures) {
  Figure figure{"write_8B_round_trip_to_udp", "us", {}, {}, Goal{Goal::Of::kRatio, Goal::Kind::kAtMost, 1.5}};
  for (int run = 0; run < kRuns; ++run) {
    const Result<double> bare = measure_udp_ping_pong(kRoundTrips);
    if (!bare) {
      (void)std::fprintf(stderr, "benchmark: baseline ping-pong: %s\n",
                         bare.error().to_string().c_str());
      return false;
    }
    const std::optional<double> ours = measure_write_ping_pong(kRoundTrips);
    if (!ours) return false;
    figure.baselines.push_back(*bare * kMega);
    figure.values.push_back(*ours * kMega);
  }
  figures.push_back(figure);
  return true;
}

bool add_idle_memory(std::vector<Figure>& figures) {
  const Goal goal{Goal::Of::kValue, Goal::Kind::kAtMost, 64};
  Figure allocated{"idle_qp_depth128_of_4096_allocated", "KiB", {}, {}, goal};
  Figure resident{"idle_qp_depth128_of_4096_resident", "KiB", {}, {}, goal};
  for (int run = 0; run < kRuns; ++run) {
    const std::optional<IdleMemory> memory = measure_idle_qp(4096, 128);
    if (!memory) return false;
    allocated.values.push_back(memory->allocated_bytes / 1024);
    resident.values.push_back(memory->resident_bytes / 1024);
  }
  figures.push_back(allocated);
  figures.push_back(resident);
  return true;
}

/// The baseline of a share is the whole that it is a share of.
bool add_engine(std::vector<Figure>& figures) {
  Figure send{"engine_send_4KiB_packet", "ns", {}, {}, {}};
  Figure send_crc{"engine_send_4KiB_packet_crc_share", "ns", {}, {}, {}};
  Figure receive{"engine_receive_4KiB_packet", "ns", {}, {}, {}};
  Figure receive_crc{"engine_receive_4KiB_packet_crc_share", "ns", {}, {}, {}};
  Figure receive_copy{"engine_receive_4KiB_packet_copy_share", "ns", {}, {}, {}};
  for (int run = 0; run < kRuns; ++run) {
    const Result<EngineCost> cost = measure_engine_alone(kEnginePackets);
    if (!cost) {
      (void)std::fprintf(stderr, "benchmark: engine: %s\n", cost.error().to_string().c_str());
      return false;
    }
    send.values.push_back(cost->send_ns);
    send_crc.values.push_back(cost->send_crc_ns);
    send_crc.baselines.push_back(cost->send_ns);
    receive.values.push_back(cost->receive_ns);
    receive_crc.values.push_back(cost->receive_crc_ns);
    receive_crc.baselines.push_back(cost->receive_ns);
    receive_copy.values.push_back(cost->receive_copy_ns);
    receive_copy.baselines.push_back(cost->receive_ns);
  }
  figures.insert(figures.end(), {send, send_crc, receive, receive_crc, receive_copy});
  return true;
}

int run(bool json) {
  std::vector<Figure> figures;
  // The engine's comes first: no process has been forked, and no figure depends on the order.
  if (!add_engine(figures) || !add_goodput(figures) || !add_ping_pong(figures) ||
      !add_idle_memory(figures)) {
    return EXIT_FAILURE;
  }
  if (json) {
    for (const Figure& figure : figures) (void)std::puts(to_json(figure).c_str());
    return EXIT_SUCCESS;
  }
  (void)std::printf("%s\nmedians of %d runs\n\n%s", describe_machine().c_str(), kRuns,
                    to_table(figures).c_str());
  return EXIT_SUCCESS;
}

}  // namespace
}  // namespace braid::bench

int main(int argc, char** argv) {
  const bool json = argc == 2 && std::strcmp(argv[1], "--json") == 0;
  if (argc > 1 && !json) {
    (void)std::fprintf(stderr, "usage: softverbs_bench [--json]\n");
    return 2;
  }
  return braid::bench::run(json);
}
