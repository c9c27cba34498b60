#include "worker/trainer/comm/testing/communicator_suite.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <numeric>
#include <thread>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "worker/trainer/comm/group_tree.h"
#include "worker/trainer/comm/testing/run_ranks.h"

namespace evenstep::trainer::testing {

using ::testing::Each;
using ::testing::HasSubstr;

void CommunicatorTest::SetUpTestSuite() { std::signal(SIGPIPE, SIG_IGN); }

std::vector<absl::Status> CommunicatorTest::RunGroup(int world,
                                                     const Body& body,
                                                     absl::Duration timeout) {
  const std::unique_ptr<SuiteFabric> fabric = GetParam().make_fabric(timeout);
  return RunRanks(world, [&](int rank) -> absl::Status {
    EVENSTEP_ASSIGN_OR_RETURN(auto factory, fabric->MakeFactory(rank));
    EVENSTEP_ASSIGN_OR_RETURN(auto communicator,
                              factory->Create("group", {0, world}, rank));
    return body(*communicator);
  });
}

namespace {

absl::Status Expect(bool holds, absl::string_view what) {
  return holds ? absl::OkStatus() : absl::InternalError(what);
}

TEST_P(CommunicatorTest, SumsOfFloatsDoublesAndIntegersAreExact) {
  const auto statuses = RunGroup(4, [](Communicator& c) -> absl::Status {
    std::vector<float> floats(5, static_cast<float>(c.rank() + 1));
    std::vector<double> doubles = {0.5 * c.rank(), -1.0};
    std::vector<int64_t> integers = {int64_t{1} << 60, c.rank()};
    integers[0] = c.rank() == 2 ? integers[0] : 1;
    EVENSTEP_RETURN_IF_ERROR(c.AllReduceSum(absl::MakeSpan(floats)));
    EVENSTEP_RETURN_IF_ERROR(c.AllReduceSum(absl::MakeSpan(doubles)));
    EVENSTEP_RETURN_IF_ERROR(c.AllReduceSum(absl::MakeSpan(integers)));
    return Expect(
        floats == std::vector<float>(5, 10.0F) &&
            doubles == std::vector<double>({3.0, -4.0}) &&
            integers == std::vector<int64_t>({(int64_t{1} << 60) + 3, 6}),
        "wrong sums");
  });
  EXPECT_THAT(statuses, Each(absl::OkStatus()));
}

// 40,000 floats are above the size that goes in one round, and no multiple of
// three; every rank must end with the same bits.
TEST_P(CommunicatorTest, LargeSumsAreTheSameBitsOnEveryRank) {
  constexpr int kWorld = 3;
  std::vector<std::vector<float>> sums(kWorld);
  const auto statuses = RunGroup(kWorld, [&](Communicator& c) {
    std::vector<float>& values = sums[c.rank()];
    for (int i = 0; i < 40000; ++i) {
      values.push_back(0.1F * static_cast<float>(i % 97 + c.rank() * i));
    }
    return c.AllReduceSum(absl::MakeSpan(values));
  });
  ASSERT_THAT(statuses, Each(absl::OkStatus()));
  EXPECT_FLOAT_EQ(sums[0][39999],
                  0.1F * (3 * (39999 % 97) + 39999.0F + 2 * 39999.0F));
  EXPECT_EQ(sums[0], sums[1]);
  EXPECT_EQ(sums[0], sums[2]);
}

TEST_P(CommunicatorTest, SmallestIntegerWins) {
  const auto statuses = RunGroup(3, [](Communicator& c) -> absl::Status {
    std::vector<int64_t> values = {c.rank() - 5, 7 - c.rank()};
    EVENSTEP_RETURN_IF_ERROR(c.AllReduceMin(absl::MakeSpan(values)));
    return Expect(values == std::vector<int64_t>({-5, 5}), "wrong minimum");
  });
  EXPECT_THAT(statuses, Each(absl::OkStatus()));
}

// Rank r sends p + 1 ints of value 10 r + p to rank p, and none to itself.
TEST_P(CommunicatorTest, AllToAllWithUnequalAndZeroCounts) {
  const auto statuses = RunGroup(3, [](Communicator& c) -> absl::Status {
    std::vector<int32_t> send;
    std::vector<int64_t> send_bytes;
    std::vector<int32_t> expected;
    std::vector<int64_t> recv_bytes;
    for (int p = 0; p < c.size(); ++p) {
      const int sent = p == c.rank() ? 0 : p + 1;
      const int received = p == c.rank() ? 0 : c.rank() + 1;
      send.insert(send.end(), sent, 10 * c.rank() + p);
      expected.insert(expected.end(), received, 10 * p + c.rank());
      send_bytes.push_back(sent * 4);
      recv_bytes.push_back(received * 4);
    }
    std::vector<int32_t> recv(expected.size());
    EVENSTEP_RETURN_IF_ERROR(
        c.AllToAllv(send.data(), send_bytes, recv.data(), recv_bytes));
    return Expect(recv == expected, "wrong exchange");
  });
  EXPECT_THAT(statuses, Each(absl::OkStatus()));
}

TEST_P(CommunicatorTest, GatherAndBroadcastReachEveryRank) {
  const auto statuses = RunGroup(3, [](Communicator& c) -> absl::Status {
    const std::vector<char> mine(c.rank() + 1, static_cast<char>(c.rank()));
    std::vector<char> all(6);
    EVENSTEP_RETURN_IF_ERROR(c.AllGatherv(mine.data(), all.data(), {1, 2, 3}));
    EVENSTEP_RETURN_IF_ERROR(
        Expect(all == std::vector<char>({0, 1, 1, 2, 2, 2}), "wrong gather"));
    int64_t value = c.rank() == 1 ? 42 : 0;
    EVENSTEP_RETURN_IF_ERROR(c.Broadcast(&value, sizeof(value), 1));
    EVENSTEP_RETURN_IF_ERROR(c.Barrier());
    return Expect(value == 42, "wrong broadcast");
  });
  EXPECT_THAT(statuses, Each(absl::OkStatus()));
}

// Rank 1 has nothing, and takes part all the same.
TEST_P(CommunicatorTest, ARankWithNothingTakesPartInEveryCollective) {
  const auto statuses = RunGroup(3, [](Communicator& c) -> absl::Status {
    const std::vector<int64_t> bytes = {4, 0, 4};
    const std::vector<int32_t> mine(bytes[c.rank()] / 4, 7 + c.rank());
    std::vector<int32_t> all(2);
    EVENSTEP_RETURN_IF_ERROR(c.AllGatherv(mine.data(), all.data(), bytes));
    EVENSTEP_RETURN_IF_ERROR(
        Expect(all == std::vector<int32_t>({7, 9}), "wrong gather"));
    const std::vector<double> parts = {1.0 + c.rank(), 2.0};
    std::vector<double> sum(c.rank() == 1 ? 0 : 1);
    EVENSTEP_RETURN_IF_ERROR(c.ReduceScatterSum(
        absl::MakeConstSpan(parts), {1, 0, 1}, absl::MakeSpan(sum)));
    EVENSTEP_RETURN_IF_ERROR(
        Expect(c.rank() == 1 || sum[0] == 6.0, "wrong sum"));
    std::vector<int64_t> sent(3, c.rank() == 1 ? 0 : 8);
    std::vector<int64_t> received = {8, 0, 8};
    std::vector<int64_t> send(3, c.rank());
    std::vector<int64_t> recv(2, -1);
    EVENSTEP_RETURN_IF_ERROR(
        c.AllToAllv(send.data(), sent, recv.data(), received));
    EVENSTEP_RETURN_IF_ERROR(
        Expect(recv == std::vector<int64_t>({0, 2}), "wrong exchange"));
    std::vector<float> none;
    EVENSTEP_RETURN_IF_ERROR(c.AllReduceSum(absl::MakeSpan(none)));
    return c.Barrier();
  });
  EXPECT_THAT(statuses, Each(absl::OkStatus()));
}

// Rank r holds 100 (p + 1) + r + i for place i of rank p's share.
TEST_P(CommunicatorTest, SharesOfUnequalSizeAreSummedOverRanks) {
  const std::vector<int64_t> counts = {3, 1, 0, 40000};
  const auto statuses = RunGroup(4, [&](Communicator& c) -> absl::Status {
    std::vector<float> send;
    for (int p = 0; p < c.size(); ++p) {
      for (int64_t i = 0; i < counts[p]; ++i) {
        send.push_back(static_cast<float>(100 * (p + 1) + c.rank() + i));
      }
    }
    std::vector<float> sum(counts[c.rank()]);
    EVENSTEP_RETURN_IF_ERROR(c.ReduceScatterSum(absl::MakeConstSpan(send),
                                                counts, absl::MakeSpan(sum)));
    for (size_t i = 0; i < sum.size(); ++i) {
      const auto expected = static_cast<float>(
          4 * (100 * (c.rank() + 1) + static_cast<int>(i)) + 6);
      EVENSTEP_RETURN_IF_ERROR(Expect(sum[i] == expected, "wrong sum"));
    }
    return absl::OkStatus();
  });
  EXPECT_THAT(statuses, Each(absl::OkStatus()));
}

// A gathered share, summed again, is what it was times the ranks: what
// KV-gather and its backward do.
TEST_P(CommunicatorTest, ReduceScatterIsTheInverseOfGather) {
  const auto statuses = RunGroup(3, [](Communicator& c) -> absl::Status {
    const std::vector<int64_t> counts = {2, 5, 1};
    const std::vector<int64_t> bytes = {16, 40, 8};
    const std::vector<double> mine(counts[c.rank()], 1.5 + c.rank());
    std::vector<double> all(8);
    EVENSTEP_RETURN_IF_ERROR(c.AllGatherv(mine.data(), all.data(), bytes));
    std::vector<double> back(mine.size());
    EVENSTEP_RETURN_IF_ERROR(c.ReduceScatterSum(absl::MakeConstSpan(all),
                                                counts, absl::MakeSpan(back)));
    return Expect(back == std::vector<double>(mine.size(), 4.5 + 3 * c.rank()),
                  "not the inverse");
  });
  EXPECT_THAT(statuses, Each(absl::OkStatus()));
}

// State transfer: a megabyte from rank 2 to rank 0, while rank 1 does nothing.
TEST_P(CommunicatorTest, AMessageConcernsTwoRanksOnly) {
  const auto statuses = RunGroup(3, [](Communicator& c) -> absl::Status {
    std::vector<int64_t> state(128 << 10, c.rank());
    const auto bytes = static_cast<int64_t>(state.size() * sizeof(int64_t));
    int64_t answer = c.rank() == 0 ? 5 : 0;
    if (c.rank() == 2) {
      std::iota(state.begin(), state.end(), 0);
      EVENSTEP_RETURN_IF_ERROR(c.Send(state.data(), bytes, 0));
      EVENSTEP_RETURN_IF_ERROR(c.Recv(&answer, sizeof(answer), 0));
      EVENSTEP_RETURN_IF_ERROR(Expect(answer == 5, "wrong answer"));
    } else if (c.rank() == 0) {
      EVENSTEP_RETURN_IF_ERROR(c.Recv(state.data(), bytes, 2));
      EVENSTEP_RETURN_IF_ERROR(c.Send(&answer, sizeof(answer), 2));
      EVENSTEP_RETURN_IF_ERROR(Expect(state[777] == 777, "wrong state"));
    }
    std::vector<int64_t> sum = {c.rank()};
    EVENSTEP_RETURN_IF_ERROR(c.AllReduceSum(absl::MakeSpan(sum)));
    return Expect(sum[0] == 3, "collectives after a message");
  });
  EXPECT_THAT(statuses, Each(absl::OkStatus()));
}

TEST_P(CommunicatorTest, AMessageThatNobodyReceivesOrSendsIsAnError) {
  const auto statuses = RunGroup(2, [](Communicator& c) -> absl::Status {
    if (c.rank() == 1) return absl::OkStatus();
    int64_t value = 0;
    return c.Recv(&value, sizeof(value), 1);
  });
  EXPECT_EQ(statuses[0].code(), absl::StatusCode::kUnavailable) << statuses[0];
}

TEST_P(CommunicatorTest, CallsThatDoNotFitTheGroupLeaveItWhole) {
  const auto statuses = RunGroup(2, [](Communicator& c) -> absl::Status {
    std::vector<float> values(3);
    const absl::Status shares = c.ReduceScatterSum(
        absl::MakeConstSpan(values), {2, 2}, absl::MakeSpan(values));
    EXPECT_EQ(shares.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(shares.message()),
                HasSubstr("reduce-scatter of 4 values, 2 for rank"));
    EXPECT_EQ(c.Send(values.data(), 4, c.rank()).code(),
              absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(c.Recv(values.data(), 4, 2).code(),
              absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(c.Broadcast(values.data(), 4, -1).code(),
              absl::StatusCode::kInvalidArgument);
    return c.Barrier();
  });
  EXPECT_THAT(statuses, Each(absl::OkStatus()));
}

TEST_P(CommunicatorTest, CountsThatDoNotFitTheGroupAreRefused) {
  const auto statuses = RunGroup(2, [](Communicator& c) {
    char byte = 0;
    return c.AllToAllv(&byte, {0, 0, 0}, &byte, {0, 0});
  });
  for (const absl::Status& status : statuses) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("3 send counts for a group of 2"));
  }
}

// Rank 0 blocks in a collective that rank 2 never joins in time; another thread
// aborts once it is blocked.
TEST_P(CommunicatorTest, AbortWakesABlockedCollectiveAndItsPeersFail) {
  absl::Notification aborted;
  constexpr absl::Duration kUntilBlocked = absl::Milliseconds(100);
  absl::Duration blocked;
  absl::Duration until_woken;
  const auto statuses = RunGroup(3, [&](Communicator& c) -> absl::Status {
    std::vector<double> value = {1.0};
    if (c.rank() != 0) {
      if (c.rank() == 2) aborted.WaitForNotification();
      // What rank 0 had sent before may be enough for this one.
      EVENSTEP_RETURN_IF_ERROR(c.AllReduceSum(absl::MakeSpan(value)));
      return c.Barrier();
    }
    absl::Time abort_time;
    std::thread killer([&] {
      absl::SleepFor(kUntilBlocked);
      abort_time = absl::Now();
      c.Abort("the generation is over");
    });
    const absl::Time entered = absl::Now();
    const absl::Status status = c.AllReduceSum(absl::MakeSpan(value));
    const absl::Time returned = absl::Now();
    killer.join();
    blocked = returned - entered;
    until_woken = returned - abort_time;
    // Only now may a peer come: it cannot be what woke the rank.
    aborted.Notify();
    EXPECT_EQ(c.Barrier(), status) << "a broken communicator stays broken";
    return status;
  });
  EXPECT_EQ(statuses[0].code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(statuses[0].message()),
              HasSubstr("the generation is over"));
  EXPECT_FALSE(statuses[1].ok());
  EXPECT_FALSE(statuses[2].ok());
  EXPECT_GE(blocked, kUntilBlocked / 2) << "was in the collective";
  EXPECT_LT(until_woken, absl::Seconds(5)) << "not by the time-out of 20 s";
}

TEST_P(CommunicatorTest, ARankThatLeavesMakesItsPeersFail) {
  const auto statuses = RunGroup(2, [](Communicator& c) -> absl::Status {
    if (c.rank() == 1) return absl::OkStatus();
    std::vector<float> value = {1.0F};
    return c.AllReduceSum(absl::MakeSpan(value));
  });
  EXPECT_EQ(statuses[0].code(), absl::StatusCode::kUnavailable) << statuses[0];
}

TEST_P(CommunicatorTest, APeerThatNeverComesIsATimeOut) {
  absl::Notification over;
  const auto statuses = RunGroup(
      2,
      [&](Communicator& c) -> absl::Status {
        if (c.rank() == 1) {
          over.WaitForNotification();
          return absl::OkStatus();
        }
        const absl::Status status = c.Barrier();
        over.Notify();
        return status;
      },
      absl::Milliseconds(500));
  EXPECT_EQ(statuses[0].code(), absl::StatusCode::kDeadlineExceeded)
      << statuses[0];
}

TEST_P(CommunicatorTest, RanksInDifferentCollectivesFail) {
  const auto statuses = RunGroup(
      2,
      [](Communicator& c) -> absl::Status {
        std::vector<float> values(8);
        if (c.rank() == 0) return c.Barrier();
        return c.AllReduceSum(absl::MakeSpan(values));
      },
      absl::Milliseconds(500));
  EXPECT_FALSE(statuses[0].ok());
  EXPECT_FALSE(statuses[1].ok());
  if (GetParam().names_disagreement) {
    EXPECT_THAT(std::string(statuses[0].message()),
                HasSubstr("rank 0 is in barrier, rank 1 in all-reduce"));
  }
}

// Planned sends equal planned receives, pairwise.
TEST_P(CommunicatorTest, UnequalPairCountsFail) {
  const auto statuses = RunGroup(
      2,
      [](Communicator& c) -> absl::Status {
        std::vector<char> send(64);
        std::vector<char> recv(64);
        const int64_t sent = c.rank() == 0 ? 8 : 4;
        return c.AllToAllv(send.data(), {sent, sent}, recv.data(),
                           {c.rank() == 0 ? 8 : 4, 4});
      },
      absl::Milliseconds(500));
  EXPECT_FALSE(statuses[1].ok());
  if (GetParam().names_disagreement) {
    EXPECT_THAT(std::string(statuses[1].message()),
                HasSubstr("rank 0 sends 8 bytes, rank 1 expects 4"));
  }
}

TEST_P(CommunicatorTest, TimeInCollectivesIsCounted) {
  absl::Notification entering;
  absl::Notification never;
  int64_t waited_ns = 0;
  const auto statuses = RunGroup(2, [&](Communicator& c) -> absl::Status {
    if (c.rank() == 1) {
      entering.WaitForNotification();
      never.WaitForNotificationWithTimeout(absl::Milliseconds(100));
      return c.Barrier();
    }
    const int64_t before_ns = c.collective_ns();
    entering.Notify();
    EVENSTEP_RETURN_IF_ERROR(c.Barrier());
    waited_ns = c.collective_ns() - before_ns;
    return absl::OkStatus();
  });
  EXPECT_THAT(statuses, Each(absl::OkStatus()));
  EXPECT_GE(waited_ns, 20'000'000);
}

// First use, which is slow, is over when a group is there.
TEST_P(CommunicatorTest, AGroupIsWarmOnceItIsThere) {
  const auto statuses = RunGroup(3, [](Communicator& c) {
    return Expect(c.collective_ns() > 0, "nothing was exchanged");
  });
  EXPECT_THAT(statuses, Each(absl::OkStatus()));
}

// After a tree is gone, no group of its generation can be joined or
// used: its peers fail at once.
TEST_P(CommunicatorTest, AnOlderGenerationIsUnreachable) {
  const auto fabric = GetParam().make_fabric(absl::Seconds(20));
  const auto statuses = RunRanks(2, [&](int rank) -> absl::Status {
    EVENSTEP_ASSIGN_OR_RETURN(auto factory, fabric->MakeFactory(rank));
    EVENSTEP_ASSIGN_OR_RETURN(auto old_tree,
                              GroupTree::Build(*factory, 1, rank, 2));
    if (rank == 1) old_tree.reset();
    EVENSTEP_ASSIGN_OR_RETURN(auto tree,
                              GroupTree::Build(*factory, 2, rank, 2));
    if (rank == 0) {
      EXPECT_EQ(old_tree->world().Barrier().code(),
                absl::StatusCode::kUnavailable);
    }
    return tree->world().Barrier();
  });
  EXPECT_THAT(statuses, Each(absl::OkStatus()));
}

// Several groups share a device; a new generation reuses names under new keys.
TEST_P(CommunicatorTest, TheTreeIsBuiltAgainForEveryGeneration) {
  constexpr int kWorld = 4;
  const auto fabric = GetParam().make_fabric(absl::Seconds(20));
  const auto statuses = RunRanks(kWorld, [&](int rank) -> absl::Status {
    EVENSTEP_ASSIGN_OR_RETURN(auto factory, fabric->MakeFactory(rank));
    for (int64_t generation = 1; generation <= 2; ++generation) {
      EVENSTEP_ASSIGN_OR_RETURN(
          auto tree, GroupTree::Build(*factory, generation, rank, kWorld));
      EVENSTEP_ASSIGN_OR_RETURN(Communicator * pair,
                                tree->GroupFor(rank / 2 * 2, 2));
      std::vector<int64_t> sum = {rank};
      EVENSTEP_RETURN_IF_ERROR(pair->AllReduceSum(absl::MakeSpan(sum)));
      EVENSTEP_RETURN_IF_ERROR(Expect(sum[0] == rank / 2 * 4 + 1, "sum"));
      EVENSTEP_RETURN_IF_ERROR(tree->world().Barrier());
    }
    return absl::OkStatus();
  });
  EXPECT_THAT(statuses, Each(absl::OkStatus()));
}

}  // namespace
}  // namespace evenstep::trainer::testing
