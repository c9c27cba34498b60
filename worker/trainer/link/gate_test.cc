#include "worker/trainer/link/gate.h"

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/trainer/comm/in_process_communicator.h"

namespace evenstep::trainer {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Ranks as threads over in-process communicators. Sleeping is only noted down;
// what a rank votes depends on how often it has been asked, so that "late"
// needs no clock.
class Ranks {
 public:
  explicit Ranks(int world) : world_(world), hub_(absl::Seconds(10)) {}

  using VoteAt = std::function<GateVote(int rank, int ask)>;

  std::vector<absl::StatusOr<GateResult>> Pass(const VoteAt& vote_at) {
    std::vector<absl::StatusOr<GateResult>> results(world_);
    sleeps_.assign(world_, {});
    ++round_;
    std::vector<std::thread> threads;
    for (int rank = 0; rank < world_; ++rank) {
      threads.emplace_back([&, rank] { results[rank] = One(rank, vote_at); });
    }
    for (std::thread& thread : threads) thread.join();
    return results;
  }

  const std::vector<absl::Duration>& sleeps(int rank) const {
    return sleeps_[rank];
  }

 private:
  absl::StatusOr<GateResult> One(int rank, const VoteAt& vote_at) {
    auto factory = hub_.MakeFactory();
    auto world = factory->Create(std::to_string(round_), {0, world_}, rank);
    if (!world.ok()) return world.status();
    Gate gate(
        [&](absl::Span<int64_t> values) {
          return (*world)->AllReduceMin(values);
        },
        [&](absl::Duration wait) { sleeps_[rank].push_back(wait); });
    int ask = 0;
    return gate.Pass([&] { return vote_at(rank, ask++); });
  }

  const int world_;
  InProcessHub hub_;
  int round_ = 0;
  std::vector<std::vector<absl::Duration>> sleeps_;
};

GateVote Ready(int64_t step, uint64_t digest = 0x8000000000000001u) {
  return {.next_step = step,
          .newest_runnable = step + 3,
          .holds_plan = true,
          .digest = digest,
          .stop_requested = false,
          .failure = std::nullopt};
}

GateVote NotReady(int64_t step) {
  GateVote vote;
  vote.next_step = step;
  vote.newest_runnable = step - 1;
  return vote;
}

std::vector<GateDecision> Decisions(
    const std::vector<absl::StatusOr<GateResult>>& results) {
  std::vector<GateDecision> decisions;
  for (const auto& result : results) {
    EXPECT_TRUE(result.ok()) << result.status();
    if (result.ok()) decisions.push_back(result->decision);
  }
  return decisions;
}

TEST(GateTest, AllReadyRunAfterOneAsk) {
  Ranks ranks(4);
  const auto results = ranks.Pass([](int rank, int) {
    GateVote vote = Ready(7);
    vote.newest_runnable = 7 + rank;
    return vote;
  });
  ASSERT_THAT(Decisions(results), Each(GateDecision::kRun));
  for (int rank = 0; rank < 4; ++rank)
    EXPECT_THAT(ranks.sleeps(rank), IsEmpty());
}

TEST(GateTest, APlanHeldByOneRankOnlyRunsNowhereUntilAllHoldIt) {
  Ranks ranks(3);
  std::atomic<int> asks_of_holder{0};
  const auto results = ranks.Pass([&](int rank, int ask) {
    if (rank == 1) {
      ++asks_of_holder;
      return Ready(2);
    }
    return ask < 4 ? NotReady(2) : Ready(2);
  });
  EXPECT_THAT(Decisions(results), Each(GateDecision::kRun));
  EXPECT_EQ(asks_of_holder, 5);
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(ranks.sleeps(rank).size(), 4u);
  }
}

TEST(GateTest, WaitsDoubleFromFiveToAHundredMilliseconds) {
  Ranks ranks(2);
  ranks.Pass([](int rank, int ask) {
    return rank == 0 && ask < 7 ? NotReady(0) : Ready(0);
  });
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_THAT(ranks.sleeps(rank),
                ElementsAre(absl::Milliseconds(5), absl::Milliseconds(10),
                            absl::Milliseconds(20), absl::Milliseconds(40),
                            absl::Milliseconds(80), absl::Milliseconds(100),
                            absl::Milliseconds(100)));
  }
}

