// A run that ends before its last step leaves the weights of its last whole
// step, equal to the last bit to those of a run that was to have that many.

#include <ATen/ATen.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "base/output_marker.h"
#include "base/signals.h"
#include "data/safetensors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/trainer/link/failure.h"
#include "worker/trainer/loop/testing/threaded_job.h"
#include "worker/trainer/loop/weights_keeper.h"

namespace evenstep::trainer {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kSteps = 64;

// Float64, and a learning rate that does not depend on the number of steps:
// warm-up all along, by a power of two, so that nothing is rounded.
void SetSteps(int64_t steps, jobspec::JobSpec* spec) {
  spec->precision = jobspec::Precision::kFloat64;
  spec->steps = steps;
  spec->optimizer.warmup = steps;
  spec->optimizer.lr = static_cast<double>(steps) / 4096;
}

struct Case {
  int world = 2;
  jobspec::OptimizerSharding sharding = jobspec::OptimizerSharding::kNone;
};

void Prepare(const Case& of, int64_t steps, ThreadedJob* job) {
  SetSteps(steps, &job->spec);
  job->spec.optimizer.sharding = of.sharding;
}

void ExpectSameWeights(const std::string& path, const std::string& oracle) {
  const auto found = data::ReadSafetensors(path);
  const auto expected = data::ReadSafetensors(oracle);
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_TRUE(expected.ok()) << expected.status();
  ASSERT_EQ(found->tensors.size(), expected->tensors.size());
  for (const data::TensorBytes& tensor : expected->tensors) {
    ASSERT_NE(found->Find(tensor.name), nullptr) << tensor.name;
    EXPECT_EQ(found->Find(tensor.name)->dtype, "F64");
    EXPECT_TRUE(found->Find(tensor.name)->bytes == tensor.bytes)
        << tensor.name << " differs";
  }
}

// `path` holds what a run of `steps` steps leaves that nothing interrupts.
void ExpectWeightsAfter(int64_t steps, const Case& of,
                        const std::string& path) {
  ThreadedJob oracle(of.world, LongestTogether);
  Prepare(of, steps, &oracle);
  oracle.Run();
  ASSERT_TRUE(oracle.rank(0).result.ok()) << oracle.rank(0).result.status();
  ExpectSameWeights(path, oracle.output() + "/model.safetensors");
  const auto file = data::ReadSafetensors(path);
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->metadata.at("evenstep.steps"), absl::StrCat(steps));
  EXPECT_EQ(file->metadata.at("evenstep.job"), "job");
  EXPECT_EQ(file->metadata.at("evenstep.ended_early"), "true");
}

// What rank 0 told its agent of weights before it ended.
v1::Finished Told(ThreadedJob& job) {
  v1::Finished told;
  for (const v1::ToAgent& message : job.coordinator().messages(0)) {
    if (message.has_finished()) told = message.finished();
  }
  return told;
}

class EarlyEndTest : public ::testing::TestWithParam<Case> {};
class LostPeerTest : public EarlyEndTest {};

TEST_P(EarlyEndTest, AStopKeepsTheWeightsOfItsStep) {
  ThreadedJob job(GetParam().world, LongestTogether);
  Prepare(GetParam(), kSteps, &job);
  job.rank(GetParam().world - 1).channel.stop_after_step = 3;
  job.Run();
  ASSERT_TRUE(job.rank(0).result.ok()) << job.rank(0).result.status();
  const TrainResult& result = *job.rank(0).result;
  EXPECT_TRUE(result.stopped);
  ASSERT_TRUE(result.weights.has_value() && result.weights->ok());
  EXPECT_EQ((*result.weights)->steps, result.steps_done);
  ExpectWeightsAfter(result.steps_done, GetParam(), (*result.weights)->path);
  EXPECT_TRUE(std::filesystem::exists(job.output() + "/loss.json"));
  EXPECT_TRUE(std::filesystem::exists(job.output() + "/config.json"));
}

