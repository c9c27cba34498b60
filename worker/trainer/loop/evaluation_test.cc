// Evaluation through the whole loop: what it measures, that training does not
// notice it, and how it fails.

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "data/latents/moving_latents.h"
#include "data/safetensors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "planner/planner.h"
#include "worker/trainer/job/engine.h"
#include "worker/trainer/job/evaluation_data.h"
#include "worker/trainer/job/job_data.h"
#include "worker/trainer/link/failure.h"
#include "worker/trainer/loop/evaluator.h"
#include "worker/trainer/loop/testing/threaded_job.h"

namespace evenstep::trainer {
namespace {

using planner::Policy;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Documents that are not those of training.
void WriteHeldOut(const std::string& folder) {
  std::filesystem::create_directories(folder);
  const int lengths[] = {60, 1, 9, 100, 33, 2, 47, 80, 12, 25, 70};
  int document = 0;
  for (const int length : lengths) {
    std::ofstream out(absl::StrCat(folder, "/", document++, ".txt"));
    for (int i = 0; i < length; ++i) out << "a lazy dog sleeps. "[i % 19];
  }
}

// Losses by the step before them, as a rank reports them.
std::map<int64_t, double> Evaluations(ThreadedJob& job, int rank) {
  std::map<int64_t, double> losses;
  for (const v1::ToAgent& message : job.coordinator().messages(rank)) {
    if (!message.has_step() || !message.step().has_evaluation()) continue;
    losses[message.step().step()] = message.step().evaluation().loss();
  }
  return losses;
}

class EvaluationTest : public ::testing::Test {
 protected:
  EvaluationTest() { WriteHeldOut(held_out_); }

  void EvaluateOn(jobspec::JobSpec* spec, int64_t every) const {
    spec->evaluation.source = "text:" + held_out_;
    spec->evaluation.every = every;
  }

