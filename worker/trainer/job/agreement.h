#ifndef EVENSTEP_WORKER_TRAINER_JOB_AGREEMENT_H_
#define EVENSTEP_WORKER_TRAINER_JOB_AGREEMENT_H_

// What ranks have to have in common before the first step, and could have
// different: content of files on their nodes, and what follows from it. Each
// call is collective over the world, and ends on all ranks alike. Main thread.

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "worker/trainer/comm/communicator.h"

namespace evenstep::trainer {

// FAILED_PRECONDITION on all ranks, with `what` and this rank's key, unless all
// have the same. Other errors are the collective's.
absl::Status CheckSameOnAllRanks(Communicator& world, absl::string_view what,
                                 uint64_t key);

// Rank 0's bytes, on all ranks.
absl::Status BroadcastText(Communicator& world, std::string* text);

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_JOB_AGREEMENT_H_
