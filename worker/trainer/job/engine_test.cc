#include "worker/trainer/job/engine.h"

#include <memory>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/trainer/comm/in_process_communicator.h"
#include "worker/trainer/job/testing/small_job.h"
#include "worker/trainer/link/failure.h"

namespace evenstep::trainer {
namespace {

using ::testing::HasSubstr;

class EngineTest : public testing::Test {
 protected:
  EngineTest() {
    setup_.spec = SmallJob("/tmp/no-data", /*world=*/1);
    const auto factory = hub_.MakeFactory();
    auto groups = BuildGroups(setup_, *factory);
    EXPECT_TRUE(groups.ok()) << groups.status();
    groups_ = *std::move(groups);
  }

  TrainerSetup setup_;
  InProcessHub hub_;
  std::unique_ptr<GroupTree> groups_;
};

TEST_F(EngineTest, AModelThatNoMachineHoldsIsAFailedStartWithTheNumbers) {
  setup_.spec.model.width = 262144;
  setup_.spec.model.vocab = 1 << 30;
  const absl::Status status =
      MakeEngine(setup_, FaultPlan(), groups_.get()).status();
  EXPECT_EQ(ReasonOf(status), FailureReason::kStartFailed) << status;
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("2 layers, width 262144, 4 heads, vocabulary "
                        "1073741824"));
}

TEST_F(EngineTest, TheModelIsWrappedOnlyWhenAFaultIsPlanted) {
  const auto plain = MakeEngine(setup_, FaultPlan(), groups_.get());
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_EQ(plain->planted, nullptr);
  const FaultPlan faults({{FaultKind::kNotFinite, 0, 1}}, /*rank=*/0);
  const auto planted = MakeEngine(setup_, faults, groups_.get());
  ASSERT_TRUE(planted.ok()) << planted.status();
  EXPECT_EQ(planted->planted, planted->model.get());
}

// Split states would move all parameters into one tensor. Nor could they be
// exchanged on a device: a world of one has collectives on host memory only.
TEST_F(EngineTest, OneRankSplitsItsStatesWithNobody) {
  setup_.spec.optimizer.sharding = jobspec::OptimizerSharding::kZero1;
  const auto engine = MakeEngine(setup_, FaultPlan(), groups_.get());
  ASSERT_TRUE(engine.ok()) << engine.status();
  const auto& parameters = engine->model->parameters();
  EXPECT_FALSE(parameters[0].value.is_alias_of(parameters[1].value));
  EXPECT_TRUE(engine->runner->ReduceGradients().ok());
  EXPECT_TRUE(engine->optimizer->Update(0).ok());
}

}  // namespace
}  // namespace evenstep::trainer
