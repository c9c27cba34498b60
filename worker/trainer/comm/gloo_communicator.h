#ifndef EVENSTEP_WORKER_TRAINER_COMM_GLOO_COMMUNICATOR_H_
#define EVENSTEP_WORKER_TRAINER_COMM_GLOO_COMMUNICATOR_H_

// Communicators over TCP by Debian's libgloo, called directly: LibTorch's wheel
// ships no Gloo headers, and the life cycle (abort, rebuild per generation) is
// ours. One factory, so one device, per process. Gloo's exceptions end here.
//
//   EVENSTEP_ASSIGN_OR_RETURN(auto factory, MakeGlooFactory(options, &store));
//   EVENSTEP_ASSIGN_OR_RETURN(auto groups,
//                             GroupTree::Build(*factory, generation, rank, n));
//
// The process must ignore SIGPIPE. The store outlives every Create call.

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/trainer/comm/communicator_factory.h"
#include "worker/trainer/comm/rendezvous_store.h"

namespace evenstep::trainer {

struct GlooOptions {
  // Host or address that peers reach this process at; never guessed.
  std::string listen_host;
  // Of setting up one group, and of every collective until SetTimeout.
  absl::Duration timeout = absl::Seconds(60);
  // How long a rank waits for all peers to be there until SetTimeout, where
  // that is longer than `timeout`: they may still be reading their data. The
  // same on all ranks.
  absl::Duration start_wait = absl::ZeroDuration();
};

// INVALID_ARGUMENT: no host, or a time-out below a millisecond; UNAVAILABLE:
// the host cannot be listened on.
absl::StatusOr<std::unique_ptr<CommunicatorFactory>> MakeGlooFactory(
    const GlooOptions& options, RendezvousStore* store);

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_COMM_GLOO_COMMUNICATOR_H_
