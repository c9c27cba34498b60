#include "worker/trainer/comm/communicator.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace evenstep::trainer {
namespace {

int64_t Total(absl::Span<const int64_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

// One count per rank, none negative.
absl::Status CheckCounts(absl::Span<const int64_t> counts, int size,
                         absl::string_view what) {
  if (static_cast<int>(counts.size()) != size) {
    return absl::InvalidArgumentError(absl::StrCat(
        counts.size(), " ", what, " counts for a group of ", size, " ranks"));
  }
  for (int64_t count : counts) {
    if (count < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("a ", what, " count is negative: ", count));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckRoot(int64_t bytes, int root, int size) {
  if (root >= 0 && root < size && bytes >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "broadcast of ", bytes, " bytes from rank ", root, " of ", size));
}

// Another rank of the group.
absl::Status CheckPeer(int64_t bytes, int peer, int rank, int size) {
  if (peer >= 0 && peer < size && peer != rank && bytes >= 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("message of ", bytes, " bytes between rank ", rank,
                   " and rank ", peer, " of ", size));
}

absl::Status Check(const Collective& call, int rank, int size) {
  switch (call.kind) {
    case CollectiveKind::kAllToAll:
      EVENSTEP_RETURN_IF_ERROR(CheckCounts(call.send_counts, size, "send"));
      return CheckCounts(call.recv_counts, size, "receive");
    case CollectiveKind::kAllGather:
      return CheckCounts(call.recv_counts, size, "receive");
    case CollectiveKind::kReduceScatter:
      return CheckCounts(call.send_counts, size, "value");
    case CollectiveKind::kBroadcast:
      return CheckRoot(call.count, call.peer, size);
    case CollectiveKind::kSend:
    case CollectiveKind::kReceive:
      return CheckPeer(call.count, call.peer, rank, size);
    case CollectiveKind::kAllReduce:
    case CollectiveKind::kAllReduceShares:
    case CollectiveKind::kBarrier:
      return absl::OkStatus();
  }
  return absl::OkStatus();
}

template <typename T>
Collective AllReduceOf(absl::Span<T> values, ElementType type, ReduceOp op) {
  return {.kind = CollectiveKind::kAllReduce,
          .type = type,
          .op = op,
          .send = values.data(),
          .recv = values.data(),
          .count = static_cast<int64_t>(values.size())};
}

// Both buffers hold what `counts` says; what is wrong with the counts
// themselves is found by Check.
absl::Status CheckShares(absl::Span<const int64_t> counts, int rank, int size,
                         size_t num_sent, size_t num_received) {
  if (static_cast<int>(counts.size()) != size) return absl::OkStatus();
  const int64_t total = Total(counts);
  const int64_t own = counts[rank];
  if (static_cast<int64_t>(num_sent) == total &&
      static_cast<int64_t>(num_received) == own) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("reduce-scatter of ", total, " values, ", own, " for rank ",
                   rank, ", has buffers of ", num_sent, " and ", num_received));
}

}  // namespace

absl::string_view CollectiveName(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kAllToAll:
      return "all-to-all";
    case CollectiveKind::kAllGather:
      return "all-gather";
    case CollectiveKind::kAllReduce:
      return "all-reduce";
    case CollectiveKind::kAllReduceShares:
      return "all-reduce (first half)";
    case CollectiveKind::kReduceScatter:
      return "reduce-scatter";
    case CollectiveKind::kBroadcast:
      return "broadcast";
    case CollectiveKind::kSend:
      return "send";
    case CollectiveKind::kReceive:
      return "receive";
    case CollectiveKind::kBarrier:
      return "barrier";
  }
  return "unknown collective";
}

int64_t ElementBytes(ElementType type) {
  switch (type) {
    case ElementType::kByte:
      return 1;
    case ElementType::kFloat32:
      return 4;
    case ElementType::kFloat64:
    case ElementType::kInt64:
      return 8;
  }
  return 1;
}

int64_t Collective::Bytes() const {
  return std::max({count, Total(send_counts), Total(recv_counts)}) *
         ElementBytes(type);
}

absl::Status Communicator::CheckAndRun(const Collective& call) {
  EVENSTEP_RETURN_IF_ERROR(Check(call, rank(), size()));
  return Run(call);
}

absl::Status Communicator::AllToAllv(const void* send,
                                     absl::Span<const int64_t> send_bytes,
                                     void* recv,
                                     absl::Span<const int64_t> recv_bytes) {
  return CheckAndRun({.kind = CollectiveKind::kAllToAll,
                      .send = send,
                      .recv = recv,
                      .send_counts = send_bytes,
                      .recv_counts = recv_bytes});
}

absl::Status Communicator::AllGatherv(const void* send, void* recv,
                                      absl::Span<const int64_t> recv_bytes) {
  return CheckAndRun({.kind = CollectiveKind::kAllGather,
                      .send = send,
                      .recv = recv,
                      .recv_counts = recv_bytes});
}

absl::Status Communicator::AllReduceSum(absl::Span<float> values) {
  return Run(AllReduceOf(values, ElementType::kFloat32, ReduceOp::kSum));
}

absl::Status Communicator::AllReduceSum(absl::Span<double> values) {
  return Run(AllReduceOf(values, ElementType::kFloat64, ReduceOp::kSum));
}

absl::Status Communicator::AllReduceSum(absl::Span<int64_t> values) {
  return Run(AllReduceOf(values, ElementType::kInt64, ReduceOp::kSum));
}

absl::Status Communicator::AllReduceMin(absl::Span<int64_t> values) {
  return Run(AllReduceOf(values, ElementType::kInt64, ReduceOp::kMin));
}

absl::Status Communicator::ReduceScatterSum(absl::Span<const float> send,
                                            absl::Span<const int64_t> counts,
                                            absl::Span<float> recv) {
  EVENSTEP_RETURN_IF_ERROR(
      CheckShares(counts, rank(), size(), send.size(), recv.size()));
  return CheckAndRun({.kind = CollectiveKind::kReduceScatter,
                      .type = ElementType::kFloat32,
                      .send = send.data(),
                      .recv = recv.data(),
                      .send_counts = counts});
}

absl::Status Communicator::ReduceScatterSum(absl::Span<const double> send,
                                            absl::Span<const int64_t> counts,
                                            absl::Span<double> recv) {
  EVENSTEP_RETURN_IF_ERROR(
      CheckShares(counts, rank(), size(), send.size(), recv.size()));
  return CheckAndRun({.kind = CollectiveKind::kReduceScatter,
                      .type = ElementType::kFloat64,
                      .send = send.data(),
                      .recv = recv.data(),
                      .send_counts = counts});
}

absl::Status Communicator::Broadcast(void* data, int64_t bytes, int root) {
  return CheckAndRun({.kind = CollectiveKind::kBroadcast,
                      .send = data,
                      .recv = data,
                      .count = bytes,
                      .peer = root});
}

absl::Status Communicator::Send(const void* data, int64_t bytes, int peer) {
  return CheckAndRun({.kind = CollectiveKind::kSend,
                      .send = data,
                      .count = bytes,
                      .peer = peer});
}

absl::Status Communicator::Recv(void* data, int64_t bytes, int peer) {
  return CheckAndRun({.kind = CollectiveKind::kReceive,
                      .recv = data,
                      .count = bytes,
                      .peer = peer});
}

absl::Status Communicator::Barrier() { return Run({}); }

}  // namespace evenstep::trainer
