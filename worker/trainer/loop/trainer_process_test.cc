// The real evenstep-trainer, one process per rank over Gloo, with an agent of a
// few lines in this process.

#include <signal.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "base/testing/temp_folder.h"
#include "data/safetensors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/trainer/job/fault.h"
#include "worker/trainer/job/testing/small_job.h"
#include "worker/trainer/link/failure.h"
#include "worker/trainer/loop/testing/fake_agent.h"

namespace evenstep::trainer {
namespace {

using ::testing::HasSubstr;

class TrainerProcessTest : public testing::Test {
 protected:
  TrainerProcessTest() { WriteDocuments(data_.path()); }

  using SpecChange = std::function<void(jobspec::JobSpec&)>;

  void Start(int world, int64_t steps, const std::string& fault = "",
             const SpecChange& change = {}) {
    spec_ = SmallJob(data_.path(), world);
    spec_.steps = steps;
    if (change) change(spec_);
    agent_ = std::make_unique<FakeAgent>(FakeAgentOptions{
        .trainer_binary =
            std::string(std::getenv("EVENSTEP_BIN_DIR")) + "/evenstep-trainer",
        .folder = folder_.path(),
        .spec = spec_,
        .layout = LongestTogether,
        .fault = fault,
        .emulated_link = emulated_link_});
    agent_->Start();
  }
  std::vector<v1::ToAgent> Messages(
      int rank, const std::function<bool(const v1::ToAgent&)>& wanted) {
    std::vector<v1::ToAgent> found;
    for (const v1::ToAgent& message : agent_->coordinator().messages(rank)) {
      if (wanted(message)) found.push_back(message);
    }
    return found;
  }
  void WaitForSteps(int rank, size_t steps) {
    for (int i = 0; i < 3000; ++i) {
      if (agent_->coordinator().Losses(rank).size() >= steps) return;
      absl::SleepFor(absl::Milliseconds(10));
    }
    FAIL() << "rank " << rank << " did not report " << steps << " steps";
  }
  // What the rank said of why it fails, and of what it leaves.
  v1::Failure FailureOf(int rank) {
    return Await(rank, [](const auto& m) { return m.has_failure(); }).failure();
  }
  v1::Finished Left(int rank) {
    return Await(rank, [](const auto& m) { return m.has_finished(); })
        .finished();
  }
  // The last such message, which may be on its way.
  v1::ToAgent Await(int rank,
                    const std::function<bool(const v1::ToAgent&)>& wanted) {
    for (int i = 0; i < 1000; ++i) {
      const auto said = Messages(rank, wanted);
      if (!said.empty()) return said.back();
      absl::SleepFor(absl::Milliseconds(10));
    }
    ADD_FAILURE() << "rank " << rank << " did not say it";
    return {};
  }
  void SendAbandon(int rank, int weights_rank) {
    v1::ToTrainer message;
    message.mutable_abandon()->set_message("the job fails");
    message.mutable_abandon()->set_weights_rank(weights_rank);
    agent_->Send(rank, message);
  }
  int64_t StepsOf(const std::string& path) {
    const auto weights = data::ReadSafetensors(path);
    EXPECT_TRUE(weights.ok()) << weights.status();
    return weights.ok() ? std::stoll(weights->metadata.at("evenstep.steps"))
                        : -1;
  }
  // The last message: a rank's readers may lag behind its exit.
  v1::ToAgent LastWord(int rank) {
    for (int i = 0; i < 500; ++i) {
      const auto messages = agent_->coordinator().messages(rank);
      if (!messages.empty() &&
          (messages.back().has_failure() || messages.back().has_finished())) {
        return messages.back();
      }
      absl::SleepFor(absl::Milliseconds(10));
    }
    return {};
  }

