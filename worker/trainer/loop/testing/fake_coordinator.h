#ifndef EVENSTEP_WORKER_TRAINER_LOOP_TESTING_FAKE_COORDINATOR_H_
#define EVENSTEP_WORKER_TRAINER_LOOP_TESTING_FAKE_COORDINATOR_H_

// Plans steps for tests of the trainer without a coordinator: collects the
// ranks' length reports, and once a step is complete lays it out by a given
// rule and delivers the plan to every rank. Keeps all messages for the test to
// look at. Thread-safe; the delivery runs on the reporting rank's thread.

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "evenstep/trainer/v1/trainer.pb.h"
#include "wire/step_plan.h"

namespace evenstep::trainer {

struct ReportedSample {
  int64_t id = 0;
  int64_t length = 0;
};

// Where the samples of a step run, in a world of so many ranks.
using Layout = std::function<std::vector<wire::PlannedMicroBatch>(
    const std::vector<ReportedSample>& samples, int world)>;

// Sample i alone in a micro-batch on rank i mod world.
std::vector<wire::PlannedMicroBatch> DealOut(
    const std::vector<ReportedSample>& samples, int world);
// All samples packed into one micro-batch of the whole world.
std::vector<wire::PlannedMicroBatch> OneGroup(
    const std::vector<ReportedSample>& samples, int world);
// The longest sample on the whole world, the others packed on rank 0.
std::vector<wire::PlannedMicroBatch> LongestTogether(
    const std::vector<ReportedSample>& samples, int world);

class FakeCoordinator {
 public:
  using Deliver = std::function<void(int rank, const wire::StepPlan&)>;

  FakeCoordinator(int64_t generation, int world, Layout layout,
                  Deliver deliver);

  // A message of a rank, in the order in which that rank sent it.
  void OnMessage(int rank, const v1::ToAgent& message)
      ABSL_LOCKS_EXCLUDED(mutex_);

  std::vector<v1::ToAgent> messages(int rank) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Mean losses that a rank reported, by step.
  std::vector<double> Losses(int rank) const;

 private:
  struct Collected {
    int num_reports = 0;
    int64_t trained_tokens = 0;
    std::map<int64_t, int64_t> lengths;  // by sample id
  };
  wire::StepPlan MakePlan(int64_t step, const Collected& collected) const;

  const int64_t generation_;
  const int world_;
  const Layout layout_;
  const Deliver deliver_;
  mutable absl::Mutex mutex_;
  std::map<int64_t, Collected> steps_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::vector<v1::ToAgent>> messages_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_LOOP_TESTING_FAKE_COORDINATOR_H_
