#ifndef EVENSTEP_WORKER_TRAINER_COMM_EXCHANGE_H_
#define EVENSTEP_WORKER_TRAINER_COMM_EXCHANGE_H_

// What a CPU back end implements: one exchange in which every rank of a group
// sends a run of bytes to every peer and receives one from each, all at once,
// and a message from one rank to another. All collectives are made of these
// (MakeMeshCommunicator), with sums in rank order, so every back end gives the
// same bits. Ranks per group are few and links are a full mesh, so direct
// exchange moves as little as a ring, in fewer rounds.

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "worker/trainer/comm/communicator.h"

namespace evenstep::trainer {

struct SendRun {
  const std::byte* data = nullptr;
  int64_t bytes = 0;
};
struct ReceiveRun {
  std::byte* data = nullptr;
  int64_t bytes = 0;
};

class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // One run per peer, in rank order, this rank's own included. Blocks until all
  // are sent and received. Errors as in communicator.h; never called again
  // after one.
  virtual absl::Status Run(CollectiveKind kind, absl::Span<const SendRun> sends,
                           absl::Span<const ReceiveRun> receives) = 0;
  // One message, not empty, to or from another rank of the group, which makes
  // the opposite call. Messages of a pair arrive in order. Errors as of Run.
  virtual absl::Status Send(int peer, const SendRun& run) = 0;
  virtual absl::Status Receive(int peer, const ReceiveRun& run) = 0;
  // Wakes a blocked call and makes peers fail. Any thread; called once at most.
  virtual void Abort(absl::string_view why) = 0;
};

std::unique_ptr<Communicator> MakeMeshCommunicator(
    std::unique_ptr<Exchange> exchange);

// Does a new group's first collectives, which are slow, before any is measured.
// Collective; for groups that work on host memory.
absl::Status WarmOnHost(Communicator& communicator);

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_COMM_EXCHANGE_H_
