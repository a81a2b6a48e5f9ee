// Figures of the soft device, each next to what bare UDP does on the same machine at that time.

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "engine_cost.h"
#include "figure.h"
#include "soft_pair.h"
#include "udp_baseline.h"

namespace braid::bench {
namespace {

constexpr std::uint64_t kEnginePackets = 50'000;
constexpr std::uint64_t kRoundTrips = 20'000;
constexpr std::uint32_t kIdleQps = 4096;
constexpr double kGiga = 1e9;
constexpr double kMicro = 1e6;

struct Settings {
  std::uint32_t runs = 5;
  int milliseconds = 500;
  bool json = false;
  bool only_engine = false;
};

struct GoodputCase {
  const char* name;
  std::uint32_t message_bytes;
  std::uint32_t qp_count;
  std::uint32_t in_flight;  // per QP
};

// As many bytes under way on a QP as its window of 128 packets of 4 KiB holds, and as many again,
// so that the next message is always there.
constexpr GoodputCase kGoodputCases[] = {
    {"write_goodput_64KiB_1qp", 64U << 10U, 1, 16},
    {"write_goodput_64KiB_4qp", 64U << 10U, 4, 16},
    {"write_goodput_1MiB_1qp", 1U << 20U, 1, 4},
    {"write_goodput_1MiB_4qp", 1U << 20U, 4, 4},
};

/// The value of a measurement; without one, says on stderr which failed.
template <typename T>
std::optional<T> value_of(const Result<T>& result, const char* name) {
  if (result) return *result;
  (void)std::fprintf(stderr, "softverbs_bench: %s: %s\n", name, result.error().to_string().c_str());
  return std::nullopt;
}

bool add_engine(const Settings& settings, std::vector<Figure>& figures) {
  std::vector<double> transmit;
  std::vector<double> receive;
  std::vector<double> crc;
  std::vector<double> copy;
  for (std::uint32_t run = 0; run < settings.runs; ++run) {
    const EngineCost cost = measure_engine_cost(kEnginePackets);
    transmit.push_back(cost.transmit_ns);
    receive.push_back(cost.receive_ns);
    crc.push_back(cost.crc_ns);
    copy.push_back(cost.copy_ns);
  }
  // The baseline of a share is the whole that it is a part of.
  figures.push_back(make_figure("engine_transmit_4KiB_packet", "ns", transmit));
  figures.push_back(make_figure("engine_crc_share_of_transmit", "ns", crc, transmit));
  figures.push_back(make_figure("engine_receive_4KiB_packet", "ns", receive));
  figures.push_back(make_figure("engine_crc_share_of_receive", "ns", crc, receive));
  figures.push_back(make_figure("engine_copy_share_of_receive", "ns", copy, receive));
  return true;
}

/// Two figures per case. The baselines and all cases take turns within each run.
bool add_goodput(const Settings& settings, std::vector<Figure>& figures) {
  constexpr std::size_t kCases = std::size(kGoodputCases);
  UdpBaselineOptions baseline;
  baseline.duration = std::chrono::milliseconds(settings.milliseconds);
  std::vector<double> batched;
  std::vector<double> segmented;
  std::vector<double> values[kCases];
  for (std::uint32_t run = 0; run < settings.runs; ++run) {
    const auto plain = value_of(measure_udp_batches(baseline), "sendmmsg baseline");
    const auto offloaded = value_of(measure_udp_segmented(baseline), "UDP_SEGMENT baseline");
    if (!plain || !offloaded) return false;
    batched.push_back(plain->bytes_per_second / kGiga);
    segmented.push_back(offloaded->bytes_per_second / kGiga);
    for (std::size_t i = 0; i < kCases; ++i) {
      const GoodputCase& one = kGoodputCases[i];
      const auto goodput = value_of(
          measure_write_goodput(one.qp_count, one.message_bytes, one.in_flight, baseline.duration),
          one.name);
      if (!goodput) return false;
      values[i].push_back(*goodput / kGiga);
    }
  }
  for (std::size_t i = 0; i < kCases; ++i) {
    const std::string name = kGoodputCases[i].name;
    figures.push_back(
        with_minimum(make_figure(name + "_vs_sendmmsg", "GB/s", values[i], batched), 1.5));
    figures.push_back(
        with_minimum(make_figure(name + "_vs_udp_segment", "GB/s", values[i], segmented), 0.4));
  }
  return true;
}

bool add_ping_pong(const Settings& settings, std::vector<Figure>& figures) {
  std::vector<double> values;
  std::vector<double> baselines;
  for (std::uint32_t run = 0; run < settings.runs; ++run) {
    const auto bare = value_of(measure_udp_ping_pong(kRoundTrips), "UDP ping-pong");
    const auto ours = value_of(measure_write_ping_pong(kRoundTrips), "write ping-pong");
    if (!bare || !ours) return false;
    baselines.push_back(*bare * kMicro);
    values.push_back(*ours * kMicro);
  }
  figures.push_back(
      with_maximum(make_figure("write_ping_pong_8B_vs_udp", "us", values, baselines), 1.5));
  return true;
}

bool add_idle_memory(const Settings& settings, std::vector<Figure>& figures) {
  std::vector<double> values;
  for (std::uint32_t run = 0; run < settings.runs; ++run) {
    const auto bytes = value_of(measure_memory_per_qp(kIdleQps), "memory per QP");
    if (!bytes) return false;
    values.push_back(*bytes / 1024);
  }
  figures.push_back(with_maximum(make_figure("memory_per_idle_qp_of_4096", "KiB", values), 64));
  return true;
}

int run(const Settings& settings) {
  if (!settings.json) (void)std::printf("%s\n", describe_machine().c_str());
  std::vector<Figure> figures;
  const bool measured = add_engine(settings, figures) &&
                        (settings.only_engine ||
                         (add_goodput(settings, figures) && add_ping_pong(settings, figures) &&
                          add_idle_memory(settings, figures)));
  const bool met = print_figures(figures, settings.json);
  if (!measured) return 2;
  return met ? 0 : 1;
}

}  // namespace
}  // namespace braid::bench

int main(int argc, char** argv) {
  braid::bench::Settings settings;
  CLI::App app(
      "Figures of the soft device, next to bare UDP in the same run.\n"
      "Exit status: 0 every goal met, 1 a goal missed, 2 something could not be measured.");
  app.add_option("--runs", settings.runs, "Runs of each measurement; the median is shown")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--milliseconds", settings.milliseconds, "Length of each goodput run")
      ->check(CLI::Range(10, 600'000))
      ->capture_default_str();
  app.add_flag("--json", settings.json, "One JSON object per figure and line");
  app.add_flag("--only-engine", settings.only_engine, "Only the engine without I/O");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return braid::bench::run(settings);
}
