#include "coordinator/steps/step_summary.h"

#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace evenstep::coordinator {
namespace {

using ::testing::HasSubstr;

void AddMicroBatch(v1::StepPlan& plan, int first_rank, int degree,
                   int64_t length) {
  v1::MicroBatch* micro_batch = plan.add_micro_batches();
  micro_batch->set_first_rank(first_rank);
  micro_batch->set_degree(degree);
  micro_batch->add_sample_ids(plan.micro_batches_size());
  micro_batch->add_lengths(length);
}

// Two ranks: one micro-batch on both (7 tokens, padded to 8), then one on rank
// 0 alone (4 tokens).
v1::StepPlan Plan() {
  v1::StepPlan plan;
  plan.set_step(5);
  plan.set_world(2);
  plan.set_trained_tokens(11);
  AddMicroBatch(plan, 0, 2, 7);
  AddMicroBatch(plan, 0, 1, 4);
  plan.set_predicted_step_ns(900);
  plan.set_lower_bound_ns(800);
  plan.set_predicted_imbalance(0.25);
  plan.set_policy("even");
  return plan;
}

v1::StepReport Report(int rank, int64_t shared_ns, int64_t reduction_ns) {
  v1::StepReport report;
  report.set_step(5);
  report.set_rank(rank);
  report.set_loss(2.5);
  report.set_trained_tokens(11);
  report.set_gradient_norm(1.5);
  v1::MicroBatchTime* shared = report.add_micro_batches();
  shared->set_index(0);
  shared->set_total_ns(600);
  shared->set_collective_ns(shared_ns);
  if (rank == 0) {
    v1::MicroBatchTime* own = report.add_micro_batches();
    own->set_index(1);
    own->set_total_ns(300);
    own->set_collective_ns(50);  // nobody to wait for
  }
  report.set_reduction_ns(reduction_ns);
  report.set_step_ns(1000);
  report.set_gate_ns(10);
  report.set_cpu_ns(rank == 0 ? 700 : 500);
  report.set_plan_lead(rank == 0 ? 3 : 2);
  report.set_padded_tokens(rank == 0 ? 8 : 4);
  return report;
}

TEST(StepSummaryTest, WaitingIsTimeInCollectivesAboveTheLeastOfTheGroup) {
  // Shared: 40 and 100 -> 0 + 60. Reduction: 30 and 330 -> 0 + 300. Alone: 0.
  const auto figures =
      SummariseStep(Plan(), {Report(0, 40, 30), Report(1, 100, 330)});
  ASSERT_TRUE(figures.ok()) << figures.status();
  EXPECT_EQ(figures->waiting_ns, 360);
  EXPECT_DOUBLE_EQ(figures->summary.idle_share(), 360.0 / (2 * 1000));
}

// The host of a GPU spins while it waits, so that its CPU time can be more than
// the step's: it says nothing about who waited.
TEST(StepSummaryTest, IdleShareIsOfTheWallWhateverTheHostsCpuTime) {
  v1::StepReport spinning = Report(0, 40, 30);
  spinning.set_cpu_ns(2000);
  const auto figures = SummariseStep(Plan(), {spinning, Report(1, 100, 330)});
  ASSERT_TRUE(figures.ok()) << figures.status();
  EXPECT_DOUBLE_EQ(figures->summary.idle_share(), 360.0 / (2 * 1000));
  EXPECT_DOUBLE_EQ(figures->summary.step_seconds(), 1000e-9);
  EXPECT_DOUBLE_EQ(figures->summary.slowest_cpu_seconds(), 2000e-9);
}

TEST(StepSummaryTest, StepTimeIsTheLongestGateAndLeadTheLeast) {
  v1::StepReport late = Report(1, 40, 30);
  late.set_step_ns(1250);
  late.set_gate_ns(4);
  const auto figures = SummariseStep(Plan(), {Report(0, 40, 30), late});
  ASSERT_TRUE(figures.ok());
  EXPECT_DOUBLE_EQ(figures->summary.step_seconds(), 1250e-9);
  EXPECT_DOUBLE_EQ(figures->summary.gate_seconds(), 4e-9);
  EXPECT_EQ(figures->summary.plan_lead(), 2);
  EXPECT_DOUBLE_EQ(figures->summary.slowest_cpu_seconds(), 700e-9);
  EXPECT_DOUBLE_EQ(figures->summary.mean_cpu_seconds(), 600e-9);
  EXPECT_DOUBLE_EQ(figures->summary.idle_share(), 0);
}

TEST(StepSummaryTest, PlanFiguresAreThePlans) {
  const auto figures =
      SummariseStep(Plan(), {Report(0, 40, 30), Report(1, 40, 30)});
  ASSERT_TRUE(figures.ok());
  EXPECT_DOUBLE_EQ(figures->summary.predicted_seconds(), 900e-9);
  EXPECT_DOUBLE_EQ(figures->summary.lower_bound_seconds(), 800e-9);
  EXPECT_DOUBLE_EQ(figures->summary.predicted_imbalance(), 0.25);
  EXPECT_EQ(figures->summary.num_micro_batches(), 2);
  EXPECT_EQ(figures->summary.highest_degree(), 2);
  EXPECT_EQ(figures->summary.policy(), "even");
  EXPECT_EQ(figures->tokens, 11);
  EXPECT_EQ(figures->padded_tokens, 12);
}

// Zigzag shards pad each document to twice the degree, so only the ranks know:
// 698 tokens on 4 of them are 704, not 700.
TEST(StepSummaryTest, PaddedTokensAreThoseThatRanksWorkedOn) {
  v1::StepPlan plan;
  plan.set_world(4);
  AddMicroBatch(plan, 0, 4, 698);
  std::vector<v1::StepReport> reports(4);
  for (v1::StepReport& report : reports) report.set_padded_tokens(176);
  const auto figures = SummariseStep(plan, reports);
  ASSERT_TRUE(figures.ok()) << figures.status();
  EXPECT_EQ(figures->tokens, 698);
  EXPECT_EQ(figures->padded_tokens, 704);
  EXPECT_DOUBLE_EQ(figures->summary.padding_ratio(), 6.0 / 704);
}

TEST(StepSummaryTest, RanksThatLeftTokensOutAreRefused) {
  v1::StepReport other = Report(1, 40, 30);
  other.set_padded_tokens(2);
  const auto figures = SummariseStep(Plan(), {Report(0, 40, 30), other});
  EXPECT_THAT(figures.status().message(),
              HasSubstr("ranks worked on 10 tokens, padding included, where "
                        "the plan has 11"));
}

TEST(StepSummaryTest, RanksThatDisagreeOnTheLossAreNamed) {
  v1::StepReport other = Report(1, 40, 30);
  other.set_loss(2.6);
  const auto figures = SummariseStep(Plan(), {Report(0, 40, 30), other});
  EXPECT_THAT(figures.status().message(),
              HasSubstr("rank 1 has loss 2.6 over 11 tokens, rank 0 has 2.5"));
}

v1::StepReport Evaluated(int rank, double loss, int64_t evaluation_ns) {
  v1::StepReport report = Report(rank, 40, 30);
  report.mutable_evaluation()->set_loss(loss);
  report.mutable_evaluation()->set_trained_tokens(50);
  report.mutable_evaluation()->set_evaluation_ns(evaluation_ns);
  return report;
}

TEST(StepSummaryTest, AnEvaluationIsThatOfAllRanksAndLastsAsLongAsTheSlowest) {
  const auto figures = SummariseStep(
      Plan(),
      {Evaluated(0, 2.5, 3'000'000'000), Evaluated(1, 2.5, 4'000'000'000)});
  ASSERT_TRUE(figures.ok()) << figures.status();
  const v1::EvaluationSummary& evaluation = figures->summary.evaluation();
  EXPECT_EQ(evaluation.step(), figures->summary.step());
  EXPECT_EQ(evaluation.loss(), 2.5);
  EXPECT_EQ(evaluation.trained_tokens(), 50);
  EXPECT_EQ(evaluation.seconds(), 4);
  EXPECT_FALSE(SummariseStep(Plan(), {Report(0, 40, 30), Report(1, 40, 30)})
                   ->summary.has_evaluation());
}

TEST(StepSummaryTest, RanksThatDisagreeOnAnEvaluationAreNamed) {
  const auto other =
      SummariseStep(Plan(), {Evaluated(0, 2.5, 1), Evaluated(1, 2.25, 1)});
  EXPECT_THAT(std::string(other.status().message()),
              HasSubstr("rank 1 has loss 2.25 over 50 tokens, rank 0 has 2.5"));
  const auto none =
      SummariseStep(Plan(), {Evaluated(0, 2.5, 1), Report(1, 40, 30)});
  EXPECT_FALSE(none.ok());
}

TEST(StepTotalsTest, TheLastEvaluationAndTheBestAreKept) {
  StepTotals totals(2, 10);
  EXPECT_FALSE(totals.ToProto().has_last_evaluation());
  const double losses[] = {3, 2, 2, 2.5};
  for (int step = 0; step < 4; ++step) {
    StepFigures figures;
    figures.summary.set_step(step);
    figures.summary.mutable_evaluation()->set_step(step);
    figures.summary.mutable_evaluation()->set_loss(losses[step]);
    totals.Add(figures);
  }
  totals.Add(StepFigures());  // none followed
  EXPECT_EQ(totals.ToProto().last_evaluation().step(), 3);
  EXPECT_EQ(totals.ToProto().best_evaluation().step(), 1);
}

TEST(StepSummaryTest, WrongReportsAreRefused) {
  const v1::StepPlan plan = Plan();
  EXPECT_TRUE(CheckStepReport(plan, Report(0, 1, 1)).ok());
  EXPECT_TRUE(CheckStepReport(plan, Report(1, 1, 1)).ok());
  const auto refused = [&](std::function<void(v1::StepReport&)> spoil) {
    v1::StepReport report = Report(1, 1, 1);
    spoil(report);
    return CheckStepReport(plan, report).code() ==
           absl::StatusCode::kInvalidArgument;
  };
  EXPECT_TRUE(refused([](auto& r) { r.set_rank(2); }));
  EXPECT_TRUE(refused([](auto& r) { r.mutable_micro_batches()->Clear(); }));
  EXPECT_TRUE(
      refused([](auto& r) { r.mutable_micro_batches(0)->set_index(1); }));
  EXPECT_TRUE(refused(
      [](auto& r) { r.mutable_micro_batches(0)->set_collective_ns(-1); }));
  EXPECT_TRUE(refused([](auto& r) { r.set_step_ns(-1); }));
  EXPECT_TRUE(refused([](auto& r) { r.set_loss(std::nan("")); }));
  EXPECT_TRUE(refused([](auto& r) { r.set_trained_tokens(10); }));
  EXPECT_TRUE(refused([](auto& r) { r.set_plan_lead(-2); }));
  EXPECT_TRUE(refused([](auto& r) { r.set_gradient_norm(std::nan("")); }));
}

TEST(StepSummaryTest, HugeNumbersNeitherPassNorOverflow) {
  const v1::StepPlan plan = Plan();
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
  v1::StepReport report = Report(1, 1, 1);
  report.mutable_micro_batches(0)->set_collective_ns(kHuge);
  EXPECT_FALSE(CheckStepReport(plan, report).ok());
  report = Report(1, 1, 1);
  report.set_padded_tokens(kHuge);
  EXPECT_FALSE(CheckStepReport(plan, report).ok());
  StepTotals totals(2, 10);
  StepFigures figures;
  figures.step_ns = kHuge - 1;
  figures.waiting_ns = kHuge - 1;
  totals.Add(figures);
  totals.Add(figures);
  EXPECT_GT(totals.ToProto().step_seconds(), 9e9);
}

StepFigures Figures(int64_t step, int lead) {
  StepFigures figures;
  figures.summary.set_step(step);
  figures.summary.set_plan_lead(lead);
  figures.summary.set_trained_tokens(10);
  figures.step_ns = 100;
  figures.waiting_ns = 50;
  figures.gate_ns = 2;
  figures.tokens = 15;
  figures.padded_tokens = 20;
  return figures;
}

TEST(StepTotalsTest, SharesAreRatiosOfSums) {
  StepTotals totals(2, 10);
  StepFigures slow = Figures(1, 0);
  slow.step_ns = 300;
  slow.gate_ns = 6;
  totals.Add(Figures(0, 0));
  totals.Add(slow);
  const v1::JobTotals sums = totals.ToProto();
  EXPECT_DOUBLE_EQ(sums.step_seconds(), 400e-9);
  EXPECT_DOUBLE_EQ(sums.idle_share(), 100.0 / (2 * 400));
  EXPECT_DOUBLE_EQ(sums.coordination_share(), 8.0 / 400);
  EXPECT_EQ(sums.trained_tokens(), 20);
  EXPECT_DOUBLE_EQ(sums.padding_ratio(), 0.25);
}

TEST(StepTotalsTest, LeadCountsAfterTheFourthStepAndTheLastStepNeedsNone) {
  StepTotals totals(2, 8);
  for (int64_t step = 0; step < 8; ++step) {
    totals.Add(Figures(step, step == 5 || step == 7 ? 0 : 1));
  }
  const v1::JobTotals sums = totals.ToProto();
  EXPECT_EQ(sums.steps_after_fourth(), 4);
  EXPECT_EQ(sums.steps_with_plan_lead(), 3);
}

TEST(StepTotalsTest, NothingDividesByZero) {
  const v1::JobTotals sums = StepTotals(2, 8).ToProto();
  EXPECT_EQ(sums.idle_share(), 0);
  EXPECT_EQ(sums.coordination_share(), 0);
  EXPECT_EQ(sums.padding_ratio(), 0);
}

}  // namespace
}  // namespace evenstep::coordinator
