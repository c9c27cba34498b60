#ifndef EVENSTEP_WORKER_TRAINER_COMM_COMMUNICATOR_H_
#define EVENSTEP_WORKER_TRAINER_COMM_COMMUNICATOR_H_

// Collectives over one group of ranks, on raw buffers in the memory that the
// back end works on: the host's for Gloo (between processes) and in-process
// (ranks as threads, for tests), the device's for NCCL. Every rank of the group
// makes the same calls in the same order; each call blocks until this rank's
// part is done. Send and Recv concern two ranks only: both make theirs at the
// same place among the group's collectives. One test suite covers all back
// ends.
//
// After the first error a communicator is broken: every later call fails with
// that error, and the group is rebuilt under a new generation. Only
// INVALID_ARGUMENT leaves it whole: nothing was sent. One thread at a time
// calls collectives; Abort may come from any thread. No torch here.
//
// Errors of every collective: ABORTED after Abort; UNAVAILABLE when a peer is
// gone; DEADLINE_EXCEEDED at the time-out; INVALID_ARGUMENT when counts do not
// fit the group; FAILED_PRECONDITION when ranks call different collectives
// (found by the in-process back end).

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace evenstep::trainer {

class Communicator {
 public:
  virtual ~Communicator() = default;

  // Place in the group, 0..size-1. Members stand in the order of world ranks.
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Sends send_bytes[p] bytes to each peer p, laid end to end in `send`, and
  // receives recv_bytes[p] from each into `recv` likewise. Zero is allowed.
  virtual absl::Status AllToAllv(const void* send,
                                 absl::Span<const int64_t> send_bytes,
                                 void* recv,
                                 absl::Span<const int64_t> recv_bytes) = 0;
  // Every rank's `send` (recv_bytes[rank()] bytes), laid end to end in `recv`.
  virtual absl::Status AllGatherv(const void* send, void* recv,
                                  absl::Span<const int64_t> recv_bytes) = 0;
  // In place; every rank ends with the same bits.
  virtual absl::Status AllReduceSum(absl::Span<float> values) = 0;
  virtual absl::Status AllReduceSum(absl::Span<double> values) = 0;
  virtual absl::Status AllReduceSum(absl::Span<int64_t> values) = 0;
  virtual absl::Status AllReduceMin(absl::Span<int64_t> values) = 0;
  // The inverse of AllGatherv with a sum: `send` holds counts[p] values for
  // each rank p, end to end; `recv` (counts[rank()] values) becomes the sum
  // over ranks of what they hold for this one. Zero is allowed; the buffers
  // do not overlap.
  virtual absl::Status ReduceScatterSum(absl::Span<const float> send,
                                        absl::Span<const int64_t> counts,
                                        absl::Span<float> recv) = 0;
  virtual absl::Status ReduceScatterSum(absl::Span<const double> send,
                                        absl::Span<const int64_t> counts,
                                        absl::Span<double> recv) = 0;
  // Root's bytes to everyone.
  virtual absl::Status Broadcast(void* data, int64_t bytes, int root) = 0;
  // From this rank to `peer`, which receives as many. Send may wait for its
  // Recv, so two ranks that exchange use AllToAllv.
  virtual absl::Status Send(const void* data, int64_t bytes, int peer) = 0;
  virtual absl::Status Recv(void* data, int64_t bytes, int peer) = 0;
  virtual absl::Status Barrier() = 0;

  // Makes blocked and future collectives of this rank fail with ABORTED and
  // `why`; peers that wait for this rank fail too, or reach their time-out.
  // Any thread, any number of times; the first reason stays.
  virtual void Abort(absl::string_view why) = 0;

  // Wall time spent inside collectives so far, in nanoseconds.
  virtual int64_t collective_ns() const = 0;
  // CPU time of the calling threads inside collectives so far; 0 where the back
  // end does not count it.
  virtual int64_t collective_cpu_ns() const { return 0; }
};

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_COMM_COMMUNICATOR_H_
