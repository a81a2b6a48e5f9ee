// Which lane looks for another path: thresholds in pairs, and that random moves end in a good
// assignment of lanes to paths and stay there.
#include "channel/repather.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/random.h"

namespace braid::channel {
namespace {

using Verdict = Repather::Verdict;
using std::chrono::milliseconds;

constexpr Duration kPatience = milliseconds(80);
constexpr Duration kLook = milliseconds(10);

/// Lanes on paths of rate 1 that their lanes share.
struct Paths {
  std::vector<std::size_t> path_of;
  std::vector<double> rate_of_path;

  [[nodiscard]] std::vector<double> rates() const {
    std::vector<double> users(rate_of_path.size()), out;
    for (const std::size_t path : path_of) ++users[path];
    for (const std::size_t path : path_of) out.push_back(rate_of_path[path] / users[path]);
    return out;
  }
  [[nodiscard]] double sum() const {
    const std::vector<double> all = rates();
    return std::accumulate(all.begin(), all.end(), 0.0);
  }
};

struct Moves {
  Repather repather;
  Paths paths;
  Random random{1};
  TimePoint now{};
  std::size_t before = 0;
  int moves = 0, moves_back = 0;

  Moves(std::vector<std::size_t> path_of, std::vector<double> rate_of_path)
      : repather(static_cast<std::uint32_t>(path_of.size()), kPatience, 0.7),
        paths{std::move(path_of), std::move(rate_of_path)} {}

  Verdict look() {
    now += kLook;
    const std::vector<double> rates = paths.rates();
    const Repather::Decision decision = repather.observe(rates, now);
    if (decision.verdict == Verdict::kMove) {
      ++moves;
      before = paths.path_of[decision.lane];
      paths.path_of[decision.lane] = random.below(paths.rate_of_path.size());
      repather.on_moved(now);
    } else if (decision.verdict == Verdict::kMoveBack) {
      ++moves_back;
      paths.path_of[decision.lane] = before;
      repather.on_moved(now);
    }
    return decision.verdict;
  }
};

TEST(Repather, LaneBelowTheRatio_MovesAfterPatienceAndNotBefore) {
  Repather repather(4, kPatience, 0.7);
  const std::vector<double> slow{10, 10, 6.9, 10};
  TimePoint now{};
  for (; now < TimePoint(kPatience); now += kLook) {
    ASSERT_EQ(repather.observe(slow, now).verdict, Verdict::kStay);
  }
  const Repather::Decision decision = repather.observe(slow, now);
  EXPECT_EQ(decision.verdict, Verdict::kMove);
  EXPECT_EQ(decision.lane, 2U);
  // Nothing else happens until the lane has its port.
  EXPECT_EQ(repather.observe(slow, now + 10 * kPatience).verdict, Verdict::kStay);
}

TEST(Repather, LaneAtTheRatio_Stays) {
  Repather repather(4, kPatience, 0.7);
  for (TimePoint now{}; now < TimePoint(20 * kPatience); now += kLook) {
    ASSERT_EQ(repather.observe(std::vector<double>{10, 10, 7, 10}, now).verdict, Verdict::kStay);
  }
}

TEST(Repather, LaneThatRecoversInBetween_StartsItsPatienceAnew) {
  Repather repather(3, kPatience, 0.7);
  TimePoint now{};
  for (int i = 0; i < 50; ++i, now += kLook) {
    const double rate = i % 8 == 7 ? 10 : 1;
    ASSERT_EQ(repather.observe(std::vector<double>{10, rate, 10}, now).verdict, Verdict::kStay);
  }
}

TEST(Repather, LanesWithoutRate_AreNotJudged) {
  Repather repather(4, kPatience, 0.7);
  for (TimePoint now{}; now < TimePoint(20 * kPatience); now += kLook) {
    // Two known ones: one may well be the faster.
    ASSERT_EQ(repather.observe(std::vector<double>{10, 1, 0, 0}, now).verdict, Verdict::kStay);
  }
}

TEST(Repather, PathThatIsSlowForGood_IsLeftEverMoreSeldom) {
  // One path per lane: wherever the slow lane goes, another has less.
  Moves run({0, 1, 2, 3}, {1, 1, 1, 0.25});
  int looks = 0;
  for (; run.now < TimePoint(1000 * kPatience); ++looks) (void)run.look();
  EXPECT_EQ(run.moves, run.moves_back);
  // 1 + 2 + 4 .. 64, then one per 64 of its patience: without the growing rest it were some 300.
  EXPECT_GE(run.moves, 7);
  EXPECT_LE(run.moves, 25);
  EXPECT_DOUBLE_EQ(run.paths.sum(), 3.25);
}

TEST(Repather, CollidingLanes_SpreadOverFreePathsAndStayThere) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Random random(seed);
    constexpr std::size_t kLanes = 8, kPaths = 16;
    std::vector<std::size_t> path_of(kLanes);
    for (std::size_t& path : path_of) path = random.below(kPaths);
    Moves run(path_of, std::vector<double>(kPaths, 1.0));
    run.random = Random(seed + 1000);
    const double begin = run.paths.sum();
    while (run.now < TimePoint(200 * kPatience)) (void)run.look();
    // A trial may be under way at the end; it is taken back when it is worse.
    EXPECT_GE(run.paths.sum(), begin - 1);
    EXPECT_GE(run.paths.sum(), 7.0) << "seed " << seed;
  }
}

TEST(Repather, AbandonedMove_RestsAndWatchesOn) {
  Repather repather(3, kPatience, 0.7);
  const std::vector<double> slow{10, 1, 10};
  TimePoint now{};
  while (repather.observe(slow, now).verdict == Verdict::kStay) now += kLook;
  repather.on_abandoned(1, now);
  const TimePoint abandoned = now;
  while (repather.observe(slow, now).verdict == Verdict::kStay) now += kLook;
  EXPECT_GE(now - abandoned, kPatience);
  EXPECT_LE(now - abandoned, kPatience + 2 * kLook);
}

}  // namespace
}  // namespace braid::channel
