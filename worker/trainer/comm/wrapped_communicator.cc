#include "worker/trainer/comm/wrapped_communicator.h"

#include <algorithm>
#include <numeric>

namespace evenstep::trainer {
namespace {

template <typename T>
CollectiveCall AllReduceOf(absl::Span<T> values) {
  return {.kind = CollectiveKind::kAllReduce,
          .buffer_bytes = static_cast<int64_t>(values.size() * sizeof(T))};
}

int64_t Total(absl::Span<const int64_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

}  // namespace

int64_t CollectiveCall::Bytes() const {
  const int64_t counted =
      std::max(Total(send_counts), Total(recv_counts)) * element_bytes;
  return std::max(buffer_bytes, counted);
}

absl::Status WrappedCommunicator::AllToAllv(
    const void* send, absl::Span<const int64_t> send_bytes, void* recv,
    absl::Span<const int64_t> recv_bytes) {
  return Around(
      {.kind = CollectiveKind::kAllToAll,
       .send_counts = send_bytes,
       .recv_counts = recv_bytes},
      [&] { return inner_->AllToAllv(send, send_bytes, recv, recv_bytes); });
}

absl::Status WrappedCommunicator::AllGatherv(
    const void* send, void* recv, absl::Span<const int64_t> recv_bytes) {
  return Around({.kind = CollectiveKind::kAllGather, .recv_counts = recv_bytes},
                [&] { return inner_->AllGatherv(send, recv, recv_bytes); });
}

absl::Status WrappedCommunicator::AllReduceSum(absl::Span<float> values) {
  return Around(AllReduceOf(values),
                [&] { return inner_->AllReduceSum(values); });
}

absl::Status WrappedCommunicator::AllReduceSum(absl::Span<double> values) {
  return Around(AllReduceOf(values),
                [&] { return inner_->AllReduceSum(values); });
}

absl::Status WrappedCommunicator::AllReduceSum(absl::Span<int64_t> values) {
  return Around(AllReduceOf(values),
                [&] { return inner_->AllReduceSum(values); });
}

absl::Status WrappedCommunicator::AllReduceMin(absl::Span<int64_t> values) {
  return Around(AllReduceOf(values),
                [&] { return inner_->AllReduceMin(values); });
}

template <typename T>
absl::Status WrappedCommunicator::ReduceScatter(
    absl::Span<const T> send, absl::Span<const int64_t> counts,
    absl::Span<T> recv) {
  return Around({.kind = CollectiveKind::kReduceScatter,
                 .send_counts = counts,
                 .element_bytes = sizeof(T)},
                [&] { return inner_->ReduceScatterSum(send, counts, recv); });
}

absl::Status WrappedCommunicator::ReduceScatterSum(
    absl::Span<const float> send, absl::Span<const int64_t> counts,
    absl::Span<float> recv) {
  return ReduceScatter(send, counts, recv);
}

absl::Status WrappedCommunicator::ReduceScatterSum(
    absl::Span<const double> send, absl::Span<const int64_t> counts,
    absl::Span<double> recv) {
  return ReduceScatter(send, counts, recv);
}

absl::Status WrappedCommunicator::Broadcast(void* data, int64_t bytes,
                                            int root) {
  return Around(
      {.kind = CollectiveKind::kBroadcast, .buffer_bytes = bytes, .peer = root},
      [&] { return inner_->Broadcast(data, bytes, root); });
}

absl::Status WrappedCommunicator::Send(const void* data, int64_t bytes,
                                       int peer) {
  return Around(
      {.kind = CollectiveKind::kSend, .buffer_bytes = bytes, .peer = peer},
      [&] { return inner_->Send(data, bytes, peer); });
}

absl::Status WrappedCommunicator::Recv(void* data, int64_t bytes, int peer) {
  return Around(
      {.kind = CollectiveKind::kReceive, .buffer_bytes = bytes, .peer = peer},
      [&] { return inner_->Recv(data, bytes, peer); });
}

absl::Status WrappedCommunicator::Barrier() {
  return Around({.kind = CollectiveKind::kBarrier},
                [&] { return inner_->Barrier(); });
}

}  // namespace evenstep::trainer