TEST_P(EarlyEndTest, ASampleThatCannotBeReadKeepsTheStepsBeforeIt) {
  ThreadedJob job(GetParam().world, LongestTogether);
  Prepare(GetParam(), kSteps, &job);
  job.faults = {
      {FaultKind::kDataError, /*rank=*/GetParam().world - 1, /*step=*/5}};
  job.Run();
  EXPECT_EQ(ReasonOf(job.rank(GetParam().world - 1).result.status()),
            FailureReason::kDataError);
  EXPECT_TRUE(IsAgreedByAll(job.rank(0).result.status()));
  EXPECT_EQ(Told(job).steps_done(), 5);
  EXPECT_EQ(Told(job).weights_steps(), 5);
  ExpectWeightsAfter(5, GetParam(), Told(job).weights_path());
  EXPECT_TRUE(std::filesystem::exists(job.output() + "/loss.json"));
}

TEST_P(EarlyEndTest, AGradientThatIsNotFiniteKeepsTheStepsBeforeIt) {
  ThreadedJob job(GetParam().world, LongestTogether);
  Prepare(GetParam(), kSteps, &job);
  job.faults = {{FaultKind::kNotFinite, /*rank=*/0, /*step=*/4}};
  job.Run();
  EXPECT_EQ(ReasonOf(job.rank(0).result.status()), FailureReason::kNotFinite);
  EXPECT_EQ(Told(job).weights_steps(), 4);
  ExpectWeightsAfter(4, GetParam(), Told(job).weights_path());
}

// The report of step 3 goes out when step 4 begins: the ranks are in the middle
// of it when they lose each other.
TEST_P(LostPeerTest, RanksThatLoseEachOtherInAStepHoldTheSameSteps) {
  ThreadedJob job(GetParam().world, LongestTogether);
  Prepare(GetParam(), kSteps, &job);
  job.rank(0).channel.on_send = [&](const v1::ToAgent& message) {
    if (!message.has_step() || message.step().step() != 3) return;
    for (int rank = 0; rank < GetParam().world; ++rank) {
      job.rank(rank).abort.Fire("a peer is lost");
    }
  };
  job.Run();
  for (int rank = 0; rank < GetParam().world; ++rank) {
    const absl::Status status = job.rank(rank).result.status();
    EXPECT_EQ(ReasonOf(status), FailureReason::kCollectiveFailed) << status;
    EXPECT_FALSE(IsAgreedByAll(status));
    // Whichever of them is told to.
    const auto kept = job.rank(rank).keeper.Keep();
    ASSERT_TRUE(kept.ok()) << kept.status();
    EXPECT_EQ(kept->path,
              job.output() + (rank == 0 ? "/model.safetensors"
                                        : absl::StrCat("/model.rank-", rank,
                                                       ".safetensors")));
    EXPECT_EQ(kept->steps, 4);
    ExpectWeightsAfter(4, GetParam(), kept->path);
  }
}

// As when a rank is told to abandon: another thread writes while the main one
// is anywhere in a step.
TEST_P(EarlyEndTest, AnotherThreadKeepsAWholeStepAtAnyMoment) {
  for (int delay_us = 0; delay_us < 4000; delay_us += 900) {
    ThreadedJob job(GetParam().world, LongestTogether);
    Prepare(GetParam(), kSteps, &job);
    absl::Notification running;
    job.rank(0).channel.on_send = [&](const v1::ToAgent& message) {
      if (message.has_step() && message.step().step() == 2) running.Notify();
    };
    absl::StatusOr<KeptWeights> kept = absl::UnknownError("not tried");
    std::thread agent([&] {
      running.WaitForNotification();
      absl::SleepFor(absl::Microseconds(delay_us));
      kept = job.rank(0).keeper.Keep();
      for (int rank = 0; rank < GetParam().world; ++rank) {
        job.rank(rank).abort.Fire("abandoned");
      }
    });
    job.Run();
    agent.join();
    ASSERT_TRUE(kept.ok()) << kept.status();
    EXPECT_FALSE(job.rank(0).result.ok());
    ExpectWeightsAfter(kept->steps, GetParam(), kept->path);
  }
}

std::string NameOf(const ::testing::TestParamInfo<Case>& info) {
  return absl::StrCat(
      "Of", info.param.world,
      info.param.sharding == jobspec::OptimizerSharding::kZero1 ? "Split" : "");
}