  TempFolder folder_;
  const std::string held_out_ = folder_.path() + "/held_out";
};

TEST_F(EvaluationTest, ItComesAfterEverySecondStepAndAfterTheLast) {
  ThreadedJob job(2, DealOut, /*steps=*/5);
  EvaluateOn(&job.spec, /*every=*/2);
  job.Run();
  ASSERT_TRUE(job.rank(0).result.ok()) << job.rank(0).result.status();
  const auto losses = Evaluations(job, 0);
  std::vector<int64_t> steps;
  for (const auto& [step, loss] : losses) steps.push_back(step);
  EXPECT_THAT(steps, ElementsAre(1, 3, 4));
  EXPECT_EQ(losses, Evaluations(job, 1));
  EXPECT_LT(losses.at(4), losses.at(1));
  EXPECT_NEAR(losses.at(1), std::log(257.0), 1);

  std::ifstream csv(job.output() + "/loss.csv");
  std::string line;
  for (int i = 0; i < 3; ++i) std::getline(csv, line);
  EXPECT_THAT(line, HasSubstr(absl::StrFormat(",%.17g", losses.at(1))));
  EXPECT_TRUE(std::filesystem::exists(job.output() + "/loss.json"));
}

TEST_F(EvaluationTest, TrainingIsTheSameToTheLastBitWithItAndWithout) {
  ThreadedJob plain(2, LongestTogether, /*steps=*/6);
  plain.Run();
  ThreadedJob evaluated(2, LongestTogether, /*steps=*/6);
  EvaluateOn(&evaluated.spec, /*every=*/1);
  evaluated.Run();
  ASSERT_TRUE(evaluated.rank(0).result.ok());
  EXPECT_EQ(Evaluations(evaluated, 0).size(), 6u);
  EXPECT_EQ(evaluated.coordinator().Losses(0), plain.coordinator().Losses(0));
  const auto a = data::ReadSafetensors(plain.output() + "/model.safetensors");
  const auto b =
      data::ReadSafetensors(evaluated.output() + "/model.safetensors");
  ASSERT_TRUE(a.ok() && b.ok());
  ASSERT_EQ(a->tensors.size(), b->tensors.size());
  for (size_t i = 0; i < a->tensors.size(); ++i) {
    EXPECT_EQ(a->tensors[i].bytes, b->tensors[i].bytes) << a->tensors[i].name;
  }
}

// The oracle computes the held-out documents' loss as that of a step: all of
// them in one batch, with a rate that moves nothing.
TEST_F(EvaluationTest, TheLossIsTheMeanOverAllHeldOutTokens) {
  ThreadedJob oracle(1, DealOut, /*steps=*/1);
  oracle.spec.precision = jobspec::Precision::kFloat64;
  oracle.spec.data.source = "text:" + held_out_;
  oracle.spec.batch_samples = 11;
  oracle.Run();
  ThreadedJob job(1, DealOut, /*steps=*/1);
  job.spec.precision = jobspec::Precision::kFloat64;
  job.spec.optimizer.lr = 1e-12;
  job.spec.optimizer.weight_decay = 0;
  EvaluateOn(&job.spec, /*every=*/1);
  job.Run();
  ASSERT_TRUE(job.rank(0).result.ok()) << job.rank(0).result.status();
  EXPECT_NEAR(Evaluations(job, 0).at(0), oracle.coordinator().Losses(0).at(0),
              1e-9);
}

std::string NameOf(Policy policy) {
  return absl::StrReplaceAll(planner::PolicyName(policy), {{"-", "_"}});
}

class EvaluationPolicyTest : public EvaluationTest,
                             public ::testing::WithParamInterface<Policy> {};

// A rank of a world above 1 holds 48 tokens, so the longest samples need
// several: degrees differ from policy to policy and from world to world.
TEST_P(EvaluationPolicyTest, TheLossDependsOnNeitherPolicyWorldNorDegree) {
  std::vector<double> losses;
  for (const int world : {1, 2, 4, 8}) {
    ThreadedJob job(world, DealOut, /*steps=*/2);
    job.spec.precision = jobspec::Precision::kFloat64;
    job.spec.policy = world == 1 ? Policy::kStatic : GetParam();
    job.spec.memory.tokens_per_rank = 128 / std::min(world, 4) + 2;
    job.spec.model.heads = job.spec.model.kv_heads = 8;
    job.spec.costs->quadratic_ns_per_token2 = 0.1;
    if (world == 4) {
      job.spec.optimizer.sharding = jobspec::OptimizerSharding::kZero1;
    }
    EvaluateOn(&job.spec, /*every=*/1);
    job.Run();
    ASSERT_TRUE(job.rank(0).result.ok()) << job.rank(0).result.status();
    const auto own = Evaluations(job, world - 1);
    ASSERT_EQ(own.size(), 2u);
    if (losses.empty()) losses = {own.at(0), own.at(1)};
    EXPECT_NEAR(own.at(0), losses[0], 1e-10) << world;
    EXPECT_NEAR(own.at(1), losses[1], 1e-10) << world;
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, EvaluationPolicyTest,
    ::testing::Values(Policy::kStatic, Policy::kBalanced, Policy::kPacked,
                      Policy::kEven, Policy::kBucket, Policy::kBucketTuned,
                      Policy::kDcpInter, Policy::kDcpIntra),
    [](const ::testing::TestParamInfo<Policy>& info) {
      return NameOf(info.param);
    });

TEST_F(EvaluationTest, ContiguousBlocksOpenTheirGroupsBetweenSteps) {
  ThreadedJob alone(1, DealOut, /*steps=*/2);
  EvaluateOn(&alone.spec, 1);
  alone.spec.precision = jobspec::Precision::kFloat64;
  alone.spec.model.heads = alone.spec.model.kv_heads = 6;
  alone.spec.model.width = 48;
  alone.Run();
  ThreadedJob job(3, DealOut, /*steps=*/2);
  EvaluateOn(&job.spec, 1);
  job.spec.precision = jobspec::Precision::kFloat64;
  job.spec.model = alone.spec.model;
  job.spec.blocks = planner::BlockShape::kContiguous;
  job.spec.memory.tokens_per_rank = 60;
  job.spec.costs->quadratic_ns_per_token2 = 1;
  job.Run();
  ASSERT_TRUE(job.rank(0).result.ok()) << job.rank(0).result.status();
  const auto losses = Evaluations(job, 0);
  ASSERT_EQ(losses.size(), 2u);
  EXPECT_NEAR(losses.at(1), Evaluations(alone, 0).at(1), 1e-10);
  // They are not the next step's.
  for (const v1::ToAgent& message : job.coordinator().messages(1)) {
    if (!message.has_step() || message.step().step() == 0) continue;
    EXPECT_EQ(message.step().groups_opened(), 0);
  }
}

TEST_F(EvaluationTest, MeasuredCostsAreRankZerosOnAllRanks) {
  ThreadedJob job(2, OneGroup, /*steps=*/2);
  job.spec.costs.reset();
  EvaluateOn(&job.spec, 1);
  job.Run();
  ASSERT_TRUE(job.rank(1).result.ok()) << job.rank(1).result.status();
  EXPECT_EQ(Evaluations(job, 0).size(), 2u);
  EXPECT_EQ(Evaluations(job, 0), Evaluations(job, 1));
}

TEST_F(EvaluationTest, AShareOfTheDataIsHeldOut) {
  ThreadedJob job(2, DealOut, /*steps=*/2);
  job.spec.evaluation.share = 0.3;
  job.Run();
  ASSERT_TRUE(job.rank(0).result.ok()) << job.rank(0).result.status();
  const evenstep::v1::DataSummary data =
      job.coordinator().messages(0).front().data();
  EXPECT_GT(data.evaluation_samples(), 0);
  EXPECT_EQ(data.num_samples() + data.evaluation_samples(), 12);
  EXPECT_EQ(Evaluations(job, 0).size(), 1u);
}

TEST_F(EvaluationTest, TheContentKeyIsOfBothSources) {
  TrainerSetup setup;
  ThreadedJob job(1, DealOut);
  setup.spec = job.spec;
  const uint64_t alone = OpenJobData(setup, nullptr)->summary.content_key();
  EvaluateOn(&setup.spec, 1);
  const auto before = OpenJobData(setup, nullptr);
  ASSERT_TRUE(before.ok()) << before.status();
  EXPECT_NE(before->summary.content_key(), alone);
  std::ofstream(held_out_ + "/another.txt") << "other words";
  EXPECT_NE(OpenJobData(setup, nullptr)->summary.content_key(),
            before->summary.content_key());
}

TEST_F(EvaluationTest, AtMostTheWantedSamplesAreTakenAndNoneTwice) {
  TrainerSetup setup;
  ThreadedJob job(1, DealOut);
  setup.spec = job.spec;
  EvaluateOn(&setup.spec, 1);
  setup.spec.evaluation.samples = 4;
  const auto data = OpenJobData(setup, nullptr);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->evaluation->samples().size(), 4u);
  // Validated: ids are unique.
  EXPECT_TRUE(
      PlanEvaluation(setup, *setup.spec.costs, data->evaluation->samples())
          .ok());
}

TEST_F(EvaluationTest, DocumentsWithoutALossTakeNoPlaceOfOthers) {
  std::ofstream chat(held_out_ + "/chat.jsonl");
  for (int i = 0; i < 10; ++i) {
    chat << R"({"messages": [{"role": "user", "content": "hm"}]})"
         << "\n";
  }
  chat.close();
  TrainerSetup setup;
  ThreadedJob job(1, DealOut);
  setup.spec = job.spec;
  EvaluateOn(&setup.spec, 1);
  setup.spec.evaluation.samples = 11;
  const auto data = OpenJobData(setup, nullptr);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->evaluation->samples().size(), 11u);
  setup.spec.evaluation.samples = 0;
  EXPECT_EQ(OpenJobData(setup, nullptr)->summary.evaluation_untrained(), 10);
}

TEST_F(EvaluationTest, HeldOutSamplesThatAreLeftOutAreCounted) {
  std::ofstream(held_out_ + "/empty.txt").close();
  TrainerSetup setup;
  ThreadedJob job(1, DealOut);
  setup.spec = job.spec;
  setup.spec.data.on_bad_sample = data::OnBadSample::kSkip;
  setup.spec.data.on_too_long = data::OnTooLong::kSkip;
  setup.spec.data.max_length = 112;  // all that is trained on
  std::ofstream(held_out_ + "/long.txt") << std::string(112, 'a');
  EvaluateOn(&setup.spec, 1);
  const auto skipped = OpenJobData(setup, nullptr);
  ASSERT_TRUE(skipped.ok()) << skipped.status();
  EXPECT_EQ(skipped->summary.evaluation_samples(), 11);
  EXPECT_EQ(skipped->summary.evaluation_bad(), 1);
  EXPECT_EQ(skipped->summary.evaluation_too_long(), 1);
  EXPECT_EQ(skipped->summary.num_bad(), 0);
  setup.spec.data.on_too_long = data::OnTooLong::kTruncate;
  EXPECT_EQ(OpenJobData(setup, nullptr)->summary.evaluation_truncated(), 1);
}

// Takes a held-out file away before `step`, after which all ranks are
// evaluated.
void RunWithout(const std::string& file, int64_t step, ThreadedJob* job) {
  job->rank(0).channel.on_send = [=](const v1::ToAgent& message) {
    if (message.has_step() && message.step().step() == step - 1) {
      std::filesystem::remove(file);
    }
  };
  job->Run();
}

// One rank reads the sample; the others know of it.
void ExpectAllFailed(ThreadedJob& job, int world, int64_t step) {
  int named = 0;
  for (int rank = 0; rank < world; ++rank) {
    const absl::Status status = job.rank(rank).result.status();
    const FailureReason reason = ReasonOf(status);
    if (reason == FailureReason::kDataError) {
      ++named;
      EXPECT_THAT(std::string(status.message()), HasSubstr("3.txt"));
    } else {
      EXPECT_EQ(reason, FailureReason::kPeerFailed) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr("DATA_ERROR"));
    }
    EXPECT_EQ(StepOf(status), step) << status;
  }
  EXPECT_EQ(named, 1);
}

