// Figures of the simulated fabric: packets per second of real time on one core, and memory per idle
// host.

#include <malloc.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <vector>

#include "figure.h"
#include "tools/sim_world.h"

namespace braid::bench {
namespace {

struct Settings {
  std::uint32_t runs = 5;
  std::uint32_t mebibytes = 512;
  std::uint32_t idle_hosts = 1024;
  bool json = false;
};

struct Speed {
  double packets_per_s = 0;
  double events_per_s = 0;
};

/// One put over four lanes and paths: data and acknowledgements that reach an engine, per second.
Speed measure_speed(const Settings& settings, const sim::FabricOptions& options) {
  const std::uint64_t bytes = std::uint64_t{settings.mebibytes} << 20U;
  sim::LinkOptions nic;
  nic.rate_bits_per_s = 400'000'000'000;
  tools::SimWorld world(sim::make_direct(std::vector<sim::LinkOptions>(4), nic), options, bytes);
  ChannelOptions channel;
  channel.lanes = 4;
  channel.source_ports = {50'400, 50'401, 50'402, 50'403};
  tools::SimFlow* flow = world.failure().empty() ? world.connect(0, 1, channel) : nullptr;
  if (flow == nullptr) return {};
  flow->send(bytes, world.fabric().now());
  const auto begin = std::chrono::steady_clock::now();
  if (!world.run()) return {};
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  const sim::FabricCounters counters = world.fabric().counters();
  return {static_cast<double>(counters.delivered_packets) / took.count(),
          static_cast<double>(counters.events) / took.count()};
}

/// Heap bytes per open device in a Clos, its share of switches and links included.
double measure_idle_bytes(const Settings& settings) {
  sim::ClosOptions clos;
  clos.hosts = settings.idle_hosts;
  clos.hosts_per_leaf = 32;
  clos.spines = 16;
  const std::size_t before = ::mallinfo2().uordblks + ::mallinfo2().hblkhd;
  const sim::Topology topology = sim::make_clos(clos);
  Result<sim::Fabric> fabric = sim::Fabric::create(topology, {});
  if (!fabric) return 0;
  std::vector<std::unique_ptr<Device>> devices;
  for (const sim::NodeId port : topology.ports()) {
    Result<Device> device = sim::open_device(*fabric, port);
    if (!device) return 0;
    devices.push_back(std::make_unique<Device>(std::move(*device)));
  }
  const std::size_t after = ::mallinfo2().uordblks + ::mallinfo2().hblkhd;
  return static_cast<double>(after - before) / settings.idle_hosts;
}

bool add_speed(const Settings& settings, std::vector<Figure>& figures) {
  struct Mode {
    const char* name;
    bool icrc, payload;
    double goal;
  };
  for (const Mode mode : {Mode{"sim_packets_without_contents", false, false, 1.0},
                          Mode{"sim_packets_with_contents", false, true, 0},
                          Mode{"sim_packets_with_contents_and_icrc", true, true, 0}}) {
    sim::FabricOptions options;
    options.verify_icrc = mode.icrc;
    options.carry_payload = mode.payload;
    std::vector<double> packets, events;
    for (std::uint32_t run = 0; run < settings.runs; ++run) {
      const Speed speed = measure_speed(settings, options);
      if (speed.packets_per_s <= 0) return false;
      packets.push_back(speed.packets_per_s / 1e6);
      events.push_back(speed.events_per_s / 1e6);
    }
    Figure figure = make_figure(mode.name, "M/s", packets);
    figures.push_back(mode.goal > 0 ? with_minimum(figure, mode.goal) : figure);
    if (mode.goal > 0) figures.push_back(make_figure("sim_events_without_contents", "M/s", events));
  }
  return true;
}

int run(const Settings& settings) {
  // Each simulated device holds a descriptor.
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    (void)::setrlimit(RLIMIT_NOFILE, &limit);
  }
  if (!settings.json) (void)std::printf("%s\n", describe_machine().c_str());
  std::vector<Figure> figures;
  bool measured = add_speed(settings, figures);
  std::vector<double> idle;
  for (std::uint32_t run = 0; run < settings.runs; ++run) {
    idle.push_back(measure_idle_bytes(settings) / 1024);
    measured = measured && idle.back() > 0;
  }
  figures.push_back(with_maximum(make_figure("sim_memory_per_idle_host", "KiB", idle), 16));
  const bool met = print_figures(figures, settings.json);
  if (!measured) return 2;
  return met ? 0 : 1;
}

}  // namespace
}  // namespace braid::bench

int main(int argc, char** argv) {
  braid::bench::Settings settings;
  CLI::App app(
      "Figures of the simulated fabric, on one core.\n"
      "Exit status: 0 every goal met, 1 a goal missed, 2 something could not be measured.");
  app.add_option("--runs", settings.runs, "Runs of each measurement; the median is shown")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--mebibytes", settings.mebibytes, "Payload of each run")
      ->check(CLI::Range(1, 65'536))
      ->capture_default_str();
  app.add_option("--idle-hosts", settings.idle_hosts, "Hosts whose memory is measured")
      ->check(CLI::Range(64, 16'384))
      ->capture_default_str();
  app.add_flag("--json", settings.json, "One JSON object per figure and line");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return braid::bench::run(settings);
}
