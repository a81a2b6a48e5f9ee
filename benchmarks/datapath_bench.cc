// What a segment costs beyond the verbs that carry it: channels over a device that completes at
// once, next to a bare loop over the same device.

#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "datapath_phases.h"
#include "figure.h"

#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#else
#define CALLGRIND_TOGGLE_COLLECT static_cast<void>(0)
#define CALLGRIND_DUMP_STATS_AT(name) static_cast<void>(name)
#endif

namespace braid::bench {
namespace {

constexpr std::uint32_t kLaneCounts[] = {1, 4, 16, 64};
constexpr int kWarmUp = 64;
constexpr int kCountedPhases = 8;

struct Settings {
  std::uint32_t runs = 9;
  std::uint32_t phases = 400;
  bool json = false;
  bool instructions = true;
  bool count_only = false;  // the part that runs under valgrind
};

/// Of one run, per segment.
struct Cost {
  double send = 0, receive = 0;
  double bare_send = 0, bare_receive = 0;
};

struct Pair {
  ChannelPhases channel;
  BarePhases bare;
};

bool complain(const Status& status, const char* what) {
  if (status.ok()) return true;
  (void)std::fprintf(stderr, "datapath_bench: %s: %s\n", what, status.to_string().c_str());
  return false;
}

bool turn(ChannelPhases& channel) {
  return complain(channel.send(), "send") && complain(channel.receive(), "receive") &&
         complain(channel.settle(), "settle");
}

bool open(Pair& pair, std::uint32_t lanes) {
  std::string why;
  if (!pair.channel.open(lanes, why).ok()) {
    (void)std::fprintf(stderr, "datapath_bench: %s\n", why.c_str());
    return false;
  }
  for (int i = 0; i < kWarmUp; ++i) {
    if (!turn(pair.channel)) return false;
  }
  // A chain of the bare loop is as long as the channel's are, so that the calls cost the same.
  std::uint32_t chain = 1;
  while (chain < BarePhases::kMaxChain && chain * 1.5 < pair.channel.chain_length()) chain *= 2;
  return complain(pair.bare.open(lanes, chain), "bare queue pairs");
}

double seconds_of(const auto& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Channel and bare loop take turns phase by phase, so that both see the same machine.
bool measure(Pair& pair, std::uint32_t phases, Cost& cost) {
  Status sent, received, bare_sent, bare_received;
  for (std::uint32_t i = 0; i < phases; ++i) {
    cost.send += seconds_of([&] { sent = pair.channel.send(); });
    cost.receive += seconds_of([&] { received = pair.channel.receive(); });
    cost.bare_send += seconds_of([&] { bare_sent = pair.bare.send(); });
    cost.bare_receive += seconds_of([&] { bare_received = pair.bare.receive(); });
    if (!complain(sent, "send") || !complain(received, "receive") ||
        !complain(bare_sent, "bare send") || !complain(bare_received, "bare receive") ||
        !complain(pair.channel.settle(), "settle")) {
      return false;
    }
  }
  const double to_nanoseconds = 1e9 / (double{kPhaseSegments} * phases);
  for (double* each : {&cost.send, &cost.receive, &cost.bare_send, &cost.bare_receive}) {
    *each *= to_nanoseconds;
  }
  if (pair.channel.faults() == 0) return true;
  (void)std::fprintf(stderr, "datapath_bench: a segment met no receive\n");
  return false;
}

struct Series {
  std::vector<double> send, receive, bare_send, bare_receive, added_send, added_receive;

  void add(const Cost& cost) {
    send.push_back(cost.send);
    receive.push_back(cost.receive);
    bare_send.push_back(cost.bare_send);
    bare_receive.push_back(cost.bare_receive);
    added_send.push_back(cost.send - cost.bare_send);
    added_receive.push_back(cost.receive - cost.bare_receive);
  }
};

std::string suffix(std::uint32_t lanes) {
  return "_" + std::to_string(lanes) + (lanes == 1 ? "_lane" : "_lanes");
}

void add_figures(std::map<std::uint32_t, Series>& all, std::vector<Figure>& figures) {
  for (auto& [lanes, series] : all) {
    const std::string end = suffix(lanes);
    figures.push_back(make_figure("put_to_completion" + end, "ns", series.send, series.bare_send));
    Figure added = make_figure("put_to_completion_added" + end, "ns", series.added_send);
    if (lanes == 1) added = with_maximum(added, 20);
    if (lanes == 16) added = with_maximum(added, 35);
    figures.push_back(added);
    figures.push_back(
        make_figure("receive_to_notification" + end, "ns", series.receive, series.bare_receive));
    figures.push_back(with_maximum(
        make_figure("receive_to_notification_added" + end, "ns", series.added_receive), 15));
  }
  const auto growth = [&](const char* name, const std::vector<double>& many,
                          const std::vector<double>& few) {
    figures.push_back(with_maximum(make_figure(name, "ns", many, few), 1.2));
  };
  growth("put_to_completion_64_over_16_lanes", all[64].send, all[16].send);
  growth("receive_to_notification_64_over_16_lanes", all[64].receive, all[16].receive);
}

/// Runs in a process under valgrind: a dump after each kind of phase, named after it.
int count_instructions() {
  for (const std::uint32_t lanes : kLaneCounts) {
    Pair pair;
    if (!open(pair, lanes)) return 2;
    const auto count = [&](const std::string& name, const auto& phase) {
      const std::string dump = name + suffix(lanes);
      Status status;
      CALLGRIND_TOGGLE_COLLECT;
      status = phase();
      CALLGRIND_TOGGLE_COLLECT;
      CALLGRIND_DUMP_STATS_AT(dump.c_str());
      return complain(status, name.c_str());
    };
    for (int i = 0; i < kCountedPhases; ++i) {
      if (!count("put_to_completion", [&] { return pair.channel.send(); }) ||
          !count("receive_to_notification", [&] { return pair.channel.receive(); }) ||
          !count("bare_put_to_completion", [&] { return pair.bare.send(); }) ||
          !count("bare_receive_to_notification", [&] { return pair.bare.receive(); }) ||
          !complain(pair.channel.settle(), "settle")) {
        return 2;
      }
    }
  }
  return 0;
}

/// Instructions per segment by the name of the dump.
using Counts = std::map<std::string, std::vector<double>>;

Counts read_dumps(const std::filesystem::path& folder) {
  Counts counts;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream file(entry.path());
    std::string name;
    for (std::string line; std::getline(file, line);) {
      constexpr const char* kRequest = "desc: Trigger: Client Request: ";
      if (line.starts_with(kRequest)) name = line.substr(std::char_traits<char>::length(kRequest));
      if (!line.starts_with("totals: ") || name.empty()) continue;
      counts[name].push_back(std::strtod(line.c_str() + 8, nullptr) / kPhaseSegments);
    }
  }
  return counts;
}

bool add_instructions(const std::string& self, std::vector<Figure>& figures) {
  char folder[] = "/tmp/braid-callgrind-XXXXXX";
  if (::mkdtemp(folder) == nullptr) return false;
  const std::string command =
      "valgrind --tool=callgrind --collect-atstart=no --quiet --callgrind-out-file=" +
      std::string(folder) + "/out '" + self + "' --count-only >&2";
  const int result = std::system(command.c_str());
  Counts counts = result == 0 ? read_dumps(folder) : Counts();
  std::filesystem::remove_all(folder);
  if (counts.empty()) {
    (void)std::fprintf(stderr,
                       "datapath_bench: no instruction counts: valgrind, or its headers when this "
                       "was built, are missing\n");
    return false;
  }
  for (const std::uint32_t lanes : kLaneCounts) {
    for (const std::string name : {"put_to_completion", "receive_to_notification"}) {
      const std::string full = name + suffix(lanes);
      figures.push_back(
          make_figure("instructions_" + full, "instr.", counts[full], counts["bare_" + full]));
    }
  }
  return true;
}

int run(const Settings& settings, const std::string& self) {
  if (!settings.json) (void)std::printf("%s\n", describe_machine().c_str());
  std::map<std::uint32_t, Series> all;
  std::map<std::uint32_t, Pair> pairs;
  for (const std::uint32_t lanes : kLaneCounts) {
    if (!open(pairs[lanes], lanes)) return 2;
  }
  for (std::uint32_t i = 0; i < settings.runs; ++i) {
    for (const std::uint32_t lanes : kLaneCounts) {
      Cost cost;
      if (!measure(pairs[lanes], settings.phases, cost)) return 2;
      all[lanes].add(cost);
    }
  }
  std::vector<Figure> figures;
  add_figures(all, figures);
  const bool counted = !settings.instructions || add_instructions(self, figures);
  const bool met = print_figures(figures, settings.json);
  if (!counted) return 2;
  return met ? 0 : 1;
}

}  // namespace
}  // namespace braid::bench

int main(int argc, char** argv) {
  braid::bench::Settings settings;
  CLI::App app(
      "Cost of a channel per segment over a device that completes at once, next to a bare loop of\n"
      "ibv_post_send and ibv_poll_cq with the same chains: time, and instructions (valgrind).\n"
      "Exit status: 0 every goal met, 1 a goal missed, 2 something could not be measured.");
  app.add_option("--runs", settings.runs, "Runs of each measurement; the median is shown")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--phases", settings.phases, "Phases of 512 segments per run")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  app.add_flag("--json", settings.json, "One JSON object per figure and line");
  app.add_flag("!--no-instructions", settings.instructions, "Times only");
  app.add_flag("--count-only", settings.count_only, "What runs under valgrind")->group("");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (settings.count_only) return braid::bench::count_instructions();
  return braid::bench::run(settings, argv[0]);
}
