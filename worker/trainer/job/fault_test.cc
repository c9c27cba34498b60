#include "worker/trainer/job/fault.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace evenstep::trainer {
namespace {

TEST(FaultTest, NothingIsPlantedByDefault) {
  const auto faults = ParseFaults("");
  ASSERT_TRUE(faults.ok());
  EXPECT_TRUE(FaultPlan(*faults, 0).empty());
}

TEST(FaultTest, AFaultBelongsToOneRankAndOneStep) {
  const auto faults =
      ParseFaults("not_finite:rank=1:step=3,data_error:rank=0:step=2");
  ASSERT_TRUE(faults.ok()) << faults.status();
  const FaultPlan zero(*faults, 0);
  const FaultPlan one(*faults, 1);
  EXPECT_TRUE(one.Has(FaultKind::kNotFinite, 3));
  EXPECT_FALSE(one.Has(FaultKind::kNotFinite, 2));
  EXPECT_FALSE(one.Has(FaultKind::kExit, 3));
  EXPECT_FALSE(zero.Has(FaultKind::kNotFinite, 3));
  EXPECT_TRUE(zero.Has(FaultKind::kDataError, 2));
  EXPECT_TRUE(FaultPlan(*faults, 2).empty());
}

TEST(FaultTest, AMisspeltFaultIsNamed) {
  for (const char* text : {"explode:rank=0:step=1", "exit:rank=0",
                           "exit:step=1:rank=0", "exit:rank=x:step=1", ","}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseFaults(text).status())) << text;
  }
}

TEST(FaultDeathTest, ExitEndsTheProcessWithItsOwnCode) {
  const auto faults = ParseFaults("exit:rank=0:step=1");
  const FaultPlan plan(*faults, 0);
  plan.BeforeStep(0);
  EXPECT_EXIT(plan.BeforeStep(1), testing::ExitedWithCode(kExitPlantedFault),
              "");
}

}  // namespace
}  // namespace evenstep::trainer
