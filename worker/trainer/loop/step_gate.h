#ifndef EVENSTEP_WORKER_TRAINER_LOOP_STEP_GATE_H_
#define EVENSTEP_WORKER_TRAINER_LOOP_STEP_GATE_H_

// The gate with what this rank votes by: the plans it holds, whether the next
// step's samples could be read, and the agent's wish to stop. Samples are read
// before the vote, so a sample that cannot be read fails all ranks at the gate
// and never leaves peers alone in a collective. Groups that the agreed plan
// needs are opened after the vote, since plans follow each other in one order
// on all ranks; the gate is left when all have theirs. Main thread only.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "wire/step_plan.h"
#include "worker/trainer/job/fault.h"
#include "worker/trainer/job/training_data.h"
#include "worker/trainer/link/agent_channel.h"
#include "worker/trainer/link/gate.h"
#include "worker/trainer/link/plan_book.h"

namespace evenstep::trainer {

// What all ranks do next: run a step with its plan and this rank's samples, or
// nothing, because the job has stopped, all its steps are done, or all have
// decided to fail.
struct NextStep {
  absl::Status failure;  // with a reason and the step; the gate was passed
  std::shared_ptr<const wire::StepPlan> plan;  // null: no step comes
  SampleMap samples;
  int plan_lead = 0;
  int64_t gate_ns = 0;
};

class StepGate {
 public:
  struct Parts {
    Gate gate;
    const PlanBook* plans;
    const TrainingData* data;
    const AgentChannel* agent;
    const Clock* clock;
    FaultPlan faults;
    // Opens the groups of a plan on all ranks. INVALID_ARGUMENT: the plan
    // cannot run, on all ranks alike. Null: there are none to open.
    std::function<absl::Status(const wire::StepPlan&)> open_groups = nullptr;
  };
  // What the pointers point to outlives the gate.
  explicit StepGate(Parts parts);

  // Reads the step's samples now if its plan is held; otherwise Pass does.
  void Prepare(int64_t step);
  // The gate before `step`; `total_steps` is the gate after the last one, which
  // needs no plan. An error, with a reason and the step, means that the gate
  // itself broke: what came before it is not known to be committed.
  absl::StatusOr<NextStep> Pass(int64_t step, int64_t total_steps);

 private:
  // A plan that cannot run fails all ranks together; other errors are errors.
  absl::Status OpenGroups(const wire::StepPlan& plan, NextStep* next) const;
  GateVote Vote(int64_t step, int64_t total_steps);
  // Why this rank cannot run the step: it has refused a plan, or a sample
  // cannot be read.
  absl::Status OwnFailure(int64_t step) const;
  // Why all fail, as this rank says it: its own reason, or that a peer has one.
  absl::Status FailureOf(const GateResult& result, int64_t step) const;
  absl::StatusOr<SampleMap> LoadSamples(const wire::StepPlan& plan) const;

  Parts parts_;
  // Of the step that was prepared last.
  std::shared_ptr<const wire::StepPlan> plan_;
  std::optional<absl::StatusOr<SampleMap>> samples_;
};

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_LOOP_STEP_GATE_H_
