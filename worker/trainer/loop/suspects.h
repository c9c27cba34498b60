#ifndef EVENSTEP_WORKER_TRAINER_LOOP_SUSPECTS_H_
#define EVENSTEP_WORKER_TRAINER_LOOP_SUSPECTS_H_

// Which samples a step that is not finite is blamed on. The ranks tell each
// other which micro-batches went wrong, so that every rank names the same
// samples. Called by the step loop on its way out.

#include <cstdint>
#include <vector>

#include "wire/step_plan.h"
#include "worker/trainer/comm/communicator.h"
#include "worker/trainer/parallel/step_runner.h"

namespace evenstep::trainer {

// Ids of the samples of every micro-batch whose loss was not finite on some
// rank. Only if there is none, a gradient says more: a bad loss spreads to the
// gradients of all ranks of its group. All samples of the step when no
// micro-batch stands out. Collective over the world; if that fails, what this
// rank saw has to do, and nothing is returned if it saw nothing.
std::vector<int64_t> SuspectSamples(const wire::StepPlan& plan,
                                    const StepResult& result,
                                    Communicator& world);

// All samples of the step.
std::vector<int64_t> AllSamples(const wire::StepPlan& plan);

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_LOOP_SUSPECTS_H_
