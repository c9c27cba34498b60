#include "worker/trainer/loop/train.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "data/safetensors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/trainer/link/failure.h"
#include "worker/trainer/loop/testing/threaded_job.h"
#include "worker/trainer/optim/adamw.h"

namespace evenstep::trainer {
namespace {

using ::testing::HasSubstr;

// Two layouts of the same samples differ by rounding of float32 only.
constexpr double kLossTolerance = 2e-5;

void ExpectSameCurve(const std::vector<double>& a, const std::vector<double>& b,
                     size_t steps) {
  ASSERT_EQ(a.size(), steps);
  ASSERT_EQ(b.size(), steps);
  for (size_t i = 0; i < steps; ++i) {
    EXPECT_NEAR(a[i], b[i], kLossTolerance) << "step " << i;
  }
}

TEST(TrainTest, TheModelLearnsAndEveryRankReportsTheSameLoss) {
  ThreadedJob job(2, DealOut, /*steps=*/20);
  job.Run();
  for (int rank = 0; rank < 2; ++rank) {
    ASSERT_TRUE(job.rank(rank).result.ok()) << job.rank(rank).result.status();
    EXPECT_EQ(job.rank(rank).result->steps_done, 20);
    EXPECT_FALSE(job.rank(rank).result->stopped);
  }
  const std::vector<double> losses = job.coordinator().Losses(0);
  EXPECT_EQ(losses, job.coordinator().Losses(1));
  ASSERT_EQ(losses.size(), 20u);
  EXPECT_NEAR(losses[0], std::log(257.0), 0.5);
  EXPECT_LT(losses.back(), 0.8 * losses[0]);
}

TEST(TrainTest, AStopWhileTheDataIsIndexedEndsTheRank) {
  ThreadedJob job(1, DealOut);
  job.rank(0).channel.stop = true;
  job.Run();
  ASSERT_TRUE(job.rank(0).result.ok()) << job.rank(0).result.status();
  EXPECT_TRUE(job.rank(0).result->stopped);
  for (const v1::ToAgent& message : job.coordinator().messages(0)) {
    EXPECT_FALSE(message.has_data()) << "it went on to the end";
  }
}

TEST(TrainTest, TheCurveDoesNotDependOnWhereSamplesRun) {
  ThreadedJob alone(1, DealOut);
  alone.Run();
  const std::vector<double> oracle = alone.coordinator().Losses(0);
  for (const auto& layout : {DealOut, OneGroup, LongestTogether}) {
    ThreadedJob job(2, layout);
    job.Run();
    ASSERT_TRUE(job.rank(0).result.ok()) << job.rank(0).result.status();
    ExpectSameCurve(job.coordinator().Losses(0), oracle, 8);
  }
}

TEST(TrainTest, SplitOptimizerStatesDoNotChangeTheCurve) {
  ThreadedJob alone(1, DealOut);
  alone.spec.precision = jobspec::Precision::kFloat64;
  alone.Run();
  ThreadedJob split(4, LongestTogether);
  split.spec.precision = jobspec::Precision::kFloat64;
  split.spec.optimizer.sharding = jobspec::OptimizerSharding::kZero1;
  split.Run();
  ASSERT_TRUE(split.rank(0).result.ok()) << split.rank(0).result.status();
  const std::vector<double> losses = split.coordinator().Losses(0);
  const std::vector<double> oracle = alone.coordinator().Losses(0);
  ASSERT_EQ(losses.size(), oracle.size());
  for (size_t i = 0; i < losses.size(); ++i) {
    EXPECT_NEAR(losses[i], oracle[i], 1e-10) << "step " << i;
  }
}

// Once per step on every rank, though rank 0 accumulates two
// micro-batches and the others one.
TEST(TrainTest, TheLearningRateMovesOncePerStepOnEveryRank) {
  ThreadedJob job(2, LongestTogether);
  job.spec.optimizer.warmup = 3;
  job.Run();
  const Schedule schedule{.peak = 1e-2, .warmup_steps = 3, .total_steps = 8};
  for (int rank = 0; rank < 2; ++rank) {
    int64_t step = 0;
    for (const v1::ToAgent& message : job.coordinator().messages(rank)) {
      if (!message.has_step()) continue;
      EXPECT_EQ(message.step().learning_rate(), LearningRate(schedule, step));
      EXPECT_EQ(message.step().micro_batches_size(), rank == 0 ? 2 : 1);
      ++step;
    }
    EXPECT_EQ(step, 8);
  }
}

TEST(TrainTest, FourRanksAgreeWithOne) {
  ThreadedJob alone(1, OneGroup, /*steps=*/3);
  alone.Run();
  ThreadedJob job(4, LongestTogether, /*steps=*/3);
  job.Run();
  ExpectSameCurve(job.coordinator().Losses(3), alone.coordinator().Losses(0),
                  3);
}

// Blocks of two ranks that are not aligned, on a world of three.
std::vector<wire::PlannedMicroBatch> Contiguous(
    const std::vector<ReportedSample>& samples, int world) {
  std::vector<wire::PlannedMicroBatch> plan = DealOut(samples, world);
  for (size_t i = 0; i < plan.size(); ++i) {
    plan[i].first_rank = static_cast<int>(i % 3) == 2 ? 2 : 1 - i % 2;
    plan[i].degree = plan[i].first_rank == 2 ? 1 : 2;
  }
  return plan;
}

TEST(TrainTest, ContiguousBlocksAreOpenedBetweenStepsAndChangeNothing) {
  ThreadedJob alone(1, DealOut, /*steps=*/3);
  alone.Run();
  ThreadedJob job(3, Contiguous, /*steps=*/3);
  job.Run();
  ASSERT_TRUE(job.rank(0).result.ok()) << job.rank(0).result.status();
  ExpectSameCurve(job.coordinator().Losses(0), alone.coordinator().Losses(0),
                  3);
}

// Ranks 1 and 2 open their pair in the gate before step 0, and keep it.
TEST(TrainTest, ReportsSayWhichGroupsWereOpenedForTheStep) {
  ThreadedJob job(3, Contiguous, /*steps=*/3);
  job.Run();
  for (int rank = 0; rank < 3; ++rank) {
    // Aligned: {0, 1} for ranks 0 and 1, and the world.
    const int first = rank == 0 ? 2 : rank == 1 ? 3 : 2;
    for (const v1::ToAgent& message : job.coordinator().messages(rank)) {
      if (!message.has_step()) continue;
      const evenstep::v1::StepReport& report = message.step();
      EXPECT_EQ(report.groups_live(), first) << rank;
      EXPECT_EQ(report.groups_opened(), report.step() == 0 ? first : 0);
      EXPECT_EQ(report.group_opening_ns() > 0, report.step() == 0);
    }
  }
}

TEST(TrainTest, APlanOfMoreGroupsThanTheBudgetFailsAllRanksAtTheGate) {
  ThreadedJob job(3, Contiguous, /*steps=*/3);
  job.spec.groups_per_rank = 2;
  job.Run();
  for (int rank = 0; rank < 3; ++rank) {
    const absl::Status status = job.rank(rank).result.status();
    EXPECT_EQ(ReasonOf(status), FailureReason::kPlanMismatch) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("rank 1 needs 1 groups beside the 2 of its tree"));
    EXPECT_EQ(job.coordinator().Losses(rank).size(), 0u);
  }
}

TEST(TrainTest, RankZeroLeavesWeightsAndTheWholeCurve) {
  ThreadedJob job(2, OneGroup);
  job.Run();
  ASSERT_TRUE(job.rank(0).result.ok()) << job.rank(0).result.status();
  ASSERT_TRUE(job.rank(0).result->weights.has_value());
  EXPECT_EQ((*job.rank(0).result->weights)->path,
            job.output() + "/model.safetensors");
  EXPECT_FALSE(job.rank(1).result->weights.has_value());

  const auto weights =
      data::ReadSafetensors(job.output() + "/model.safetensors");
  ASSERT_TRUE(weights.ok()) << weights.status();
  EXPECT_EQ(weights->metadata.at("evenstep.steps"), "8");
  EXPECT_EQ(weights->metadata.at("evenstep.ended_early"), "false");
  EXPECT_EQ(weights->metadata.at("evenstep.model.width"), "32");
  EXPECT_GT(weights->tensors.size(), 10u);

  std::ifstream csv(job.output() + "/loss.csv");
  std::string line;
  std::getline(csv, line);
  EXPECT_THAT(line, HasSubstr("step,loss,"));
  const std::vector<double> losses = job.coordinator().Losses(0);
  for (int step = 0; step < 8; ++step) {
    ASSERT_TRUE(std::getline(csv, line)) << step;
    EXPECT_THAT(line, HasSubstr(absl::StrCat(step, ",")));
    EXPECT_EQ(std::stod(line.substr(line.find(',') + 1)), losses[step]);
  }
  EXPECT_FALSE(std::getline(csv, line));
}

TEST(TrainTest, AJobBeginsWithTheWeightsThatAnotherHasLeft) {
  ThreadedJob first(2, DealOut);
  first.spec.precision = jobspec::Precision::kFloat64;
  first.Run();
  ASSERT_TRUE(first.rank(0).result.ok()) << first.rank(0).result.status();
  // Both ranks' data is the first job's; a rate that moves nothing.
  const auto after = [&](const std::string& weights) {
    ThreadedJob job(2, DealOut, /*steps=*/1);
    job.spec.precision = jobspec::Precision::kFloat64;
    job.spec.model.weights = weights;
    job.spec.optimizer.lr = 1e-14;
    job.Run();
    EXPECT_TRUE(job.rank(0).result.ok()) << job.rank(0).result.status();
    const auto written =
        data::ReadSafetensors(job.output() + "/model.safetensors");
    EXPECT_EQ(written->metadata.count("evenstep.model.weights"),
              weights.empty() ? 0u : 1u);
    return job.coordinator().Losses(0).at(0);
  };
  const double untrained = after("");
  const double trained = after(first.output());
  EXPECT_LT(trained, 0.95 * untrained);
  EXPECT_EQ(after(first.output() + "/model.safetensors"), trained);
}

TEST(TrainTest, WeightsThatDifferBetweenRanksFailThemAllBeforeTheFirstStep) {
  ThreadedJob one(1, DealOut, /*steps=*/1);
  one.Run();
  ThreadedJob other(1, DealOut, /*steps=*/2);
  other.Run();
  ThreadedJob job(2, DealOut);
  job.tamper_spec = [&](int rank, jobspec::JobSpec* spec) {
    spec->model.weights = rank == 0 ? one.output() : other.output();
  };
  job.Run();
  for (int rank = 0; rank < 2; ++rank) {
    const absl::Status status = job.rank(rank).result.status();
    EXPECT_EQ(ReasonOf(status), FailureReason::kStartFailed) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("are not the same on all ranks"));
    EXPECT_TRUE(job.coordinator().Losses(rank).empty());
  }
}