TEST(GateTest, AStopThatReachesOneRankFirstStopsAllAtTheSameGate) {
  Ranks ranks(4);
  const auto results = ranks.Pass([](int rank, int) {
    GateVote vote = Ready(5);
    vote.stop_requested = rank == 2;
    return vote;
  });
  EXPECT_THAT(Decisions(results), Each(GateDecision::kStop));
}

TEST(GateTest, AStopEndsTheWaitForAPlanThatNeverComes) {
  Ranks ranks(2);
  const auto results = ranks.Pass([](int rank, int ask) {
    GateVote vote = NotReady(5);
    vote.stop_requested = rank == 1 && ask >= 3;
    return vote;
  });
  EXPECT_THAT(Decisions(results), Each(GateDecision::kStop));
  EXPECT_EQ(ranks.sleeps(0).size(), 3u);
}

TEST(GateTest, DifferentPlansAreAMismatchOnAllRanks) {
  Ranks ranks(3);
  // Digests on both sides of the sign bit, where signed and unsigned differ.
  for (uint64_t other : {uint64_t{1}, ~uint64_t{0}, uint64_t{1} << 63}) {
    const auto results = ranks.Pass([other](int rank, int) {
      return Ready(1, rank == 2 ? other : 0x7fffffffffffffffu);
    });
    EXPECT_THAT(Decisions(results), Each(GateDecision::kPlanMismatch));
  }
}

TEST(GateTest, AMismatchIsFoundWhileAnotherRankStillWaitsForItsPlan) {
  Ranks ranks(3);
  const auto results = ranks.Pass([](int rank, int) {
    return rank == 0 ? NotReady(1) : Ready(1, 40 + rank);
  });
  EXPECT_THAT(Decisions(results), Each(GateDecision::kPlanMismatch));
}

TEST(GateTest, EveryDigestAgreesWithItself) {
  Ranks ranks(2);
  for (uint64_t digest : {uint64_t{0}, ~uint64_t{0}, uint64_t{1} << 63,
                          (uint64_t{1} << 63) - 1}) {
    const auto results =
        ranks.Pass([digest](int, int) { return Ready(1, digest); });
    EXPECT_THAT(Decisions(results), Each(GateDecision::kRun)) << digest;
  }
}

TEST(GateTest, OneRanksFailureIsEveryRanksFailureWithItsReason) {
  Ranks ranks(3);
  const auto results = ranks.Pass([](int rank, int) {
    GateVote vote = Ready(1);
    vote.stop_requested = true;
    if (rank == 1) vote.failure = FailureReason::kDataError;
    return vote;
  });
  EXPECT_THAT(Decisions(results), Each(GateDecision::kFailed));
  for (const auto& result : results) {
    EXPECT_EQ(result->failure, FailureReason::kDataError);
  }
}

TEST(GateTest, RanksThatAskAboutDifferentStepsAllGetAnError) {
  Ranks ranks(2);
  const auto results =
      ranks.Pass([](int rank, int) { return Ready(rank == 0 ? 3 : 4); });
  for (const auto& result : results) {
    EXPECT_TRUE(absl::IsInternal(result.status())) << result.status();
  }
}

TEST(GateTest, AnErrorOfTheReductionIsPassedOn) {
  Gate gate([](absl::Span<int64_t>) { return absl::AbortedError("given up"); },
            [](absl::Duration) {});
  EXPECT_TRUE(absl::IsAborted(gate.Pass([] { return Ready(0); }).status()));
}

// Any mix of plans, stops and delays ends in one decision for all.
TEST(GateTest, AllRanksDecideTheSameWhateverEachOneKnows) {
  Ranks ranks(3);
  for (int mix = 0; mix < 216; ++mix) {
    const int kinds[] = {mix % 6, mix / 6 % 6, mix / 36};
    const auto results = ranks.Pass([&kinds](int rank, int ask) {
      GateVote vote = Ready(9, 1);
      if (kinds[rank] == 1 && ask < 2) vote = NotReady(9);
      if (kinds[rank] == 2 && ask < 3) vote = NotReady(9);
      if (kinds[rank] == 3) vote.stop_requested = ask >= 1;
      if (kinds[rank] == 4) vote.digest = 2;
      if (kinds[rank] == 5) vote.failure = FailureReason::kInternal;
      return vote;
    });
    const auto decisions = Decisions(results);
    ASSERT_EQ(decisions.size(), 3u);
    ASSERT_THAT(decisions, Each(decisions[0])) << mix;
  }
}

}  // namespace
}  // namespace evenstep::trainer
