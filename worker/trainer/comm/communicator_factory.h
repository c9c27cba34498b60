#ifndef EVENSTEP_WORKER_TRAINER_COMM_COMMUNICATOR_FACTORY_H_
#define EVENSTEP_WORKER_TRAINER_COMM_COMMUNICATOR_FACTORY_H_

// Makes communicators of one back end for one rank. GroupTree is the caller;
// implementations live in gloo_communicator.h and in_process_communicator.h.

#include <compare>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "worker/trainer/comm/communicator.h"

namespace evenstep::trainer {

// Ranks [first_rank, first_rank + degree) of the world.
struct RankBlock {
  int first_rank = 0;
  int degree = 1;

  bool Contains(int rank) const {
    return rank >= first_rank && rank < first_rank + degree;
  }
  friend auto operator<=>(const RankBlock&, const RankBlock&) = default;
};

// A member creates its group. INVALID_ARGUMENT if the rank is not one.
inline absl::Status CheckInBlock(const RankBlock& block, int world_rank) {
  if (block.Contains(world_rank)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("rank ", world_rank, " is not among the ", block.degree,
                   " ranks from ", block.first_rank));
}

class CommunicatorFactory {
 public:
  virtual ~CommunicatorFactory() = default;
  // Blocks until every rank of the block has called with the same `key`, which
  // is used once only. `world_rank` lies in the block. The group is warm: its
  // first collectives, which are slow, have been done.
  virtual absl::StatusOr<std::unique_ptr<Communicator>> Create(
      const std::string& key, const RankBlock& block, int world_rank) = 0;
  // How long collectives that begin from now on may take, in groups that are
  // there and in those to come. Ranks set the same between two collectives.
  // Back ends without a time-out of their own ignore it.
  virtual void SetTimeout(absl::Duration timeout) {}
};

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_COMM_COMMUNICATOR_FACTORY_H_
