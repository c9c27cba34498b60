#ifndef EVENSTEP_WORKER_TRAINER_COMM_WRAPPED_COMMUNICATOR_H_
#define EVENSTEP_WORKER_TRAINER_COMM_WRAPPED_COMMUNICATOR_H_

// The base of decorators: every call of another communicator passes one place,
// described by its kind and counts. Threads as in communicator.h.

#include <cstdint>
#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "worker/trainer/comm/collective_kind.h"
#include "worker/trainer/comm/communicator.h"

namespace evenstep::trainer {

// One call on this rank. Counts are by peer, of `element_bytes` each, and live
// as long as the call.
struct CollectiveCall {
  CollectiveKind kind = CollectiveKind::kBarrier;
  // All-reduce, broadcast, messages: the buffer. Else 0.
  int64_t buffer_bytes = 0;
  // All-to-all: what goes to each; reduce-scatter: the share of each.
  absl::Span<const int64_t> send_counts = {};
  // All-to-all and all-gather: what comes from each.
  absl::Span<const int64_t> recv_counts = {};
  int64_t element_bytes = 1;
  int peer = -1;  // of a message; root of a broadcast

  // The larger of what the rank's buffers send and receive.
  int64_t Bytes() const;
};

class WrappedCommunicator : public Communicator {
 public:
  explicit WrappedCommunicator(std::unique_ptr<Communicator> inner)
      : inner_(std::move(inner)) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  absl::Status AllToAllv(const void* send, absl::Span<const int64_t> send_bytes,
                         void* recv,
                         absl::Span<const int64_t> recv_bytes) override;
  absl::Status AllGatherv(const void* send, void* recv,
                          absl::Span<const int64_t> recv_bytes) override;
  absl::Status AllReduceSum(absl::Span<float> values) override;
  absl::Status AllReduceSum(absl::Span<double> values) override;
  absl::Status AllReduceSum(absl::Span<int64_t> values) override;
  absl::Status AllReduceMin(absl::Span<int64_t> values) override;
  absl::Status ReduceScatterSum(absl::Span<const float> send,
                                absl::Span<const int64_t> counts,
                                absl::Span<float> recv) override;
  absl::Status ReduceScatterSum(absl::Span<const double> send,
                                absl::Span<const int64_t> counts,
                                absl::Span<double> recv) override;
  absl::Status Broadcast(void* data, int64_t bytes, int root) override;
  absl::Status Send(const void* data, int64_t bytes, int peer) override;
  absl::Status Recv(void* data, int64_t bytes, int peer) override;
  absl::Status Barrier() override;
  void Abort(absl::string_view why) override { inner_->Abort(why); }
  int64_t collective_ns() const override { return inner_->collective_ns(); }
  int64_t collective_cpu_ns() const override {
    return inner_->collective_cpu_ns();
  }

 protected:
  // Does the call by `run`, which is called once at most.
  virtual absl::Status Around(const CollectiveCall& call,
                              absl::FunctionRef<absl::Status()> run) = 0;

  Communicator& inner() const { return *inner_; }

 private:
  template <typename T>
  absl::Status ReduceScatter(absl::Span<const T> send,
                             absl::Span<const int64_t> counts,
                             absl::Span<T> recv);

  const std::unique_ptr<Communicator> inner_;
};

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_COMM_WRAPPED_COMMUNICATOR_H_