TEST(TrainTest, WeightsOfAnotherShapeAreNamedWithBothShapes) {
  ThreadedJob one(1, DealOut, /*steps=*/1);
  one.Run();
  ThreadedJob job(1, DealOut);
  job.spec.model.weights = one.output();
  job.spec.model.mlp_width = 64;
  job.Run();
  const absl::Status status = job.rank(0).result.status();
  EXPECT_EQ(ReasonOf(status), FailureReason::kStartFailed) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("'model.layers.0.mlp.gate_proj.weight' has shape "
                        "[96, 32], the model's has [64, 32]"));
}

TEST(TrainTest, MessagesComeInTheOrderThatTheAgentExpects) {
  ThreadedJob job(1, DealOut, /*steps=*/4);
  job.Run();
  std::string order;
  for (const v1::ToAgent& message : job.coordinator().messages(0)) {
    order += message.has_data()              ? 'd'
             : message.has_lengths()         ? 'l'
             : message.has_started()         ? 'S'
             : message.has_step()            ? 's'
             : message.has_writing_weights() ? 'w'
                                             : '?';
  }
  // Look-ahead 2: lengths of two steps, then of step k + 2 before gate k; a
  // step is reported once the next gate is passed. The weights come last.
  EXPECT_EQ(order, "dlllSlssssw");
}

