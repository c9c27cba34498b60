#include "worker/trainer/profile/point_times.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "worker/trainer/comm/in_process_communicator.h"
#include "worker/trainer/comm/testing/run_ranks.h"

namespace evenstep::trainer {
namespace {

using ::testing::ElementsAre;

PointTime MustCombine(const std::vector<RankTimes>& ranks) {
  const auto time = CombineTimes(ranks);
  EXPECT_TRUE(time.ok()) << time.status();
  return time.value_or(PointTime());
}

TEST(PointTimesTest, SharedPointsAreTimedMoreOftenAndLongOnesLess) {
  EXPECT_EQ(RepeatsOf(1'000'000, 1, 5), 5);
  EXPECT_EQ(RepeatsOf(1'000'000, 2, 5), 40);
  EXPECT_EQ(RepeatsOf(400'000'000, 4, 5), 3);
  EXPECT_EQ(RepeatsOf(60'000'000'000, 4, 5), 1);
}

TEST(PointTimesTest, EveryPointIsTimedAsOftenAsItIsToBeAndEvenly) {
  for (int64_t rounds = 1; rounds <= 40; ++rounds) {
    for (int64_t repeats = 1; repeats <= rounds; ++repeats) {
      int64_t done = 0;
      for (int64_t round = 0; round < rounds; ++round) {
        if (IsTimedIn(round, rounds, repeats)) ++done;
        // Never a whole repeat behind its share of the rounds, nor before it.
        const int64_t share = (round + 1) * repeats;
        EXPECT_LE(done * rounds, share);
        EXPECT_GT((done + 1) * rounds, share);
      }
      EXPECT_EQ(done, repeats) << "in " << rounds << " rounds";
    }
  }
}

TEST(PointTimesTest, TheSlowestRankComputesTheLongest) {
  // Each rank is disturbed in most repeats, the first one less.
  EXPECT_EQ(
      MustCombine({{{90, 11, 95, 10, 99}, {}}, {{15, 70, 16, 80, 90}, {}}})
          .compute_ns,
      16);
  // As many times as often as before: the same.
  EXPECT_EQ(MustCombine({{{5, 6, 7, 8}, {}}}).compute_ns,
            MustCombine({{{5, 6, 7, 8, 5, 6, 7, 8}, {}}}).compute_ns);
  EXPECT_EQ(MustCombine({{{10}, {}}}).collective_ns, 0);
}

// Every repeat has one collective that waited for a rank without a core.
TEST(PointTimesTest, OneLateCallInEachRepeatCostsNothing) {
  std::vector<RankTimes> ranks(2);
  const std::vector<std::vector<double>> repeats = {
      {900, 20, 30}, {10, 900, 30}, {10, 20, 900}};
  for (const auto& call_ns : repeats) {
    ASSERT_TRUE(AddRepeat(1, call_ns, &ranks[0]).ok());
  }
  ranks[1] = ranks[0];
  EXPECT_EQ(MustCombine(ranks).collective_ns, 60);
  // The other rank came last to the second: it did not wait.
  ranks[1].call_ns = {15, 12, 35};
  EXPECT_EQ(MustCombine(ranks).collective_ns, 10 + 12 + 30);
}

TEST(PointTimesTest, OtherNumbersOfCollectivesAreRefused) {
  RankTimes times;
  ASSERT_TRUE(AddRepeat(1, {1, 2}, &times).ok());
  EXPECT_EQ(AddRepeat(1, {1, 2, 3}, &times).code(),
            absl::StatusCode::kInternal);
  EXPECT_EQ(CombineTimes({{{1}, {1, 2}}, {{1}, {1}}}).status().code(),
            absl::StatusCode::kInternal);
}

TEST(CallTimesTest, EveryCallOfEveryGroupIsTimedByItself) {
  InProcessHub hub;
  const auto statuses = testing::RunRanks(2, [&](int rank) -> absl::Status {
    std::vector<double> call_ns;
    const auto factory = MakeCallTimesFactory(hub.MakeFactory(), &call_ns);
    auto group = factory->Create("group", {0, 2}, rank);
    if (!group.ok()) return group.status();
    const int64_t before_ns = (*group)->collective_ns();
    call_ns.clear();
    for (int call = 0; call < 3; ++call) {
      absl::Status done = (*group)->Barrier();
      if (!done.ok()) return done;
    }
    EXPECT_EQ(call_ns.size(), 3u);
    double sum = 0;
    for (const double ns : call_ns) sum += ns;
    EXPECT_EQ(sum, static_cast<double>((*group)->collective_ns() - before_ns));
    return absl::OkStatus();
  });
  EXPECT_THAT(statuses, ElementsAre(absl::OkStatus(), absl::OkStatus()));
}

}  // namespace
}  // namespace evenstep::trainer
