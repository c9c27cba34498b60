#ifndef EVENSTEP_WORKER_TRAINER_COMM_NCCL_COMMUNICATOR_H_
#define EVENSTEP_WORKER_TRAINER_COMM_NCCL_COMMUNICATOR_H_

// Communicators over NCCL, on device memory, through a table of functions (see
// nccl_table.h). Nothing here waits in NCCL: groups are set up without blocking
// and polled under a deadline; a collective is enqueued on the one stream of
// this rank and polled until the stream is done, the group reports an error,
// the time is up or someone aborts. Whatever ends a group but its own
// destruction aborts it in NCCL, so that no kernel stays behind.
//
//   set up --> ready <--> in a collective --> broken (aborted in NCCL)
//      |         |                               ^
//      |         `--> closed (finalize, destroy) |
//      `----------------- error, deadline -------'
//
// Every call but a poll's may never return all the same (NCCL has locks and
// sockets of its own): all run under a watchdog that ends the process, enqueues
// once their time-out and a grace are over. A collective waits for work that
// the stream had before it, outside of collective_ns. All pointers are the
// device's.
//
// A rank that leaves is an error for its peers only where NCCL notices it
// (sockets and InfiniBand); else they reach their time-out.

#include <functional>
#include <memory>

#include "absl/time/time.h"
#include "base/clock.h"
#include "worker/trainer/comm/communicator_factory.h"
#include "worker/trainer/comm/nccl_table.h"
#include "worker/trainer/comm/rendezvous_store.h"
#include "worker/trainer/comm/watchdog.h"

namespace evenstep::trainer {

struct NcclOptions {
  // Of setting up one group, and of every collective until SetTimeout.
  absl::Duration timeout = absl::Seconds(60);
  // Of a call that may hang, beyond the time-out where there is one.
  absl::Duration abort_grace = absl::Seconds(10);
  OnHang end_process;
  DeviceStream stream = nullptr;
  // How a poll waits; tests replace both.
  const Clock* clock = &RealClock();
  std::function<void(absl::Duration)> sleep;  // empty: the machine's
};

// For one rank. Table and store outlive the factory and its groups. Its groups
// fail with INTERNAL for errors of the device and of usage, UNAVAILABLE for all
// others of NCCL; both name the call, its number, the group and NCCL's code.
std::unique_ptr<CommunicatorFactory> MakeNcclFactory(NcclOptions options,
                                                     NcclTable* table,
                                                     RendezvousStore* store);

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_COMM_NCCL_COMMUNICATOR_H_