TEST(TrainTest, MeasuredCostsAreSentOnceByRankZeroAndChangeNoParameter) {
  ThreadedJob given(2, OneGroup);
  given.Run();
  ThreadedJob measured(2, OneGroup);
  measured.spec.costs.reset();
  measured.Run();
  ASSERT_TRUE(measured.rank(0).result.ok()) << measured.rank(0).result.status();
  EXPECT_EQ(measured.coordinator().Losses(0), given.coordinator().Losses(0));

  int num_costs[2] = {0, 0};
  for (int rank = 0; rank < 2; ++rank) {
    for (const v1::ToAgent& message : measured.coordinator().messages(rank)) {
      if (!message.has_costs()) continue;
      ++num_costs[rank];
      const evenstep::v1::CostModel& costs = message.costs();
      EXPECT_GT(costs.linear_ns_per_token() + costs.quadratic_ns_per_token2(),
                0);
      EXPECT_GE(costs.micro_batch_fixed_ns(), 0);
      EXPECT_GT(costs.step_fixed_ns(), 0);
      ASSERT_EQ(costs.collective_size(), 1);
      EXPECT_EQ(costs.collective(0).degree(), 2);
    }
  }
  EXPECT_EQ(num_costs[0], 1);
  EXPECT_EQ(num_costs[1], 0);
}

