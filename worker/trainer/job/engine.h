#ifndef EVENSTEP_WORKER_TRAINER_JOB_ENGINE_H_
#define EVENSTEP_WORKER_TRAINER_JOB_ENGINE_H_

// What a rank computes with: groups, model, step runner and optimizer of one
// generation, made from the job in one place. The groups belong to the caller,
// who must be able to abort them until the engine is gone. Main thread only.

#include <memory>

#include "absl/status/statusor.h"
#include "worker/trainer/comm/communicator_factory.h"
#include "worker/trainer/comm/group_tree.h"
#include "worker/trainer/job/fault.h"
#include "worker/trainer/job/trainer_setup.h"
#include "worker/trainer/optim/adamw.h"
#include "worker/trainer/parallel/step_runner.h"

namespace evenstep::trainer {

struct Engine {
  GroupTree* groups = nullptr;  // not owned
  std::unique_ptr<Model> model;
  NotFiniteModel* planted = nullptr;  // `model`, if a fault is planted
  std::unique_ptr<StepRunner> runner;
  std::unique_ptr<AdamW> optimizer;
  Communicator* sharded_over = nullptr;  // of the optimizer; null: not sharded
};

// The groups of the setup's generation. Collective over the world.
absl::StatusOr<std::unique_ptr<GroupTree>> BuildGroups(
    const TrainerSetup& setup, CommunicatorFactory& factory);

// The rest; `groups` outlives it. Initial parameters are those of the job's
// weights, or depend on its seed alone. START_FAILED with the model's numbers;
// its code is RESOURCE_EXHAUSTED if they do not fit into memory.
absl::StatusOr<Engine> MakeEngine(const TrainerSetup& setup,
                                  const FaultPlan& faults, GroupTree* groups);

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_JOB_ENGINE_H_
