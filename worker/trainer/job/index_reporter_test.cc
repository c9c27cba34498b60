#include "worker/trainer/job/index_reporter.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace evenstep::trainer {
namespace {

class RecordingAgent : public AgentChannel {
 public:
  absl::Status Send(const v1::ToAgent& message) override {
    messages.push_back(message);
    return status;
  }
  bool StopRequested() const override { return stop; }

  std::vector<v1::ToAgent> messages;
  absl::Status status;
  bool stop = false;
};

constexpr data::IndexProgress kProgress = {41, 100};

class IndexReporterTest : public ::testing::Test {
 protected:
  RecordingAgent agent_;
  FakeClock clock_;
  IndexReporter reporter_{&agent_, &clock_};
};

TEST_F(IndexReporterTest, TheAgentHearsOfItEveryTwoSeconds) {
  for (int i = 0; i < 50; ++i) {
    EXPECT_TRUE(reporter_.Report(kProgress).ok());
    clock_.Advance(absl::Milliseconds(100));
  }
  ASSERT_EQ(agent_.messages.size(), 2u);
  EXPECT_EQ(agent_.messages[0].data().indexed_bytes(), 41);
  EXPECT_EQ(agent_.messages[0].data().bytes_to_index(), 100);
}

// It holds the start deadline off, as the one that indexes would.
TEST_F(IndexReporterTest, ARankThatWaitsSaysHowFarTheOtherProcessIs) {
  data::IndexProgress progress = {41, 100, /*waiting=*/true};
  for (int i = 0; i < 3; ++i) {
    clock_.Advance(absl::Minutes(1));
    ++progress.num_reports;
    EXPECT_TRUE(reporter_.Report(progress).ok());
    EXPECT_TRUE(reporter_.Report(progress).ok());
  }
  ASSERT_EQ(agent_.messages.size(), 3u);
  EXPECT_EQ(agent_.messages[0].data().indexed_bytes(), 41);
  EXPECT_EQ(agent_.messages[0].data().bytes_to_index(), 100);
}

TEST_F(IndexReporterTest, AProcessThatStandsStillIsNoProgress) {
  const data::IndexProgress progress = {41, 100, /*waiting=*/true, 7};
  for (int i = 0; i < 100; ++i) {
    clock_.Advance(absl::Minutes(1));
    EXPECT_TRUE(reporter_.Report(progress).ok());
  }
  EXPECT_EQ(agent_.messages.size(), 1u);
}

TEST_F(IndexReporterTest, WaitingForAnUnknownTotalIsNotBeingDone) {
  clock_.Advance(absl::Hours(1));
  EXPECT_TRUE(reporter_.Report({.waiting = true, .num_reports = 1}).ok());
  EXPECT_TRUE(agent_.messages.empty());
}

TEST_F(IndexReporterTest, AStopEndsTheIndexing) {
  agent_.stop = true;
  EXPECT_TRUE(absl::IsCancelled(reporter_.Report(kProgress)));
}

TEST_F(IndexReporterTest, AnAgentThatIsGoneEndsTheIndexing) {
  agent_.status = absl::UnavailableError("gone");
  clock_.Advance(absl::Hours(1));
  EXPECT_EQ(reporter_.Report(kProgress), agent_.status);
}

}  // namespace
}  // namespace evenstep::trainer
