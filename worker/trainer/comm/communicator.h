#ifndef EVENSTEP_WORKER_TRAINER_COMM_COMMUNICATOR_H_
#define EVENSTEP_WORKER_TRAINER_COMM_COMMUNICATOR_H_

// Collectives over one group of ranks, on raw buffers in the memory that the
// back end works on: the host's for Gloo (between processes) and in-process
// (ranks as threads, for tests), the device's for NCCL. Every rank of the group
// makes the same calls in the same order; each call blocks until this rank's
// part is done. Send and Recv concern two ranks only: both make theirs at the
// same place among the group's collectives. One test suite covers all back
// ends, which implement one function, Run.
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
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace evenstep::trainer {

// What ranks compare, and what logs name.
enum class CollectiveKind {
  kAllToAll,
  kAllGather,
  kAllReduce,
  kAllReduceShares,  // the first of the two rounds of a large all-reduce
  kReduceScatter,
  kBroadcast,
  kSend,
  kReceive,
  kBarrier,
};

// "all-to-all" and so on.
absl::string_view CollectiveName(CollectiveKind kind);

enum class ElementType { kByte, kFloat32, kFloat64, kInt64 };
enum class ReduceOp { kSum, kMin };

int64_t ElementBytes(ElementType type);

// One call on one rank. Counts are in elements; spans and buffers live as long
// as the call.
struct Collective {
  CollectiveKind kind = CollectiveKind::kBarrier;
  ElementType type = ElementType::kByte;
  ReduceOp op = ReduceOp::kSum;
  const void* send = nullptr;  // what this rank sends
  void* recv = nullptr;        // what it receives, or the buffer of both
  int64_t count = 0;           // of all-reduce, broadcast and messages
  // All-to-all: to each rank; reduce-scatter: the share of each.
  absl::Span<const int64_t> send_counts = {};
  // All-to-all and all-gather: from each rank.
  absl::Span<const int64_t> recv_counts = {};
  int peer = -1;  // of a message; root of a broadcast

  // The larger of what the rank's buffers send and receive.
  int64_t Bytes() const;
};

class Communicator {
 public:
  virtual ~Communicator() = default;

  // Place in the group, 0..size-1. Members stand in the order of world ranks.
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Sends send_bytes[p] bytes to each peer p, laid end to end in `send`, and
  // receives recv_bytes[p] from each into `recv` likewise. Zero is allowed.
  absl::Status AllToAllv(const void* send, absl::Span<const int64_t> send_bytes,
                         void* recv, absl::Span<const int64_t> recv_bytes);
  // Every rank's `send` (recv_bytes[rank()] bytes), laid end to end in `recv`.
  absl::Status AllGatherv(const void* send, void* recv,
                          absl::Span<const int64_t> recv_bytes);
  // In place; every rank ends with the same bits.
  absl::Status AllReduceSum(absl::Span<float> values);
  absl::Status AllReduceSum(absl::Span<double> values);
  absl::Status AllReduceSum(absl::Span<int64_t> values);
  absl::Status AllReduceMin(absl::Span<int64_t> values);
  // The inverse of AllGatherv with a sum: `send` holds counts[p] values for
  // each rank p, end to end; `recv` (counts[rank()] values) becomes the sum
  // over ranks of what they hold for this one. Zero is allowed; the buffers
  // do not overlap.
  absl::Status ReduceScatterSum(absl::Span<const float> send,
                                absl::Span<const int64_t> counts,
                                absl::Span<float> recv);
  absl::Status ReduceScatterSum(absl::Span<const double> send,
                                absl::Span<const int64_t> counts,
                                absl::Span<double> recv);
  // Root's bytes to everyone.
  absl::Status Broadcast(void* data, int64_t bytes, int root);
  // From this rank to `peer`, which receives as many. Send may wait for its
  // Recv, so two ranks that exchange use AllToAllv.
  absl::Status Send(const void* data, int64_t bytes, int peer);
  absl::Status Recv(void* data, int64_t bytes, int peer);
  absl::Status Barrier();

  // What the calls above come to, once their arguments are checked; for back
  // ends and decorators. Callers use the calls above.
  virtual absl::Status Run(const Collective& call) = 0;

  // Makes blocked and future collectives of this rank fail with ABORTED and
  // `why`; peers that wait for this rank fail too, or reach their time-out.
  // Any thread, any number of times; the first reason stays.
  virtual void Abort(absl::string_view why) = 0;

  // Wall time spent inside collectives so far, in nanoseconds.
  virtual int64_t collective_ns() const = 0;
  // CPU time of the calling threads inside collectives so far; 0 where the back
  // end does not count it.
  virtual int64_t collective_cpu_ns() const { return 0; }

 private:
  absl::Status CheckAndRun(const Collective& call);
};

// Passes everything on to another communicator; decorators override a part.
class CommunicatorDecorator : public Communicator {
 public:
  explicit CommunicatorDecorator(std::unique_ptr<Communicator> inner)
      : inner_(std::move(inner)) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  absl::Status Run(const Collective& call) override {
    return inner_->Run(call);
  }
  void Abort(absl::string_view why) override { inner_->Abort(why); }
  int64_t collective_ns() const override { return inner_->collective_ns(); }
  int64_t collective_cpu_ns() const override {
    return inner_->collective_cpu_ns();
  }

 protected:
  Communicator& inner() const { return *inner_; }

 private:
  const std::unique_ptr<Communicator> inner_;
};

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_COMM_COMMUNICATOR_H_
