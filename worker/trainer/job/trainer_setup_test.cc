#include "worker/trainer/job/trainer_setup.h"

#include <utility>

#include "gtest/gtest.h"
#include "wire/job_spec_proto.h"
#include "worker/trainer/job/testing/small_job.h"

namespace evenstep::trainer {
namespace {

v1::Start GoodStart() {
  v1::Start start;
  start.set_job_id("job");
  start.set_attempt(2);
  start.set_generation(5);
  start.set_rank(1);
  start.set_world(3);
  start.add_ranks_per_node(2);
  start.add_ranks_per_node(1);
  start.set_listen_host("127.0.0.1");
  start.set_output_dir("/tmp/out");
  *start.mutable_spec() = wire::ToProto(SmallJob("/tmp/data", 3));
  return start;
}

TEST(TrainerSetupTest, AGoodStartIsTakenOver) {
  const auto setup = MakeTrainerSetup(GoodStart(), 1);
  ASSERT_TRUE(setup.ok()) << setup.status();
  EXPECT_EQ(setup->generation, 5);
  EXPECT_EQ(setup->world, 3);
  EXPECT_EQ(setup->spec.model.width, 32);
  EXPECT_EQ(setup->threads, 1);
}

TEST(TrainerSetupTest, ARankKnowsItsPlaceOnItsNode) {
  for (const auto& [rank, place] : {std::pair{0, 0}, {1, 1}, {2, 0}}) {
    v1::Start start = GoodStart();
    start.set_rank(rank);
    const auto setup = MakeTrainerSetup(start, rank);
    ASSERT_TRUE(setup.ok()) << setup.status();
    EXPECT_EQ(setup->local_rank, place) << rank;
    EXPECT_TRUE(setup->device.is_cpu());
  }
}

TEST(TrainerSetupTest, RanksThatDoNotFitAreRefused) {
  EXPECT_FALSE(MakeTrainerSetup(GoodStart(), 0).ok());
  v1::Start start = GoodStart();
  start.set_rank(3);
  EXPECT_FALSE(MakeTrainerSetup(start, 3).ok());
  start = GoodStart();
  start.add_ranks_per_node(1);
  EXPECT_FALSE(MakeTrainerSetup(start, 1).ok());
  start = GoodStart();
  start.mutable_spec()->set_ranks(2);
  EXPECT_FALSE(MakeTrainerSetup(start, 1).ok());
}

TEST(TrainerSetupTest, AJobThatBreaksARuleIsRefused) {
  v1::Start start = GoodStart();
  start.mutable_spec()->set_steps(0);
  EXPECT_TRUE(absl::IsInvalidArgument(MakeTrainerSetup(start, 1).status()));
}

}  // namespace
}  // namespace evenstep::trainer
