// What connecting costs: one channel of 16 lanes, 256 channels at once, memory per channel.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <optional>
#include <vector>

#include "channel_farm.h"
#include "figure.h"

namespace braid::bench {
namespace {

constexpr double kMilli = 1e3;
constexpr double kKib = 1024;
constexpr std::uint32_t kWarmUp = 3;

struct Settings {
  std::uint32_t runs = 20;
  std::uint32_t crowd_runs = 5;
  std::uint32_t channels = 256;
  std::uint32_t crowd_lanes = 4;
  bool json = false;
};

ChannelOptions options_of(std::uint32_t lanes) {
  ChannelOptions options;
  options.lanes = lanes;
  options.connect_timeout = std::chrono::seconds(60);
  return options;
}

template <typename T>
std::optional<T> value_of(Result<T> result, const char* what) {
  if (result) return std::move(*result);
  (void)std::fprintf(stderr, "%s: %s\n", what, result.error().to_string().c_str());
  return std::nullopt;
}

bool add_one(const Settings& settings, std::uint32_t lanes, std::vector<Figure>& figures) {
  const ChannelOptions options = options_of(lanes);
  ChannelFarm farm;
  if (!farm.start(options).ok()) return false;
  auto device = value_of(Device::open_soft({}), "device");
  if (!device) return false;
  std::vector<double> values;
  for (std::uint32_t run = 0; run < settings.runs + kWarmUp; ++run) {
    const auto seconds = value_of(measure_connect(*device, farm, options), "connect");
    if (!seconds) return false;
    if (run >= kWarmUp) values.push_back(*seconds * kMilli);
  }
  figures.push_back(make_figure("connect_" + std::to_string(lanes) + "_lanes", "ms", values));
  return true;
}

bool add_crowd(const Settings& settings, std::uint32_t lanes, std::vector<Figure>& figures) {
  const ChannelOptions options = options_of(lanes);
  std::vector<double> times, memory;
  for (std::uint32_t run = 0; run < settings.crowd_runs; ++run) {
    // New processes and a new device each time: memory that was used before would not grow again.
    ChannelFarm farm;
    if (!farm.start(options).ok()) return false;
    auto device = value_of(Device::open_soft({}), "device");
    if (!device) return false;
    const auto crowd = value_of(measure_crowd(*device, farm, options, settings.channels), "crowd");
    if (!crowd) return false;
    times.push_back(crowd->seconds * kMilli);
    if (run == 0) memory.push_back(crowd->bytes_per_channel / kKib);
  }
  const std::string lanes_text = "_of_" + std::to_string(lanes) + "_lanes";
  const std::string name = std::to_string(settings.channels) + "_channels" + lanes_text;
  figures.push_back(make_figure("connect_" + name, "ms", times));
  figures.push_back(make_figure("memory_per_channel" + lanes_text, "KiB", memory));
  return true;
}

int run(const Settings& settings) {
  raise_descriptor_limit();
  if (!settings.json) (void)std::printf("%s\n", describe_machine().c_str());
  std::vector<Figure> figures;
  // Memory first: what an earlier measurement freed would be used again, and not be seen.
  const bool measured = add_crowd(settings, settings.crowd_lanes, figures) &&
                        add_one(settings, 1, figures) && add_one(settings, 16, figures);
  const bool met = print_figures(figures, settings.json);
  if (!measured) return 2;
  return met ? 0 : 1;
}

}  // namespace
}  // namespace braid::bench

int main(int argc, char** argv) {
  braid::bench::Settings settings;
  CLI::App app(
      "Time and memory of connecting channels to another process over the soft device.\n"
      "Exit status: 0 measured, 2 something could not be measured.");
  app.add_option("--runs", settings.runs, "Channels connected one after another")
      ->check(CLI::Range(1, 100'000))
      ->capture_default_str();
  app.add_option("--crowd-runs", settings.crowd_runs, "Runs of many channels at once")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--channels", settings.channels, "Channels at once")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--crowd-lanes", settings.crowd_lanes, "Lanes of each of them")
      ->check(CLI::Range(1, 128))
      ->capture_default_str();
  app.add_flag("--json", settings.json, "One JSON object per figure and line");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return braid::bench::run(settings);
}
