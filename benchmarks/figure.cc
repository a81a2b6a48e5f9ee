#include "figure.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <thread>

namespace braid::bench {
namespace {

double variation(const std::vector<double>& values) {
  if (values.size() < 2) return 0;
  const auto count = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return mean == 0 ? 0 : std::sqrt(squares / (count - 1)) / mean;
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

std::string processor_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown processor";
}

double compared(const Figure& figure) { return figure.baseline != 0 ? figure.ratio : figure.value; }

}  // namespace

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 != 0 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

Figure make_figure(std::string name, std::string unit, const std::vector<double>& values,
                   const std::vector<double>& baselines) {
  Figure figure;
  figure.name = std::move(name);
  figure.unit = std::move(unit);
  figure.value = median(values);
  figure.runs = values.size();
  figure.cv = variation(values);
  if (!baselines.empty()) {
    figure.baseline = median(baselines);
    std::vector<double> ratios;
    for (std::size_t i = 0; i < values.size(); ++i) ratios.push_back(values[i] / baselines[i]);
    figure.ratio = median(ratios);
  }
  return figure;
}

Figure with_minimum(Figure figure, double limit) {
  figure.goal = ">= " + number(limit) + (figure.baseline != 0 ? " x baseline" : " " + figure.unit);
  figure.ok = compared(figure) >= limit;
  return figure;
}

Figure with_maximum(Figure figure, double limit) {
  figure.goal = "<= " + number(limit) + (figure.baseline != 0 ? " x baseline" : " " + figure.unit);
  figure.ok = compared(figure) <= limit;
  return figure;
}

std::string describe_machine() {
#ifdef NDEBUG
  constexpr const char* kAsserts = "asserts off";
#else
  constexpr const char* kAsserts = "asserts ON, so the figures mean little";
#endif
  double load = 0;
  const bool known = ::getloadavg(&load, 1) == 1;
  return processor_name() + " x " + std::to_string(std::thread::hardware_concurrency()) +
         ", load " + (known ? number(load) : "unknown") + " before, compiler " + __VERSION__ +
         ", " + kAsserts;
}

bool print_figures(const std::vector<Figure>& figures, bool json) {
  bool all = true;
  if (!json) {
    std::printf("%-44s %10s %-10s %10s %7s %4s %6s  %-20s %s\n", "name", "value", "unit",
                "baseline", "ratio", "runs", "cv", "goal", "ok");
  }
  for (const Figure& figure : figures) {
    all = all && figure.ok;
    if (json) {
      nlohmann::ordered_json line;
      line["name"] = figure.name;
      line["value"] = figure.value;
      line["unit"] = figure.unit;
      line["baseline"] = figure.baseline != 0 ? nlohmann::ordered_json(figure.baseline) : nullptr;
      line["ratio"] = figure.baseline != 0 ? nlohmann::ordered_json(figure.ratio) : nullptr;
      line["runs"] = figure.runs;
      line["cv"] = figure.cv;
      line["goal"] = figure.goal.empty() ? nullptr : nlohmann::ordered_json(figure.goal);
      line["ok"] = figure.ok;
      std::printf("%s\n", line.dump().c_str());
      continue;
    }
    std::printf("%-44s %10s %-10s %10s %7s %4zu %5.1f%%  %-20s %s\n", figure.name.c_str(),
                number(figure.value).c_str(), figure.unit.c_str(),
                figure.baseline != 0 ? number(figure.baseline).c_str() : "-",
                figure.baseline != 0 ? number(figure.ratio).c_str() : "-", figure.runs,
                100 * figure.cv, figure.goal.empty() ? "-" : figure.goal.c_str(),
                figure.goal.empty() ? "-" : (figure.ok ? "yes" : "NO"));
  }
  std::fflush(stdout);
  return all;
}

}  // namespace braid::bench