TEST_F(EvaluationTest, AHeldOutFileThatVanishedFailsAllRanksTogether) {
  ThreadedJob job(4, DealOut, /*steps=*/8);
  job.spec.policy = Policy::kBalanced;  // each sample on one rank
  EvaluateOn(&job.spec, /*every=*/1);
  RunWithout(held_out_ + "/3.txt", 2, &job);
  ExpectAllFailed(job, 4, 2);
  // All ranks have made the update that the evaluation was of.
  const auto weights =
      data::ReadSafetensors(job.output() + "/model.safetensors");
  ASSERT_TRUE(weights.ok()) << weights.status();
  EXPECT_EQ(weights->metadata.at("evenstep.steps"), "3");
}

TEST_F(EvaluationTest, AfterTheLastStepItsFailureTakesNothingOfTheTraining) {
  ThreadedJob plain(4, DealOut, /*steps=*/8);
  plain.Run();
  ThreadedJob job(4, DealOut, /*steps=*/8);
  job.spec.policy = Policy::kBalanced;
  EvaluateOn(&job.spec, /*every=*/1);
  RunWithout(held_out_ + "/3.txt", 7, &job);
  ExpectAllFailed(job, 4, 7);
  EXPECT_EQ(job.coordinator().Losses(0), plain.coordinator().Losses(0));
  EXPECT_EQ(Evaluations(job, 0).size(), 7u);
  EXPECT_TRUE(std::filesystem::exists(job.output() + "/loss.json"));
  const auto weights =
      data::ReadSafetensors(job.output() + "/model.safetensors");
  ASSERT_TRUE(weights.ok()) << weights.status();
  EXPECT_EQ(weights->metadata.at("evenstep.steps"), "8");
  const auto last = job.coordinator().messages(0).back();
  EXPECT_EQ(last.finished().weights_path(),
            job.output() + "/model.safetensors");
  EXPECT_EQ(last.finished().steps_done(), 8);
}

