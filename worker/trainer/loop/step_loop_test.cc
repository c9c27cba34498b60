#include "worker/trainer/loop/step_loop.h"

#include "gtest/gtest.h"

namespace evenstep::trainer {
namespace {

TEST(CollectiveTimeoutTest, IsTheLargerOfAMinuteAndTenPredictedSteps) {
  jobspec::TimeoutSpec timeouts;
  EXPECT_EQ(CollectiveTimeout(timeouts, 0), absl::Seconds(60));
  EXPECT_EQ(CollectiveTimeout(timeouts, 5'000'000'000), absl::Seconds(60));
  EXPECT_EQ(CollectiveTimeout(timeouts, 7'000'000'000), absl::Seconds(70));
}

TEST(CollectiveTimeoutTest, TheJobsOwnBeatsBoth) {
  jobspec::TimeoutSpec timeouts;
  timeouts.collective = absl::Seconds(3);
  EXPECT_EQ(CollectiveTimeout(timeouts, 7'000'000'000), absl::Seconds(3));
}

TEST(CollectiveTimeoutTest, NoTimeoutIsLongerThanAWeek) {
  jobspec::TimeoutSpec timeouts;
  EXPECT_EQ(CollectiveTimeout(timeouts, 1'000'000'000'000'000'000),
            kLongestTimeout);
  timeouts.collective = absl::InfiniteDuration();
  timeouts.start = absl::InfiniteDuration();
  EXPECT_EQ(CollectiveTimeout(timeouts, 0), kLongestTimeout);
  EXPECT_EQ(SetUpTimeout(timeouts), kLongestTimeout);
}

TEST(CollectiveTimeoutTest, SetUpMayTakeAsLongAsTheStart) {
  jobspec::TimeoutSpec timeouts;
  timeouts.collective = absl::Seconds(3);
  timeouts.start = absl::Minutes(7);
  EXPECT_EQ(SetUpTimeout(timeouts), absl::Minutes(7));
}

}  // namespace
}  // namespace evenstep::trainer