TEST(TrainTest, AStopThatReachesOneRankEndsAllAfterTheSameStep) {
  ThreadedJob job(2, DealOut, /*steps=*/50);
  job.rank(1).channel.stop_after_step = 3;
  job.Run();
  for (int rank = 0; rank < 2; ++rank) {
    ASSERT_TRUE(job.rank(rank).result.ok()) << job.rank(rank).result.status();
    EXPECT_TRUE(job.rank(rank).result->stopped);
    EXPECT_EQ(job.rank(rank).result->steps_done, 5);
    EXPECT_EQ(job.coordinator().Losses(rank).size(), 5u);
  }
}

TEST(TrainTest, ANotFiniteLossOnOneRankFailsAllWithTheSameSuspects) {
  ThreadedJob job(2, DealOut);
  job.faults = {{FaultKind::kNotFinite, /*rank=*/1, /*step=*/3}};
  job.Run();
  for (int rank = 0; rank < 2; ++rank) {
    const absl::Status status = job.rank(rank).result.status();
    EXPECT_EQ(ReasonOf(status), FailureReason::kNotFinite) << status;
    EXPECT_EQ(StepOf(status), 3);
    EXPECT_EQ(status.message(), job.rank(0).result.status().message());
    // The samples of step 3 are 15 to 19; rank 1 has the second and the fourth.
    EXPECT_THAT(std::string(status.message()), HasSubstr("sample 16 ("));
    EXPECT_THAT(std::string(status.message()), HasSubstr("sample 18 ("));
    EXPECT_THAT(std::string(status.message()),
                testing::Not(HasSubstr("sample 15 (")));
    EXPECT_EQ(job.coordinator().Losses(rank).size(), 3u);
  }
}

// The longest sample runs on both ranks, the others on rank 0, whose gradient
// the bad loss of rank 1 spoils as well.
TEST(TrainTest, ABadLossInASharedMicroBatchIsNotBlamedOnThePeersOtherSamples) {
  ThreadedJob job(2, LongestTogether);
  job.faults = {{FaultKind::kNotFinite, /*rank=*/1, /*step=*/3}};
  job.Run();
  for (int rank = 0; rank < 2; ++rank) {
    const std::string message(job.rank(rank).result.status().message());
    EXPECT_THAT(message,
                testing::ContainsRegex("suspects: sample [0-9]+ \\([^,]*\\)$"));
  }
}

TEST(TrainTest, AFileThatCannotBeSyncedDoesNotCostTheWeights) {
  ThreadedJob job(1, OneGroup, /*steps=*/2);
  std::filesystem::create_symlink("/dev/null", job.output() + "/loss.csv");
  job.Run();
  ASSERT_TRUE(job.rank(0).result.ok()) << job.rank(0).result.status();
  EXPECT_TRUE(data::ReadSafetensors(job.output() + "/model.safetensors").ok());
}

TEST(TrainTest, WeightsThatCannotBeWrittenFailTheJobWithTheirPath) {
  ThreadedJob job(1, OneGroup, /*steps=*/2);
  std::filesystem::create_directories(job.output() + "/model.safetensors/x");
  setenv("TMPDIR", (job.output() + "/none").c_str(), /*overwrite=*/1);
  job.Run();
  unsetenv("TMPDIR");
  const absl::Status status = job.rank(0).result.status();
  EXPECT_EQ(ReasonOf(status), FailureReason::kInternal) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(job.output() + "/model.safetensors"));
}

