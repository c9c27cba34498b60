#ifndef EVENSTEP_WORKER_TRAINER_LOOP_TRAIN_H_
#define EVENSTEP_WORKER_TRAINER_LOOP_TRAIN_H_

// One rank's whole training run, from opening the data to the weights file:
// the story of a trainer is in train.cc, the story of a step in step_loop.cc.
// Called once per process (by a thread per rank in tests); blocks until the
// job's steps are done, a stop takes effect, or the rank cannot go on. Only
// AbortSwitch and AgentChannel are shared with other threads.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "worker/trainer/comm/communicator_factory.h"
#include "worker/trainer/comm/group_tree.h"
#include "worker/trainer/job/fault.h"
#include "worker/trainer/job/trainer_setup.h"
#include "worker/trainer/link/abort_switch.h"
#include "worker/trainer/link/agent_channel.h"
#include "worker/trainer/link/plan_book.h"
#include "worker/trainer/loop/weights_keeper.h"

namespace evenstep::trainer {

// What a run is made with; pointers are not owned and outlive the run.
struct TrainParts {
  TrainerSetup setup;
  AgentChannel* agent;
  PlanBook* plans;
  CommunicatorFactory* factory;
  // Where the groups live: they stay when the run has failed, so that its
  // caller can say so before broken ones are torn down, which may hang.
  std::shared_ptr<GroupTree>* groups;
  AbortSwitch* abort;
  // What the rank has trained; written by Train, or by whoever ends the run.
  WeightsKeeper* keeper;
  const Clock* clock;
  std::function<void(absl::Duration)> sleep;
  FaultPlan faults;
};

struct TrainResult {
  int64_t steps_done = 0;
  bool stopped = false;  // by request, before the last step
  // Of rank 0: what it wrote, or why it wrote nothing.
  std::optional<absl::StatusOr<KeptWeights>> weights;
};

// Errors carry a FailureReason and the step (failure.h). The agent hears of the
// data, costs, lengths and steps here; the last word, Finished or Failure, is
// the caller's. Where all ranks agree that they fail, rank 0 writes the weights
// of the last whole step and says Finished here. After any other error peers
// may be in the middle of a step: it is the caller who has the keeper write.
absl::StatusOr<TrainResult> Train(const TrainParts& parts);

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_LOOP_TRAIN_H_