constexpr Case kSplit = {2, jobspec::OptimizerSharding::kZero1};

INSTANTIATE_TEST_SUITE_P(Worlds, EarlyEndTest,
                         ::testing::Values(Case{1}, Case{2}, kSplit), NameOf);
INSTANTIATE_TEST_SUITE_P(Worlds, LostPeerTest,
                         ::testing::Values(Case{2}, kSplit), NameOf);

TEST(EarlyEndWithoutAStepTest, NothingIsWrittenAndTheReasonIsSaid) {
  ThreadedJob job(2, LongestTogether);
  job.faults = {{FaultKind::kDataError, /*rank=*/1, /*step=*/0}};
  job.Run();
  EXPECT_EQ(Told(job).weights_path(), "");
  EXPECT_EQ(Told(job).weights_note(), "no step was done");
  EXPECT_FALSE(std::filesystem::exists(job.output() + "/model.safetensors"));
}

// No file of this process may be larger than these bytes, as on a full disk;
// the model has more.
class FileSizeLimit {
 public:
  FileSizeLimit() {
    IgnoreWriteSignals();
    getrlimit(RLIMIT_FSIZE, &before_);
  }
  ~FileSizeLimit() { setrlimit(RLIMIT_FSIZE, &before_); }
  void Set() {
    const rlimit small = {kBytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
  }

 private:
  static constexpr rlim_t kBytes = 16 << 10;
  rlimit before_ = {};
};

TEST(NoRoomTest, AJobThatHasNoRoomForItsWeightsDoesNotBegin) {
  FileSizeLimit limit;
  ThreadedJob job(1, LongestTogether);
  limit.Set();
  job.Run();
  const absl::Status status = job.rank(0).result.status();
  EXPECT_EQ(ReasonOf(status), FailureReason::kStorageFull) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(job.output() + " has room for 16384"));
  for (const v1::ToAgent& message : job.coordinator().messages(0)) {
    EXPECT_FALSE(message.has_step());
  }
}

