#ifndef EVENSTEP_WORKER_TRAINER_PARALLEL_STEP_GROUPS_H_
#define EVENSTEP_WORKER_TRAINER_PARALLEL_STEP_GROUPS_H_

// The communicators that a step runs on, by whom they are found: the tree of a
// generation, groups opened for one plan, or a test's own. Plain data; what it
// refers to outlives it.

#include <functional>

#include "absl/status/statusor.h"
#include "worker/trainer/comm/communicator.h"
#include "worker/trainer/comm/group_tree.h"

namespace evenstep::trainer {

struct StepGroups {
  int rank = 0;
  Communicator* world = nullptr;
  // The communicator of [first_rank, first_rank + degree), which contains the
  // rank; NOT_FOUND: there is none.
  std::function<absl::StatusOr<Communicator*>(int first_rank, int degree)> find;
};

inline StepGroups GroupsOf(GroupTree* tree) {
  return {tree->rank(), &tree->world(), [tree](int first_rank, int degree) {
            return tree->GroupFor(first_rank, degree);
          }};
}

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_PARALLEL_STEP_GROUPS_H_
