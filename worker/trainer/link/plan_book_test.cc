#include "worker/trainer/link/plan_book.h"

#include "gtest/gtest.h"

namespace evenstep::trainer {
namespace {

wire::StepPlan PlanOf(int64_t step, int64_t generation = 1, int world = 2) {
  wire::StepPlan plan;
  plan.generation = generation;
  plan.step = step;
  plan.world = world;
  plan.micro_batches = {{.first_rank = 0,
                         .degree = 1,
                         .sample_ids = {step},
                         .lengths = {10},
                         .shapes = {}}};
  plan.trained_tokens = 10;
  plan.digest = wire::StepPlanDigest(plan);
  return plan;
}

class PlanBookTest : public testing::Test {
 protected:
  PlanBookTest() { book_.Begin(/*generation=*/1, /*world=*/2); }
  PlanBook book_;
};

TEST_F(PlanBookTest, NothingIsAcceptedBeforeTheGenerationIsKnown) {
  PlanBook book;
  EXPECT_TRUE(absl::IsFailedPrecondition(book.Put(PlanOf(0))));
}

TEST_F(PlanBookTest, ARefusedPlanOfThisGenerationIsRemembered) {
  EXPECT_FALSE(book_.Put(PlanOf(0, /*generation=*/0)).ok());
  ASSERT_TRUE(book_.Put(PlanOf(0)).ok());
  book_.DropBefore(1);
  EXPECT_FALSE(book_.Put(PlanOf(0)).ok());
  book_.Refuse(/*generation=*/0, absl::InvalidArgumentError("old"));
  EXPECT_TRUE(book_.refusal().ok()) << book_.refusal();
  const absl::Status first = book_.Put(PlanOf(1, 1, /*world=*/3));
  book_.Refuse(/*generation=*/1, absl::InvalidArgumentError("later"));
  EXPECT_EQ(book_.refusal(), first);
  EXPECT_EQ(book_.num_refused(), 5);
}

TEST_F(PlanBookTest, PlansThatArriveOutOfOrderRunInOrder) {
  ASSERT_TRUE(book_.Put(PlanOf(2)).ok());
  ASSERT_TRUE(book_.Put(PlanOf(0)).ok());
  EXPECT_EQ(book_.NewestRunnable(0), 0);
  ASSERT_TRUE(book_.Put(PlanOf(1)).ok());
  EXPECT_EQ(book_.NewestRunnable(0), 2);
  EXPECT_EQ(book_.NewestRunnable(3), 2);
  ASSERT_NE(book_.Get(1), nullptr);
  EXPECT_EQ(book_.Get(1)->step, 1);
  EXPECT_EQ(book_.Get(3), nullptr);
}

TEST_F(PlanBookTest, APlanOfAnOldGenerationIsRefusedAndCounted) {
  EXPECT_TRUE(
      absl::IsFailedPrecondition(book_.Put(PlanOf(0, /*generation=*/0))));
  EXPECT_EQ(book_.NewestRunnable(0), -1);
  EXPECT_EQ(book_.num_refused(), 1);
}

TEST_F(PlanBookTest, APlanOfAnotherWorldIsRefused) {
  EXPECT_TRUE(absl::IsInvalidArgument(book_.Put(PlanOf(0, 1, /*world=*/4))));
}

TEST_F(PlanBookTest, TheSamePlanTwiceIsFineAnotherOneIsNot) {
  ASSERT_TRUE(book_.Put(PlanOf(0)).ok());
  EXPECT_TRUE(book_.Put(PlanOf(0)).ok());
  wire::StepPlan other = PlanOf(0);
  other.micro_batches[0].first_rank = 1;
  other.digest = wire::StepPlanDigest(other);
  EXPECT_TRUE(absl::IsAlreadyExists(book_.Put(other)));
  EXPECT_EQ(book_.Get(0)->micro_batches[0].first_rank, 0);
}

TEST_F(PlanBookTest, ACommittedStepIsForgottenAndNotTakenAgain) {
  ASSERT_TRUE(book_.Put(PlanOf(0)).ok());
  ASSERT_TRUE(book_.Put(PlanOf(1)).ok());
  book_.DropBefore(1);
  EXPECT_EQ(book_.Get(0), nullptr);
  EXPECT_NE(book_.Get(1), nullptr);
  EXPECT_TRUE(absl::IsFailedPrecondition(book_.Put(PlanOf(0))));
}

TEST_F(PlanBookTest, ANewGenerationStartsWithAnEmptyBook) {
  ASSERT_TRUE(book_.Put(PlanOf(0)).ok());
  book_.Begin(/*generation=*/2, /*world=*/2);
  EXPECT_EQ(book_.Get(0), nullptr);
  EXPECT_TRUE(book_.Put(PlanOf(0, /*generation=*/2)).ok());
}

}  // namespace
}  // namespace evenstep::trainer
