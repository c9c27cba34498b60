#ifndef EVENSTEP_WORKER_TRAINER_COMM_EXCHANGE_H_
#define EVENSTEP_WORKER_TRAINER_COMM_EXCHANGE_H_

// The one operation that a CPU back end implements: every rank of a group sends
// a run of bytes to every peer and receives one from each, all at once. All
// collectives are made of it (MakeMeshCommunicator), with sums in rank order,
// so every back end gives the same bits. Ranks per group are few and links are
// a full mesh, so direct exchange moves as little as a ring, in fewer rounds.

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "worker/trainer/comm/communicator.h"

namespace evenstep::trainer {

enum class CollectiveKind {
  kAllToAll,
  kAllGather,
  kReduceScatter,
  kReduceGather,
  kBroadcast,
  kBarrier,
};
absl::string_view CollectiveName(CollectiveKind kind);

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
  // Wakes a blocked Run and makes peers fail. Any thread; called once at most.
  virtual void Abort(absl::string_view why) = 0;
};

std::unique_ptr<Communicator> MakeMeshCommunicator(
    std::unique_ptr<Exchange> exchange);

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_COMM_EXCHANGE_H_
