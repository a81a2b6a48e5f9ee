#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace braid::bench {

/// One line of a benchmark's result.
struct Figure {
  std::string name;
  double value = 0;  // median over the runs
  std::string unit;
  double baseline = 0;  // median of what it is compared with, same unit; 0 = nothing
  double ratio = 0;     // median of value / baseline, run by run; 0 = no baseline
  std::size_t runs = 0;
  double cv = 0;     // coefficient of variation of the values
  std::string goal;  // in words; empty = shown for information
  bool ok = true;    // whether the goal was met
};

[[nodiscard]] double median(std::vector<double> values);

/// Makes a figure of paired runs: values[i] and baselines[i] were measured next to each other.
/// Shape: baselines is as long as values, or empty.
[[nodiscard]] Figure make_figure(std::string name, std::string unit,
                                 const std::vector<double>& values,
                                 const std::vector<double>& baselines = {});

/// Sets the goal that the ratio (or, without a baseline, the value) is at least / at most `limit`.
[[nodiscard]] Figure with_minimum(Figure figure, double limit);
[[nodiscard]] Figure with_maximum(Figure figure, double limit);

/// Processor, load, compiler and whether asserts are on, on one line: the head of a table. A load
/// means that others compete for the processors, and that the figures are theirs as well.
[[nodiscard]] std::string describe_machine();

/// Prints a table, or with `json` one JSON object per line. True when every goal was met.
bool print_figures(const std::vector<Figure>& figures, bool json);

}  // namespace braid::bench
