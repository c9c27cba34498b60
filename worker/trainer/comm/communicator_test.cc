// One suite over both CPU back ends: ranks are threads, Gloo talks over
// loopback.

#include "worker/trainer/comm/communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <numeric>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "worker/trainer/comm/group_tree.h"
#include "worker/trainer/testing/ranks.h"

namespace evenstep::trainer {
namespace {

using testing::BackEnd;
using ::testing::Each;
using ::testing::ElementsAre;
using testing::Fabric;
using ::testing::HasSubstr;
using testing::RunRanks;

class CommunicatorTest : public ::testing::TestWithParam<BackEnd> {
 protected:
  static void SetUpTestSuite() { std::signal(SIGPIPE, SIG_IGN); }

  using Body = std::function<absl::Status(Communicator& communicator)>;
  // Runs `body` on every rank of one group of `world` ranks.
  std::vector<absl::Status> RunGroup(
      int world, const Body& body, absl::Duration timeout = absl::Seconds(20)) {
    Fabric fabric(GetParam(), timeout);
    return RunRanks(world, [&](int rank) -> absl::Status {
      EVENSTEP_ASSIGN_OR_RETURN(auto factory, fabric.MakeFactory());
      EVENSTEP_ASSIGN_OR_RETURN(auto communicator,
                                factory->Create("group", {0, world}, rank));
      return body(*communicator);
    });
  }
};

INSTANTIATE_TEST_SUITE_P(BackEnds, CommunicatorTest,
                         ::testing::Values(BackEnd::kInProcess, BackEnd::kGloo),
                         [](const auto& info) {
                           return testing::BackEndName(info.param);
                         });

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
      return c.AllReduceSum(absl::MakeSpan(value));
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
  if (GetParam() == BackEnd::kInProcess) {
    EXPECT_THAT(std::string(statuses[0].message()),
                HasSubstr("rank 0 is in barrier, rank 1 in all-reduce"));
  }
}

// Case 12: planned sends equal planned receives, pairwise.
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
  if (GetParam() == BackEnd::kInProcess) {
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

// Several groups share a device; a new generation reuses names under new keys.
TEST_P(CommunicatorTest, TheTreeIsBuiltAgainForEveryGeneration) {
  Fabric fabric(GetParam());
  constexpr int kWorld = 4;
  const auto statuses = RunRanks(kWorld, [&](int rank) -> absl::Status {
    EVENSTEP_ASSIGN_OR_RETURN(auto factory, fabric.MakeFactory());
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

TEST(GlooFactoryTest, BadOptionsAreRefusedWithTheReason) {
  MemoryRendezvousStore store;
  EXPECT_EQ(MakeGlooFactory({"", absl::Seconds(1)}, &store).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(MakeGlooFactory({"127.0.0.1", absl::ZeroDuration()}, &store)
                .status()
                .code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(MakeGlooFactory({"no.such.host.invalid", absl::Seconds(1)}, &store)
                .status()
                .code(),
            absl::StatusCode::kUnavailable);
}

// A store whose generation is over while a rank waits for its peer's address.
TEST(GlooFactoryTest, AnEndedRendezvousIsPassedOn) {
  class EndedStore : public MemoryRendezvousStore {
    absl::StatusOr<std::string> Get(const std::string&,
                                    absl::Duration) override {
      return absl::AbortedError("generation 3 is over");
    }
  };
  EndedStore store;
  auto factory = MakeGlooFactory({"127.0.0.1", absl::Seconds(1)}, &store);
  ASSERT_TRUE(factory.ok()) << factory.status();
  EXPECT_EQ((*factory)->Create("group", {0, 2}, 0).status(),
            absl::AbortedError("generation 3 is over"));
}

}  // namespace
}  // namespace evenstep::trainer