// Steps 0 and 1 are done, step 2 fails: one rank says why, the other that it is
// another's fault.
void ExpectFailureOfOne(ThreadedJob& job, int culprit, FailureReason reason) {
  for (int rank = 0; rank < 2; ++rank) {
    const absl::Status status = job.rank(rank).result.status();
    EXPECT_EQ(ReasonOf(status),
              rank == culprit ? reason : FailureReason::kPeerFailed)
        << status;
    EXPECT_EQ(StepOf(status), 2);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(rank == culprit ? "samples cannot be read"
                                          : "another rank cannot run step 2"));
    EXPECT_EQ(job.coordinator().Losses(rank).size(), 2u);
  }
}

TEST(TrainTest, ASampleThatOneRankCannotReadFailsAllAtTheGate) {
  ThreadedJob job(2, DealOut);
  job.faults = {{FaultKind::kDataError, /*rank=*/0, /*step=*/2}};
  job.Run();
  ExpectFailureOfOne(job, /*culprit=*/0, FailureReason::kDataError);
}

TEST(TrainTest, APlanThatOneRankRefusesFailsAllAtTheGate) {
  ThreadedJob job(2, DealOut);
  job.tamper = [](int rank, wire::StepPlan* plan) {
    if (rank == 1 && plan->step == 3) plan->world = 5;
  };
  job.Run();
  const absl::Status status = job.rank(1).result.status();
  EXPECT_EQ(ReasonOf(status), FailureReason::kPlanMismatch) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("plan of step 3 is for 5 ranks, the job has 2"));
  EXPECT_EQ(ReasonOf(job.rank(0).result.status()), FailureReason::kPeerFailed);
}

TEST(TrainTest, DifferentPlansFailAllRanksBeforeTheStep) {
  ThreadedJob job(2, DealOut);
  job.tamper = [](int rank, wire::StepPlan* plan) {
    if (rank != 1 || plan->step != 2) return;
    std::swap(plan->micro_batches[0].first_rank,
              plan->micro_batches[1].first_rank);
  };
  job.Run();
  for (int rank = 0; rank < 2; ++rank) {
    const absl::Status status = job.rank(rank).result.status();
    EXPECT_EQ(ReasonOf(status), FailureReason::kPlanMismatch) << status;
    EXPECT_EQ(job.coordinator().Losses(rank).size(), 2u);
  }
}

TEST(TrainTest, APlanOfOtherSamplesNeverRuns) {
  ThreadedJob job(1, DealOut);
  job.tamper = [](int, wire::StepPlan* plan) {
    if (plan->step == 1) plan->micro_batches[0].sample_ids[0] = 400;
  };
  job.Run();
  const absl::Status status = job.rank(0).result.status();
  EXPECT_EQ(ReasonOf(status), FailureReason::kPlanMismatch) << status;
  EXPECT_EQ(StepOf(status), 1);
}

TEST(TrainTest, AnAbortEndsRanksThatWaitForEachOther) {
  ThreadedJob job(2, DealOut);
  // Rank 1 never gets the plan of step 4, so both ask the gate again and again.
  job.spec.steps = 6;
  job.tamper = [](int rank, wire::StepPlan* plan) {
    if (rank == 1 && plan->step == 4) plan->step = 1000;
  };
  std::thread breaker([&job] {
    const absl::Time deadline = absl::Now() + absl::Seconds(20);
    while (std::min(job.coordinator().Losses(0).size(),
                    job.coordinator().Losses(1).size()) < 3 &&
           absl::Now() < deadline) {
      absl::SleepFor(absl::Milliseconds(1));
    }
    for (int rank = 0; rank < 2; ++rank) job.rank(rank).abort.Fire("told to");
  });
  job.Run();
  breaker.join();
  for (int rank = 0; rank < 2; ++rank) {
    const absl::Status status = job.rank(rank).result.status();
    EXPECT_EQ(ReasonOf(status), FailureReason::kCollectiveFailed) << status;
    EXPECT_EQ(job.coordinator().Losses(rank).size(), 3u);
  }
}

}  // namespace
}  // namespace evenstep::trainer
