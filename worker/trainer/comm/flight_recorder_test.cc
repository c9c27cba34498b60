#include "worker/trainer/comm/flight_recorder.h"

#include <atomic>
#include <thread>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/trainer/comm/in_process_communicator.h"
#include "worker/trainer/comm/testing/run_ranks.h"

namespace evenstep::trainer {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

CollectiveEntry EntryOf(int64_t number) {
  CollectiveEntry entry;
  entry.group = std::make_shared<const std::string>("generation-3/group-0+2");
  entry.kind = CollectiveKind::kAllToAll;
  entry.number = number;
  entry.bytes = 4096;
  return entry;
}

TEST(FlightRecorderTest, KeepsTheLastOnesInOrder) {
  FlightRecorder recorder(3);
  for (int i = 1; i <= 5; ++i) {
    recorder.End(recorder.Begin(EntryOf(i)), absl::StatusCode::kOk);
  }
  const auto entries = recorder.Entries();
  ASSERT_EQ(entries.size(), 3);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(entries[i].number, i + 3);
}

TEST(FlightRecorderTest, AnEndAfterTheEntryIsGoneTouchesNoOther) {
  FlightRecorder recorder(2);
  const int64_t old = recorder.Begin(EntryOf(1));
  recorder.Begin(EntryOf(2));
  recorder.Begin(EntryOf(3));
  recorder.End(old, absl::StatusCode::kAborted);
  for (const CollectiveEntry& entry : recorder.Entries()) {
    EXPECT_EQ(entry.ended, absl::InfiniteDuration()) << entry.number;
  }
}

TEST(FlightRecorderTest, AnEntrySaysWhatItWaitsInAndForHowLong) {
  FakeClock clock;
  FlightRecorder recorder(4, clock);
  recorder.Begin(EntryOf(17));
  clock.Advance(absl::Milliseconds(1500));
  EXPECT_EQ(DescribeEntry(recorder.Entries()[0], clock.Monotonic()),
            "all-to-all 17 of generation-3/group-0+2, 4096 bytes: waiting for "
            "1.5s");
}

TEST(FlightRecorderTest, AnEntrySaysHowItEnded) {
  FakeClock clock;
  FlightRecorder recorder(4, clock);
  const int64_t ticket = recorder.Begin(EntryOf(17));
  clock.Advance(absl::Milliseconds(20));
  recorder.End(ticket, absl::StatusCode::kDeadlineExceeded);
  clock.Advance(absl::Seconds(2));
  EXPECT_EQ(DescribeEntry(recorder.Entries()[0], clock.Monotonic()),
            "all-to-all 17 of generation-3/group-0+2, 4096 bytes: failed with "
            "DEADLINE_EXCEEDED after 20ms, 2s ago");
}

// Rank 1 leaves. Rank 0's recorder names the call, its number and its bytes,
// and the failure is dumped once however many groups it reaches.
TEST(FlightRecorderTest, AFailureIsDumpedOnceWithWhatTheRankWaitedIn) {
  InProcessHub hub;
  FlightRecorder rings[2];
  const auto statuses = testing::RunRanks(2, [&](int rank) -> absl::Status {
    auto factory = MakeRecordingFactory(hub.MakeFactory(), &rings[rank]);
    EVENSTEP_ASSIGN_OR_RETURN(auto pair, factory->Create("pair", {0, 2}, rank));
    EVENSTEP_RETURN_IF_ERROR(pair->Barrier());
    if (rank == 1) return absl::OkStatus();
    std::vector<float> values(10);
    const absl::Status status = pair->AllReduceSum(absl::MakeSpan(values));
    EXPECT_FALSE(status.ok());
    pair->Abort("after that");
    return status;
  });
  EXPECT_FALSE(statuses[0].ok());
  const auto entries = rings[0].Entries();
  ASSERT_EQ(entries.size(), 2);
  EXPECT_EQ(entries[0].kind, CollectiveKind::kBarrier);
  EXPECT_EQ(entries[1].kind, CollectiveKind::kAllReduce);
  EXPECT_EQ(entries[1].number, 2);
  EXPECT_EQ(entries[1].bytes, 40);
  EXPECT_EQ(entries[1].outcome, statuses[0].code());
  EXPECT_EQ(rings[0].num_dumps(), 1);
  EXPECT_EQ(rings[1].num_dumps(), 0);
}

// Rank 0 is still in the collective when its recorder is dumped.
TEST(FlightRecorderTest, AnAbortShowsTheCollectiveThatIsBlocked) {
  InProcessHub hub;
  FlightRecorder recorder;
  FlightRecorder other;
  absl::Notification over;
  testing::RunRanks(2, [&](int rank) -> absl::Status {
    auto factory =
        MakeRecordingFactory(hub.MakeFactory(), rank == 0 ? &recorder : &other);
    EVENSTEP_ASSIGN_OR_RETURN(auto pair, factory->Create("pair", {0, 2}, rank));
    if (rank == 1) {
      over.WaitForNotification();
      return absl::OkStatus();
    }
    std::thread killer([&] {
      while (recorder.Entries().empty()) absl::SleepFor(absl::Milliseconds(1));
      EXPECT_EQ(recorder.Entries()[0].ended, absl::InfiniteDuration());
      pair->Abort("the generation is over");
    });
    const absl::Status status = pair->Barrier();
    killer.join();
    over.Notify();
    return status;
  });
  EXPECT_EQ(recorder.num_dumps(), 1) << "by the abort, not again by its error";
}

TEST(FlightRecorderTest, BytesAreTheLargerOfSentAndReceived) {
  InProcessHub hub;
  FlightRecorder rings[2];
  const auto statuses = testing::RunRanks(2, [&](int rank) -> absl::Status {
    auto factory = MakeRecordingFactory(hub.MakeFactory(), &rings[rank]);
    EVENSTEP_ASSIGN_OR_RETURN(auto pair, factory->Create("pair", {0, 2}, rank));
    const std::vector<double> send(3);
    std::vector<double> recv(rank == 0 ? 1 : 2);
    EVENSTEP_RETURN_IF_ERROR(pair->ReduceScatterSum(
        absl::MakeConstSpan(send), {1, 2}, absl::MakeSpan(recv)));
    std::vector<char> all(9);
    EVENSTEP_RETURN_IF_ERROR(pair->AllGatherv(all.data(), nullptr, {0, 0}));
    return pair->AllToAllv(
        all.data(),
        rank == 0 ? std::vector<int64_t>{0, 4} : std::vector<int64_t>{1, 0},
        all.data() + 4,
        rank == 0 ? std::vector<int64_t>{0, 1} : std::vector<int64_t>{4, 0});
  });
  ASSERT_THAT(statuses, Each(absl::OkStatus()));
  for (const FlightRecorder& recorder : rings) {
    const auto entries = recorder.Entries();
    ASSERT_EQ(entries.size(), 3);
    EXPECT_EQ(entries[0].bytes, 24);
    EXPECT_EQ(entries[1].bytes, 0);
    EXPECT_EQ(entries[2].bytes, 4);
  }
}

}  // namespace
}  // namespace evenstep::trainer