TEST_F(EvaluationTest, AStopTakesEffectAtTheGateAfterIt) {
  ThreadedJob job(2, DealOut, /*steps=*/50);
  EvaluateOn(&job.spec, /*every=*/1);
  job.rank(1).channel.stop_after_step = 1;
  job.Run();
  ASSERT_TRUE(job.rank(0).result.ok()) << job.rank(0).result.status();
  EXPECT_TRUE(job.rank(0).result->stopped);
  EXPECT_EQ(Evaluations(job, 0).size(),
            static_cast<size_t>(job.rank(0).result->steps_done));
}

// An engine and an evaluator of each rank; `body` runs on the rank's thread.
void WithEvaluators(
    const jobspec::JobSpec& spec, absl::Duration timeout,
    const std::function<void(int rank, const Evaluator& evaluator,
                             GroupTree& groups)>& body,
    const std::function<void(int64_t)>& set_timeout = [](int64_t) {}) {
  InProcessHub hub(timeout);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < spec.ranks; ++rank) {
    threads.emplace_back([&, rank] {
      TrainerSetup setup;
      setup.spec = spec;
      setup.rank = rank;
      setup.world = spec.ranks;
      const auto factory = hub.MakeFactory();
      const auto groups = BuildGroups(setup, *factory);
      ASSERT_TRUE(groups.ok());
      auto engine = MakeEngine(setup, FaultPlan(), groups->get());
      const auto data = OpenJobData(setup, nullptr);
      ASSERT_TRUE(engine.ok() && data.ok());
      const auto evaluator = Evaluator::Create(
          {&setup, &*data->evaluation, &*engine, set_timeout}, *spec.costs);
      ASSERT_TRUE(evaluator.ok()) << evaluator.status();
      body(rank, *evaluator, **groups);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(EvaluationTest, APeerThatNeverComesEndsItAtTheCollectivesTimeout) {
  ThreadedJob job(2, DealOut);
  EvaluateOn(&job.spec, 1);
  WithEvaluators(job.spec, absl::Milliseconds(300),
                 [](int rank, const Evaluator& evaluator, GroupTree&) {
                   if (rank == 1) return;
                   const absl::Status status = evaluator.Run(0).status();
                   EXPECT_EQ(ReasonOf(status), FailureReason::kCollectiveFailed)
                       << status;
                 });
}

// A rank may wait for a peer that still runs the plan before.
TEST_F(EvaluationTest, OneTimeoutIsForAllPlans) {
  for (int i = 11; i < 40; ++i) {
    std::ofstream(absl::StrCat(held_out_, "/", i, ".txt")) << "a short one";
  }
  ThreadedJob job(1, DealOut);
  EvaluateOn(&job.spec, 1);
  std::vector<int64_t> timeouts_ns;
  int64_t longest_ns = 0;
  WithEvaluators(
      job.spec, absl::Seconds(20),
      [&](int, const Evaluator& evaluator, GroupTree&) {
        ASSERT_GT(evaluator.plans().size(), 1u);
        for (const wire::StepPlan& plan : evaluator.plans()) {
          longest_ns = std::max(longest_ns, plan.predicted_step_ns);
        }
        ASSERT_TRUE(evaluator.Run(0).ok());
      },
      [&](int64_t predicted_ns) { timeouts_ns.push_back(predicted_ns); });
  EXPECT_THAT(timeouts_ns, ElementsAre(longest_ns));
}

TEST_F(EvaluationTest, AnAbandonEndsItAtOnce) {
  ThreadedJob job(2, DealOut);
  EvaluateOn(&job.spec, 1);
  WithEvaluators(job.spec, absl::Seconds(60),
                 [](int rank, const Evaluator& evaluator, GroupTree& groups) {
                   if (rank == 1) return groups.Abort("abandoned: a test");
                   const absl::Status status = evaluator.Run(0).status();
                   EXPECT_EQ(ReasonOf(status), FailureReason::kCollectiveFailed)
                       << status;
                 });
}

class VideoEvaluationTest : public ::testing::Test {
 protected:
  VideoEvaluationTest() {
    data::MovingLatentsOptions options;
    options.clips = 16;
    options.max_frames = 8;
    options.max_side = 8;
    EXPECT_TRUE(data::WriteMovingLatents(folder_.path(), options).ok());
  }

  std::map<int64_t, double> Run(int world, Policy policy, double lr) {
    ThreadedJob job(world, DealOut, /*steps=*/3);
    job.spec.precision = jobspec::Precision::kFloat64;
    job.spec.model.kind = jobspec::ModelKind::kVideo;
    job.spec.model.channels = data::kMovingLatentsChannels;
    job.spec.model.patch = 2;
    job.spec.data.source = "latents:" + folder_.path();
    job.spec.data.max_length = 256;
    job.spec.data.given_frames = 0.5;
    job.spec.evaluation = {.share = 0.4, .source = "", .every = 1};
    job.spec.policy = policy;
    job.spec.optimizer.lr = lr;
    job.spec.optimizer.weight_decay = 0;
    job.spec.memory.tokens_per_rank = world == 1 ? 256 : 96;
    planner::TimeModel costs;
    costs.spatial = {1, 0.1};
    costs.temporal = {1, 0.1};
    job.spec.costs = costs;
    job.Run();
    EXPECT_TRUE(job.rank(0).result.ok()) << job.rank(0).result.status();
    return Evaluations(job, 0);
  }

  TempFolder folder_;
};

TEST_F(VideoEvaluationTest, TheLossDependsOnNeitherPolicyNorWorld) {
  const auto alone = Run(1, Policy::kStatic, 1e-3);
  ASSERT_EQ(alone.size(), 3u);
  for (const Policy policy : {Policy::kStatic, Policy::kEven}) {
    for (const int world : {2, 4}) {
      const auto losses = Run(world, policy, 1e-3);
      ASSERT_EQ(losses.size(), 3u);
      for (const auto& [step, loss] : losses) {
        EXPECT_NEAR(loss, alone.at(step), 1e-10)
            << planner::PolicyName(policy) << " " << world << " " << step;
      }
    }
  }
}

TEST_F(VideoEvaluationTest, NoiseIsTheSameEveryTime) {
  const auto losses = Run(1, Policy::kStatic, 1e-14);
  ASSERT_EQ(losses.size(), 3u);
  EXPECT_NEAR(losses.at(0), losses.at(2), 1e-9);
}

}  // namespace
}  // namespace evenstep::trainer
