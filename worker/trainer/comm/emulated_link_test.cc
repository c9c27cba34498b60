#include "worker/trainer/comm/emulated_link.h"

#include "base/status_macros.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/trainer/comm/in_process_communicator.h"
#include "worker/trainer/comm/testing/run_ranks.h"

namespace evenstep::trainer {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

// Round numbers: a byte takes 1 ns inside a node and 10 ns across.
EmulatedLink TwoRanksANode() {
  EmulatedLink link;
  link.ranks_per_node = 2;
  link.inside = {absl::Microseconds(5), 1.0};
  link.across = {absl::Microseconds(20), 0.1};
  return link;
}

absl::Duration TimeOf(const Collective& call, const EmulatedPlace& place) {
  return EmulatedTime(TwoRanksANode(), call, place);
}

TEST(EmulatedTimeTest, AnAllToAllInsideANodeCostsItsLatencyAndBytes) {
  const std::vector<int64_t> sent = {7000, 4000};
  const std::vector<int64_t> received = {7000, 1000};
  EXPECT_EQ(TimeOf({.kind = CollectiveKind::kAllToAll,
                    .send_counts = sent,
                    .recv_counts = received},
                   {2, 0, 2}),
            absl::Microseconds(5 + 4));
}

// Ranks 1 and 2 stand on two nodes although they are two ranks.
TEST(EmulatedTimeTest, TheLevelFollowsFromWorldRanks) {
  const std::vector<int64_t> bytes = {1000, 1000};
  EXPECT_EQ(TimeOf({.kind = CollectiveKind::kAllToAll,
                    .send_counts = bytes,
                    .recv_counts = bytes},
                   {1, 0, 2}),
            absl::Microseconds(20 + 10));
}

TEST(EmulatedTimeTest, TheSlowerLevelCounts) {
  const std::vector<int64_t> bytes = {1000, 90000, 1000, 1000};
  // Inside: 5 + 90 us; across, two peers: 20 + 20 us.
  EXPECT_EQ(TimeOf({.kind = CollectiveKind::kAllToAll,
                    .send_counts = bytes,
                    .recv_counts = bytes},
                   {0, 0, 4}),
            absl::Microseconds(95));
}

TEST(EmulatedTimeTest, AnAllReduceHasTwoRounds) {
  EXPECT_EQ(
      TimeOf({.kind = CollectiveKind::kAllReduce, .count = 4000}, {0, 1, 2}),
      absl::Microseconds(10 + 4));
}

TEST(EmulatedTimeTest, GatherAndReduceScatterMoveOppositeWays) {
  const std::vector<int64_t> counts = {1000, 3000};
  const Collective gather = {.kind = CollectiveKind::kAllGather,
                             .recv_counts = counts};
  const Collective scatter = {.kind = CollectiveKind::kReduceScatter,
                              .type = ElementType::kFloat32,
                              .send_counts = counts};
  EXPECT_EQ(TimeOf(gather, {0, 0, 2}), absl::Microseconds(5 + 3));
  EXPECT_EQ(TimeOf(scatter, {0, 1, 2}), absl::Microseconds(5 + 12));
}

TEST(EmulatedTimeTest, OnlyTheRanksConcernedPayForABroadcastOrAMessage) {
  const Collective broadcast = {
      .kind = CollectiveKind::kBroadcast, .count = 1000, .peer = 0};
  // To one inside and two across: 20 + 20 us. Rank 1 hears from inside only.
  EXPECT_EQ(TimeOf(broadcast, {0, 0, 4}), absl::Microseconds(40));
  EXPECT_EQ(TimeOf(broadcast, {0, 1, 4}), absl::Microseconds(6));
  EXPECT_EQ(TimeOf({.kind = CollectiveKind::kSend, .count = 1000, .peer = 3},
                   {0, 0, 4}),
            absl::Microseconds(30));
  EXPECT_EQ(TimeOf({.kind = CollectiveKind::kBarrier}, {0, 0, 4}),
            absl::Microseconds(20));
  EXPECT_EQ(TimeOf({.kind = CollectiveKind::kBarrier}, {0, 0, 1}),
            absl::ZeroDuration());
}

TEST(ParseEmulatedLinkTest, ReadsEveryPart) {
  const auto link = ParseEmulatedLink(
      "ranks_per_node=2,inside_latency=5us,inside_gigabytes_per_second=200,"
      "across_latency=20us,across_gigabytes_per_second=25");
  ASSERT_TRUE(link.ok()) << link.status();
  EXPECT_EQ(DescribeEmulatedLink(*link),
            "EMULATED link: 2 ranks a node; inside 5us, 200 GB/s; across 20us, "
            "25 GB/s (0: no cost)");
}

TEST(ParseEmulatedLinkTest, NamesThePartThatIsWrong) {
  for (const char* text :
       {"", "ranks_per_node=0", "inside_latency=5", "outside_latency=5us",
        "across_gigabytes_per_second=-1", "ranks_per_node"}) {
    const absl::Status status = ParseEmulatedLink(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(kEmulatedLinkVariable));
  }
}

// Time waited counts as time in collectives; values are what they were.
TEST(EmulatedLinkFactoryTest, WaitsAfterTheCollectiveAndCountsIt) {
  InProcessHub hub;
  const auto statuses = testing::RunRanks(2, [&](int rank) -> absl::Status {
    absl::Duration slept;
    auto factory =
        MakeEmulatedLinkFactory(hub.MakeFactory(), TwoRanksANode(),
                                [&](absl::Duration time) { slept += time; });
    EVENSTEP_ASSIGN_OR_RETURN(auto pair, factory->Create("pair", {0, 2}, rank));
    std::vector<float> values(1000, 1.0F);
    const int64_t before_ns = pair->collective_ns();
    EVENSTEP_RETURN_IF_ERROR(pair->AllReduceSum(absl::MakeSpan(values)));
    EXPECT_EQ(slept, absl::Microseconds(14));
    EXPECT_GE(pair->collective_ns() - before_ns, 14'000);
    EXPECT_THAT(values, Each(2.0F));
    pair->Abort("stop");
    EXPECT_EQ(pair->Barrier().code(), absl::StatusCode::kAborted);
    EXPECT_EQ(slept, absl::Microseconds(14)) << "a failure costs nothing";
    return absl::OkStatus();
  });
  EXPECT_THAT(statuses, Each(absl::OkStatus()));
}

}  // namespace
}  // namespace evenstep::trainer