  TempFolder data_;
  TempFolder folder_;
  std::string emulated_link_;
  jobspec::JobSpec spec_;
  std::unique_ptr<FakeAgent> agent_;
};

TEST_F(TrainerProcessTest, TwoProcessesTrainThreeStepsAndLeaveTheWeights) {
  Start(/*world=*/2, /*steps=*/3);
  EXPECT_EQ(agent_->Wait(0), kExitFinished);
  EXPECT_EQ(agent_->Wait(1), kExitFinished);
  for (int rank = 0; rank < 2; ++rank) {
    const v1::ToAgent last = LastWord(rank);
    EXPECT_EQ(last.finished().steps_done(), 3) << last.ShortDebugString();
    EXPECT_FALSE(last.finished().stopped());
  }
  EXPECT_EQ(LastWord(0).finished().weights_path(),
            folder_.path() + "/model.safetensors");
  EXPECT_TRUE(
      data::ReadSafetensors(folder_.path() + "/model.safetensors").ok());
  EXPECT_EQ(agent_->coordinator().Losses(0).size(), 3u);
  EXPECT_EQ(agent_->coordinator().Losses(0), agent_->coordinator().Losses(1));
  for (const v1::ToAgent& message :
       Messages(1, [](const auto& m) { return m.has_started(); })) {
    EXPECT_EQ(message.started().emulated_link(), "");
  }
  for (const v1::ToAgent& message :
       Messages(1, [](const auto& m) { return m.has_step(); })) {
    EXPECT_GT(message.step().step_ns(), 0);
    EXPECT_GT(message.step().gate_ns(), 0);
    EXPECT_GT(message.step().cpu_ns(), 0);
    EXPECT_GT(message.step().reduction_ns(), 0);
    EXPECT_GE(message.step().micro_batches_size(), 1);
    // Parameters and gradients are held all the time.
    EXPECT_GT(message.step().peak_tensor_bytes(), 100'000);
  }
}

// Everything of the engine that a job's file can ask for, through the agent's
// socket: split optimizer states, half precision, full attention.
TEST_F(TrainerProcessTest, AJobMayAskForSplitStatesPrecisionAndAttention) {
  Start(2, 3, "", [](jobspec::JobSpec& spec) {
    spec.optimizer.sharding = jobspec::OptimizerSharding::kZero1;
    spec.precision = jobspec::Precision::kBFloat16;
    spec.model.attention = jobspec::Attention::kFull;
  });
  EXPECT_EQ(agent_->Wait(0), kExitFinished);
  EXPECT_EQ(agent_->Wait(1), kExitFinished);
  const auto losses = agent_->coordinator().Losses(0);
  ASSERT_EQ(losses.size(), 3u);
  EXPECT_EQ(losses, agent_->coordinator().Losses(1));
  EXPECT_LT(losses[2], losses[0]);
  const auto weights =
      data::ReadSafetensors(folder_.path() + "/model.safetensors");
  ASSERT_TRUE(weights.ok()) << weights.status();
  EXPECT_EQ(weights->tensors.front().dtype, "BF16");
}

// Every rank says so when it starts, and what is measured is the link's.
TEST_F(TrainerProcessTest, AnEmulatedLinkIsSaidAndFelt) {
  emulated_link_ = "inside_latency=2ms,ranks_per_node=2";
  Start(2, 3, "", [](jobspec::JobSpec& spec) { spec.costs.reset(); });
  EXPECT_EQ(agent_->Wait(0), kExitFinished);
  EXPECT_EQ(agent_->Wait(1), kExitFinished);
  for (int rank = 0; rank < 2; ++rank) {
    LastWord(rank);
    const auto started =
        Messages(rank, [](const auto& m) { return m.has_started(); });
    ASSERT_EQ(started.size(), 1u);
    EXPECT_THAT(started[0].started().emulated_link(),
                HasSubstr("EMULATED link: 2 ranks a node; inside 2ms"));
  }
  const auto costs = Messages(0, [](const auto& m) { return m.has_costs(); });
  ASSERT_EQ(costs.size(), 1u);
  EXPECT_GE(costs[0].costs().collective_latency_ns(), 2'000'000);
}

TEST_F(TrainerProcessTest, AnEmulatedLinkThatIsNoneFailsTheStart) {
  emulated_link_ = "inside_latency=often";
  Start(2, 3);
  EXPECT_EQ(agent_->Wait(0), kExitStartFailed);
  EXPECT_EQ(agent_->Wait(1), kExitStartFailed);
  EXPECT_THAT(LastWord(0).failure().message(),
              HasSubstr("EVENSTEP_TRAINER_EMULATED_LINK"));
}

TEST_F(TrainerProcessTest, AnAbandonEndsRanksThatWaitForAHangingPeer) {
  Start(2, 50, "hang:rank=1:step=2");
  WaitForSteps(0, 2);
  v1::ToTrainer message;
  message.mutable_abandon()->set_message("rank 1 hangs");
  const absl::Time sent = absl::Now();
  // One after the other: a rank that leaves breaks its peer's collective.
  agent_->Send(0, message);
  EXPECT_EQ(agent_->Wait(0), kExitAbandoned);
  agent_->Send(1, message);
  EXPECT_EQ(agent_->Wait(1), kExitAbandoned);
  EXPECT_LT(absl::Now() - sent, absl::Seconds(5));
}

TEST_F(TrainerProcessTest, ARankThatDiesFailsItsPeerNotTheAgent) {
  Start(2, 50, "exit:rank=1:step=2");
  EXPECT_EQ(agent_->Wait(1), kExitPlantedFault);
  EXPECT_EQ(agent_->Wait(0), kExitCollectiveFailed);
  EXPECT_EQ(FailureOf(0).reason(), "COLLECTIVE_FAILED");
  EXPECT_EQ(FailureOf(0).step(), 2);
  EXPECT_EQ(Left(0).weights_steps(), 2);
  EXPECT_EQ(StepsOf(folder_.path() + "/model.safetensors"), 2);
}

TEST_F(TrainerProcessTest, ARankThatIsNamedWritesInThePlaceOfADeadRankZero) {
  Start(2, 50, "exit:rank=0:step=2");
  EXPECT_EQ(agent_->Wait(0), kExitPlantedFault);
  EXPECT_EQ(FailureOf(1).reason(), "COLLECTIVE_FAILED");
  SendAbandon(1, /*weights_rank=*/1);
  EXPECT_EQ(agent_->Wait(1), kExitAbandoned);
  EXPECT_EQ(Left(1).weights_path(),
            folder_.path() + "/model.rank-1.safetensors");
  EXPECT_EQ(Left(1).weights_steps(), 2);
  EXPECT_EQ(StepsOf(Left(1).weights_path()), 2);
}

TEST_F(TrainerProcessTest, AnAbandonInTheMiddleOfAStepKeepsTheStepBefore) {
  Start(2, 50, "hang:rank=0:step=3");
  WaitForSteps(1, 3);
  SendAbandon(0, /*weights_rank=*/0);
  SendAbandon(1, /*weights_rank=*/0);
  EXPECT_EQ(agent_->Wait(0), kExitAbandoned);
  EXPECT_EQ(agent_->Wait(1), kExitAbandoned);
  EXPECT_EQ(Left(0).weights_steps(), 3);
  EXPECT_EQ(StepsOf(Left(0).weights_path()), 3);
  EXPECT_FALSE(
      std::filesystem::exists(folder_.path() + "/model.rank-1.safetensors"));
}

TEST_F(TrainerProcessTest, SigtermEndsTheJobWithItsWeights) {
  Start(2, 5000);
  WaitForSteps(1, 2);
  ASSERT_EQ(kill(agent_->pid(1), SIGTERM), 0);
  EXPECT_EQ(FailureOf(1).reason(), "TERMINATED");
  SendAbandon(0, /*weights_rank=*/0);
  SendAbandon(1, /*weights_rank=*/0);
  EXPECT_EQ(agent_->Wait(0), kExitAbandoned);
  EXPECT_EQ(agent_->Wait(1), kExitAbandoned);
  EXPECT_GE(Left(0).weights_steps(), 2);
  EXPECT_EQ(StepsOf(Left(0).weights_path()), Left(0).weights_steps());
}

TEST_F(TrainerProcessTest, ANotFiniteLossFailsBothRanksWithTheSameWords) {
  Start(2, 50, "not_finite:rank=1:step=1");
  EXPECT_EQ(agent_->Wait(0), kExitNotFinite);
  EXPECT_EQ(agent_->Wait(1), kExitNotFinite);
  const v1::Failure failure = LastWord(0).failure();
  EXPECT_EQ(failure.reason(), "NOT_FINITE");
  EXPECT_EQ(failure.step(), 1);
  EXPECT_THAT(failure.message(), HasSubstr(".txt"));
  EXPECT_EQ(failure.message(), LastWord(1).failure().message());
}

TEST_F(TrainerProcessTest, AStopToOneRankStopsBoth) {
  Start(2, 5000);
  WaitForSteps(1, 2);
  v1::ToTrainer message;
  message.mutable_stop();
  agent_->Send(1, message);
  EXPECT_EQ(agent_->Wait(0), kExitFinished);
  EXPECT_EQ(agent_->Wait(1), kExitFinished);
  EXPECT_TRUE(LastWord(0).finished().stopped());
  EXPECT_EQ(LastWord(0).finished().steps_done(),
            LastWord(1).finished().steps_done());
  EXPECT_EQ(LastWord(0).finished().weights_steps(),
            LastWord(0).finished().steps_done());
  EXPECT_EQ(StepsOf(LastWord(0).finished().weights_path()),
            LastWord(0).finished().steps_done());
}

TEST_F(TrainerProcessTest, NoTrainerOutlivesItsAgent) {
  Start(2, 5000);
  WaitForSteps(0, 1);
  agent_->HangUp(0);
  agent_->HangUp(1);
  const absl::Time hung_up = absl::Now();
  // The first to see it breaks the other's collective, which is as good an end.
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_THAT(agent_->Wait(rank),
                testing::AnyOf(kExitAgentGone, kExitCollectiveFailed));
  }
  EXPECT_LT(absl::Now() - hung_up, absl::Seconds(5));
  EXPECT_GE(StepsOf(folder_.path() + "/model.safetensors"), 1);
}

TEST_F(TrainerProcessTest, DataThatIsNotThereIsADataError) {
  std::filesystem::remove_all(data_.path());
  Start(1, 3);
  EXPECT_EQ(agent_->Wait(0), kExitDataError);
  EXPECT_EQ(LastWord(0).failure().reason(), "DATA_ERROR");
}

}  // namespace
}  // namespace evenstep::trainer
