#ifndef EVENSTEP_WORKER_TRAINER_LOOP_TESTING_THREADED_JOB_H_
#define EVENSTEP_WORKER_TRAINER_LOOP_TESTING_THREADED_JOB_H_

// A whole job in one process, for tests of the loop: a thread per rank, groups
// in memory, and a FakeCoordinator that plans. Run blocks until all ranks have
// ended.

#include <ATen/Parallel.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/testing/temp_folder.h"
#include "gtest/gtest.h"
#include "worker/trainer/comm/in_process_communicator.h"
#include "worker/trainer/job/testing/small_job.h"
#include "worker/trainer/loop/testing/fake_coordinator.h"
#include "worker/trainer/loop/train.h"

namespace evenstep::trainer {

inline constexpr int64_t kGeneration = 3;

// A rank's agent: what it sends goes to the coordinator, and it may be told to
// stop once it has reported a step.
class ThreadChannel : public AgentChannel {
 public:
  absl::Status Send(const v1::ToAgent& message) override {
    coordinator->OnMessage(rank, message);
    if (on_send) on_send(message);
    if (message.has_step() && message.step().step() == stop_after_step) {
      stop = true;
    }
    return absl::OkStatus();
  }
  bool StopRequested() const override { return stop; }

  int rank = 0;
  FakeCoordinator* coordinator = nullptr;
  int64_t stop_after_step = -1;
  std::function<void(const v1::ToAgent& message)> on_send;
  std::atomic<bool> stop{false};
};

// A whole job in this process: a thread per rank.
class ThreadedJob {
 public:
  struct Rank {
    ThreadChannel channel;
    PlanBook plans;
    AbortSwitch abort;
    WeightsKeeper keeper;
    absl::StatusOr<TrainResult> result = absl::UnknownError("not run");
  };

  ThreadedJob(int world, Layout layout, int64_t steps = 8)
      : world_(world),
        ranks_(world),
        coordinator_(kGeneration, world, std::move(layout),
                     [this](int rank, const wire::StepPlan& plan) {
                       Deliver(rank, plan);
                     }) {
    WriteDocuments(data_.path());
    spec = SmallJob(data_.path(), world);
    spec.steps = steps;
  }

  void Run() {
    at::set_num_threads(1);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < world_; ++rank) {
      ranks_[rank].plans.Begin(kGeneration, world_);
      threads.emplace_back([this, rank] { RunRank(rank); });
    }
    for (std::thread& thread : threads) thread.join();
  }

  Rank& rank(int index) { return ranks_[index]; }
  FakeCoordinator& coordinator() { return coordinator_; }
  const std::string& output() const { return output_.path(); }

  jobspec::JobSpec spec;
  std::vector<Fault> faults;
  // Changes what a rank gets; null: as it is.
  std::function<void(int rank, wire::StepPlan*)> tamper;
  std::function<void(int rank, jobspec::JobSpec*)> tamper_spec;

 private:
  void Deliver(int rank, wire::StepPlan plan) {
    if (tamper) tamper(rank, &plan);
    plan.digest = wire::StepPlanDigest(plan);
    EXPECT_EQ(ranks_[rank].plans.Put(plan).ok(), plan.world == world_);
  }

  void RunRank(int rank) {
    Rank& self = ranks_[rank];
    self.channel.rank = rank;
    self.channel.coordinator = &coordinator_;
    const auto factory = hub_.MakeFactory();
    TrainParts parts;
    parts.setup = {.job_id = "job",
                   .attempt = 1,
                   .generation = kGeneration,
                   .rank = rank,
                   .world = world_,
                   .spec = spec,
                   .listen_host = "",
                   .output_dir = output_.path(),
                   .threads = 1,
                   .device_name = "",
                   .emulated_link = ""};
    if (tamper_spec) tamper_spec(rank, &parts.setup.spec);
    parts.agent = &self.channel;
    parts.plans = &self.plans;
    parts.factory = factory.get();
    std::shared_ptr<GroupTree> groups;
    parts.groups = &groups;
    parts.abort = &self.abort;
    parts.keeper = &self.keeper;
    parts.clock = &RealClock();
    parts.sleep = [](absl::Duration) { std::this_thread::yield(); };
    parts.faults = FaultPlan(faults, rank);
    self.result = Train(parts);
  }

  const int world_;
  TempFolder data_;
  TempFolder output_;
  InProcessHub hub_{absl::Seconds(20)};
  std::vector<Rank> ranks_;
  FakeCoordinator coordinator_;
};

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_LOOP_TESTING_THREADED_JOB_H_
