#ifndef EVENSTEP_WORKER_TRAINER_JOB_PLAN_NEEDS_H_
#define EVENSTEP_WORKER_TRAINER_JOB_PLAN_NEEDS_H_

// What a plan needs before a rank runs it: its groups open, and its samples at
// hand. Called by the step loop and by the evaluator. Main thread only.

#include "absl/status/status.h"
#include "wire/step_plan.h"
#include "worker/trainer/comm/group_tree.h"
#include "worker/trainer/job/training_data.h"
#include "worker/trainer/parallel/step_runner.h"

namespace evenstep::trainer {

// Opens the groups that a plan needs beside the tree. All ranks know the same
// plans, so all come to the same groups, and refuse a plan together
// (INVALID_ARGUMENT). Who has opened its own waits for the others: a step
// begins with all groups there.
absl::Status OpenGroups(GroupTree& groups, const wire::StepPlan& plan);

// Of samples that were read, which outlive the reader.
SampleReader ReaderOf(const SampleMap& samples);

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_JOB_PLAN_NEEDS_H_
