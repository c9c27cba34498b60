#include "worker/trainer/loop/collective_timeout.h"

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

}  // namespace
}  // namespace evenstep::trainer
