#ifndef EVENSTEP_WORKER_TRAINER_COMM_CALL_CHECKS_H_
#define EVENSTEP_WORKER_TRAINER_COMM_CALL_CHECKS_H_

// The arguments of a collective against its group, the same for every back end.
// INVALID_ARGUMENT with the numbers. Pure functions.

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "worker/trainer/comm/communicator_factory.h"

namespace evenstep::trainer {

// One count per rank, none negative. `what` is "send" or "receive".
absl::Status CheckCounts(absl::Span<const int64_t> counts, int size,
                         absl::string_view what);
absl::Status CheckRoot(int64_t bytes, int root, int size);
// Another rank of the group.
absl::Status CheckPeer(int64_t bytes, int peer, int rank, int size);

// A member creates its group.
absl::Status CheckInBlock(const RankBlock& block, int world_rank);

struct PlaceInGroup {
  int rank = 0;
  int size = 1;
};
// Of ReduceScatterSum: both buffers hold what `counts` says.
absl::Status CheckShares(absl::Span<const int64_t> counts, PlaceInGroup place,
                         size_t num_sent, size_t num_received);

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_COMM_CALL_CHECKS_H_