TEST(NoRoomTest, ADiskThatFillsUpMeanwhileIsSaid) {
  FileSizeLimit limit;
  ThreadedJob job(1, LongestTogether);
  job.rank(0).channel.on_send = [&](const v1::ToAgent& message) {
    if (message.has_step() && message.step().step() == 2) limit.Set();
  };
  job.Run();
  const absl::Status status = job.rank(0).result.status();
  EXPECT_EQ(ReasonOf(status), FailureReason::kStorageFull) << status;
  EXPECT_EQ(StepOf(status), job.spec.steps - 1);
  EXPECT_THAT(std::string(status.message()), HasSubstr("File too large"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("; nor elsewhere: "));
}

class WeightsKeeperTest : public ::testing::Test {
 protected:
  WeightsKeeperTest() { BeginIn(folder_.path()); }
  void BeginIn(const std::string& output_dir) {
    TrainerSetup setup;
    setup.spec = SmallJob(folder_.path(), 1);
    setup.job_id = "job";
    setup.output_dir = output_dir;
    keeper_.Begin(setup, {{"w", value_}}, nullptr);
  }
  // As an update that sets all elements.
  absl::Status Set(double value, WeightsKeeper::Parameters after) {
    return keeper_.Change([&] {
      value_.fill_(value);
      return after;
    });
  }
  double Written() const {
    const auto file =
        data::ReadSafetensors(folder_.path() + "/model.safetensors");
    if (!file.ok()) return -1;
    return *reinterpret_cast<const double*>(file->Find("w")->bytes.data());
  }

  TempFolder folder_;
  at::Tensor value_ = at::zeros({3}, at::kDouble);
  WeightsKeeper keeper_;
};

TEST_F(WeightsKeeperTest, ParametersOfTwoStepsAreNotWritten) {
  ASSERT_TRUE(Set(1, {.steps = 1, .whole = true}).ok());
  ASSERT_TRUE(Set(2, {.steps = 1, .whole = false}).ok());
  const auto kept = keeper_.Keep();
  EXPECT_TRUE(absl::IsFailedPrecondition(kept.status())) << kept.status();
  EXPECT_THAT(std::string(kept.status().message()),
              HasSubstr("rank 0 was in the middle of the update of step 1"));
  EXPECT_FALSE(std::filesystem::exists(folder_.path() + "/model.safetensors"));
}

TEST_F(WeightsKeeperTest, AFolderThatIsGoneIsMadeAgain) {
  ASSERT_TRUE(Set(1, {.steps = 1, .whole = true}).ok());
  std::filesystem::remove_all(folder_.path());
  const auto kept = keeper_.Keep();
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_EQ(kept->note, "");
  EXPECT_EQ(Written(), 1);
}

TEST_F(WeightsKeeperTest, WhatItsFolderDoesNotTakeGoesToTmpdir) {
  const TempFolder other;
  setenv("TMPDIR", other.path().c_str(), 1);
  const std::string file = folder_.path() + "/file";
  std::ofstream(file) << "no folder";
  BeginIn(file + "/out");
  ASSERT_TRUE(Set(1, {.steps = 1, .whole = true}).ok());
  const auto kept = keeper_.Keep();
  unsetenv("TMPDIR");
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_THAT(kept->path, HasSubstr(other.path() + "/evenstep-weights-job-"));
  EXPECT_TRUE(data::ReadSafetensors(kept->path).ok());
  const auto folder = std::filesystem::path(kept->path).parent_path();
  EXPECT_TRUE(std::filesystem::exists(folder / "config.json"));
  EXPECT_TRUE(ReadOutputMarks(folder).all);
  v1::Finished told;
  FillWeights(kept, &told);
  EXPECT_EQ(told.weights_path(), kept->path);
  EXPECT_THAT(told.weights_note(), HasSubstr("Not a directory"));
  EXPECT_THAT(told.weights_note(), HasSubstr(folder.string()));
}

TEST_F(WeightsKeeperTest, NothingChangesOnceTheWeightsAreWritten) {
  ASSERT_TRUE(Set(1, {.steps = 1, .whole = true}).ok());
  ASSERT_TRUE(keeper_.Keep().ok());
  EXPECT_TRUE(absl::IsAborted(Set(2, {.steps = 2, .whole = true})));
  EXPECT_EQ(value_[0].item<double>(), 1);
  const auto again = keeper_.Keep();
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->steps, 1);
  EXPECT_EQ(Written(), 1);
}

// A coordinator that crashed has its job start again from the beginning.
TEST_F(WeightsKeeperTest, WeightsOfMoreStepsAreNotReplaced) {
  const auto keep = [&](int64_t steps) {
    TrainerSetup setup;
    setup.spec = SmallJob(folder_.path(), 1);
    setup.output_dir = folder_.path();
    WeightsKeeper keeper;
    keeper.Begin(setup, {{"w", at::full({3}, steps, at::kDouble)}}, nullptr);
    EXPECT_TRUE(
        keeper.Change([&] {
                return WeightsKeeper::Parameters{steps, true};
              })
            .ok());
    EXPECT_TRUE(keeper.Keep().ok());
  };
  const auto longer = folder_.path() + "/model.after-100-steps.safetensors";
  keep(50);
  keep(100);
  EXPECT_EQ(Written(), 100) << "of fewer steps: replaced";
  EXPECT_FALSE(std::filesystem::exists(longer));
  keep(3);
  EXPECT_EQ(Written(), 3);
  const auto kept = data::ReadSafetensors(longer);
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_EQ(kept->metadata.at("evenstep.steps"), "100");
}

TEST_F(WeightsKeeperTest, TheWriterWaitsForAnUpdateThatRuns) {
  absl::Notification updating;
  std::atomic<bool> updated = false;
  std::thread writer([&] {
    updating.WaitForNotification();
    EXPECT_TRUE(keeper_.Keep().ok());
    EXPECT_TRUE(updated);
  });
  ASSERT_TRUE(keeper_
                  .Change([&] {
                    updating.Notify();
                    absl::SleepFor(absl::Milliseconds(20));
                    value_.fill_(7);
                    updated = true;
                    return WeightsKeeper::Parameters{1, true};
                  })
                  .ok());
  writer.join();
  EXPECT_EQ(Written(), 7);
}

}  // namespace
}  // namespace evenstep::trainer
