// Whole steps over NCCL's state machine, with the fake: prompt, slow, with an
// error that comes later, with a kernel that never ends, and with an abort that
// hangs.

#include <ATen/Parallel.h>
#include <ATen/ops/equal.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "base/status_macros.h"
#include "worker/trainer/comm/nccl_communicator.h"
#include "worker/trainer/comm/testing/fake_nccl.h"
#include "worker/trainer/optim/adamw.h"
#include "worker/trainer/testing/expect_parity.h"

namespace evenstep::trainer {
namespace {

using ::testing::Contains;
using testing::ExpectParity;
using testing::FakeNccl;
using ::testing::HasSubstr;
using testing::NcclFaults;
using testing::OneStep;
using testing::ParityOptions;
using testing::RandomSample;
using testing::RunRanks;
using testing::SmallConfig;

constexpr int kWorld = 2;
// Set-up warms every group with two operations.
constexpr int kFirstOperation = 2;
// Exchanges of one layer in a step's forward pass: Q, K and V in one, and the
// output.
constexpr int kPerLayer = 2;

class NcclStepTest : public ::testing::Test {
 protected:
  // For the rank whose faults they are; ranks are made in any order.
  std::unique_ptr<CommunicatorFactory> MakeFactory(NcclFaults* faults) {
    NcclOptions options;
    options.timeout = absl::Seconds(20);
    options.abort_grace = abort_grace_;
    options.end_process = [this](absl::string_view why) {
      absl::MutexLock lock(&mutex_);
      ends_.push_back(std::string(why));
      // In a trainer this is the end; here the test goes on.
      if (ends_.size() == 1) nccl_.Release();
    };
    absl::MutexLock lock(&mutex_);
    tables_.push_back(nccl_.MakeTable(faults));
    return MakeNcclFactory(options, tables_.back().get(), &store_);
  }

  // Parity of plans of every kind, on ranks that all have `faults_[0]`.
  ParityOptions OverNccl(std::vector<testing::TestMicroBatch> micro_batches) {
    ParityOptions options = OneStep(4, std::move(micro_batches));
    options.sharding = Sharding::kZero1;
    options.wrap_factory = [this](std::unique_ptr<CommunicatorFactory>) {
      return MakeFactory(&faults_[0]);
    };
    return options;
  }

  // One step of a pair, a document over both ranks; rank r has faults_[r].
  // After an error a rank leaves its groups, as a trainer does. Statuses by
  // rank, of the step or of the update.
  std::vector<absl::Status> RunPair() {
    ++generation_;
    return RunRanks(kWorld, [this](int rank) -> absl::Status {
      at::set_num_threads(1);
      const auto factory = MakeFactory(&faults_[rank]);
      EVENSTEP_ASSIGN_OR_RETURN(
          const auto groups,
          GroupTree::Build(*factory, generation_, rank, kWorld));
      factory->SetTimeout(step_timeout_);
      EVENSTEP_ASSIGN_OR_RETURN(const auto model, MakeDecoder(SmallConfig()));
      StepRunner runner(model.get(), GroupsOf(groups.get()));
      AdamW optimizer(model->parameters(), {});
      const at::Tensor before = model->parameters()[0].value.detach().clone();
      const absl::Status status = RunStep(runner, optimizer);
      if (!status.ok()) {
        EXPECT_TRUE(at::equal(before, model->parameters()[0].value.detach()));
        groups->Abort(status.message());
      }
      return status;
    });
  }

  std::vector<std::string> ends() {
    absl::MutexLock lock(&mutex_);
    return ends_;
  }

  FakeNccl nccl_;
  NcclFaults faults_[kWorld];
  absl::Duration step_timeout_ = absl::Seconds(20);
  absl::Duration abort_grace_ = absl::Seconds(20);
  MemoryRendezvousStore store_;
  int64_t generation_ = 0;
  absl::Mutex mutex_;
  std::deque<std::unique_ptr<NcclTable>> tables_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> ends_ ABSL_GUARDED_BY(mutex_);

 private:
  static absl::Status RunStep(StepRunner& runner, AdamW& optimizer) {
    wire::StepPlan plan;
    plan.world = kWorld;
    plan.trained_tokens = 32;
    plan.micro_batches.resize(1);
    plan.micro_batches[0].degree = kWorld;
    plan.micro_batches[0].lengths = {33};
    plan.micro_batches[0].sample_ids = {0};
    EVENSTEP_RETURN_IF_ERROR(
        runner.Run(plan, [](int64_t id) { return RandomSample(id, 33, 13); })
            .status());
    return optimizer.Update(0).status();
  }
};

TEST_F(NcclStepTest, EveryModeGivesTheOraclesStep) {
  ExpectParity(OverNccl({{0, 4, {33, 2}, 1},
                         {0, 4, {21}, 0, 1},
                         {0, 4, {40, 3}, 2, 2},
                         {0, 2, {12, 1, 5}},
                         {2, 1, {8}}}));
  EXPECT_EQ(nccl_.num_live(), 0);
  EXPECT_EQ(nccl_.num_aborted(), 0);
}

TEST_F(NcclStepTest, SlowCallsAreWaitedFor) {
  faults_[0].init_polls = 20;
  faults_[0].enqueue_polls = 20;
  ExpectParity(OverNccl({{0, 4, {33, 2}, 1, 2}, {0, 2, {12}}, {2, 1, {8}}}));
  EXPECT_EQ(nccl_.num_aborted(), 0);
}

// In forward, in backward, and in the step's sums: whichever collective fails
// later, no rank updates, and nothing is left behind.
TEST_F(NcclStepTest, AnErrorThatComesLaterEndsTheStepOnBothRanks) {
  const int forward = SmallConfig().layers * kPerLayer;
  for (const int operation : {0, forward, 2 * forward}) {
    SCOPED_TRACE(operation);
    faults_[1] = {};
    faults_[1].fail_operation = kFirstOperation + operation;
    const auto statuses = RunPair();
    EXPECT_EQ(statuses[1].code(), absl::StatusCode::kUnavailable)
        << statuses[1];
    EXPECT_THAT(std::string(statuses[1].message()),
                HasSubstr("failed with code 2"));
    EXPECT_EQ(statuses[0].code(), absl::StatusCode::kUnavailable)
        << statuses[0];
    EXPECT_EQ(nccl_.num_live(), 0);
  }
  EXPECT_TRUE(ends().empty());
}

TEST_F(NcclStepTest, AKernelThatNeverEndsIsATimeOut) {
  faults_[1].stall_operation = kFirstOperation + 1;
  faults_[0].notices_peers = faults_[1].notices_peers = false;
  step_timeout_ = absl::Milliseconds(300);
  for (const absl::Status& status : RunPair()) {
    EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("is not over after"));
  }
  EXPECT_EQ(nccl_.num_live(), 0);
  EXPECT_TRUE(ends().empty());
}

TEST_F(NcclStepTest, AnAbortThatHangsEndsTheProcess) {
  faults_[1].fail_operation = kFirstOperation + 1;
  faults_[1].abort_hangs = true;
  abort_grace_ = absl::Milliseconds(100);
  const auto statuses = RunPair();
  EXPECT_FALSE(statuses[0].ok());
  EXPECT_FALSE(statuses[1].ok());
  EXPECT_THAT(ends(), Contains(HasSubstr("ending the process")));
}

}  // namespace
}  // namespace evenstep::trainer
