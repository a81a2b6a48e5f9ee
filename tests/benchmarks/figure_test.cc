#include "figure.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace braid::bench {
namespace {

TEST(Figure, Median_OfOddAndEvenCounts) {
  EXPECT_DOUBLE_EQ(median({7}), 7);
  EXPECT_DOUBLE_EQ(median({9, 1, 5}), 5);
  EXPECT_DOUBLE_EQ(median({9, 1, 5, 6}), 5.5);
}

TEST(Figure, Ratio_IsTheMedianOfTheRunsRatios_NotTheRatioOfTheMedians) {
  // The machine was slow in the second run, for both.
  const Figure figure = make_figure("f", "MB/s", {10, 1, 20}, {5, 0.25, 40});
  EXPECT_DOUBLE_EQ(figure.value, 10);
  EXPECT_DOUBLE_EQ(figure.baseline, 5);
  EXPECT_DOUBLE_EQ(figure.ratio, 2);  // of 2, 4 and 0.5
  EXPECT_EQ(figure.runs, 3U);
}

TEST(Figure, Variation_IsTheSamplesDeviationOverTheMean) {
  EXPECT_DOUBLE_EQ(make_figure("f", "s", {4}).cv, 0);
  EXPECT_DOUBLE_EQ(make_figure("f", "s", {3, 3, 3}).cv, 0);
  EXPECT_DOUBLE_EQ(make_figure("f", "s", {1, 3}).cv, std::sqrt(2.0) / 2);
}

TEST(Figure, Goals_AtTheLimitAreMet_OnePastAreNot) {
  const Figure half = make_figure("f", "s", {1}, {2});
  EXPECT_TRUE(half.ok);
  EXPECT_TRUE(half.goal.empty());
  EXPECT_TRUE(with_minimum(half, 0.5).ok);
  EXPECT_FALSE(with_minimum(half, 0.51).ok);
  EXPECT_TRUE(with_maximum(half, 0.5).ok);
  EXPECT_FALSE(with_maximum(half, 0.49).ok);
  EXPECT_EQ(with_minimum(half, 0.5).goal, ">= 0.5 x baseline");
}

TEST(Figure, GoalWithoutBaseline_IsOfTheValue) {
  const Figure seven = make_figure("f", "KiB", {7});
  EXPECT_TRUE(with_maximum(seven, 7).ok);
  EXPECT_FALSE(with_maximum(seven, 6.9).ok);
  EXPECT_EQ(with_maximum(seven, 7).goal, "<= 7 KiB");
}

TEST(Figure, Printing_SaysWhetherEveryGoalWasMet) {
  const Figure figure = make_figure("some_figure", "KiB", {7});
  ::testing::internal::CaptureStdout();
  EXPECT_TRUE(print_figures({figure, with_maximum(figure, 7)}, false));
  EXPECT_FALSE(print_figures({with_maximum(figure, 6), figure}, true));
  const std::string out = ::testing::internal::GetCapturedStdout();
  EXPECT_NE(out.find("some_figure"), std::string::npos);
  EXPECT_NE(out.find(R"("goal":"<= 6 KiB","ok":false})"), std::string::npos) << out;
  EXPECT_NE(out.find(R"("goal":null,"ok":true})"), std::string::npos) << out;
}

}  // namespace
}  // namespace braid::bench
