#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/status_macros.h"
#include "worker/trainer/comm/communicator_factory.h"
#include "worker/trainer/comm/exchange.h"
#include "worker/trainer/comm/thread_cpu.h"

namespace evenstep::trainer {
namespace {

// Below this, an all-reduce sends everything to everyone in one round; above,
// each rank sums a part and hands it out, in two.
constexpr int64_t kOneRoundBytes = 64 << 10;

using Clock = std::chrono::steady_clock;

// Adds the life of the scope to two counters: by the wall and by the CPU of
// this thread.
class ScopedTimer {
 public:
  ScopedTimer(std::atomic<int64_t>* total_ns, std::atomic<int64_t>* cpu_ns)
      : total_ns_(total_ns),
        cpu_ns_(cpu_ns),
        start_(Clock::now()),
        start_cpu_ns_(ThreadCpuNs()) {}
  ~ScopedTimer() {
    *total_ns_ += std::chrono::duration_cast<std::chrono::nanoseconds>(
                      Clock::now() - start_)
                      .count();
    *cpu_ns_ += ThreadCpuNs() - start_cpu_ns_;
  }

 private:
  std::atomic<int64_t>* const total_ns_;
  std::atomic<int64_t>* const cpu_ns_;
  const Clock::time_point start_;
  const int64_t start_cpu_ns_;
};

struct Sum {
  template <typename T>
  static T Of(T a, T b) {
    return a + b;
  }
};
struct Min {
  static int64_t Of(int64_t a, int64_t b) { return std::min(a, b); }
};

// into = parts[0] op parts[1] op ..., in this order on every rank.
template <typename Op, typename T>
void Fold(const T* parts, int num_parts, int64_t count, T* into) {
  std::copy(parts, parts + count, into);
  for (int p = 1; p < num_parts; ++p) {
    const T* part = parts + p * count;
    for (int64_t i = 0; i < count; ++i) into[i] = Op::Of(into[i], part[i]);
  }
}

const std::byte* Bytes(const void* data) {
  return static_cast<const std::byte*>(data);
}
std::byte* Bytes(void* data) { return static_cast<std::byte*>(data); }

template <typename Run, typename Pointer>
std::vector<Run> EndToEnd(Pointer data, absl::Span<const int64_t> bytes) {
  std::vector<Run> runs;
  runs.reserve(bytes.size());
  for (int64_t count : bytes) {
    runs.push_back({data, count});
    data += count;
  }
  return runs;
}

// Contiguous share [begin, end) of `count` elements that rank p sums.
std::pair<int64_t, int64_t> Share(int64_t count, int size, int p) {
  const int64_t chunk = (count + size - 1) / size;
  return {std::min(count, p * chunk), std::min(count, (p + 1) * chunk)};
}

class MeshCommunicator : public Communicator {
 public:
  explicit MeshCommunicator(std::unique_ptr<Exchange> exchange)
      : exchange_(std::move(exchange)) {}

  int rank() const override { return exchange_->rank(); }
  int size() const override { return exchange_->size(); }
  int64_t collective_ns() const override { return collective_ns_; }
  int64_t collective_cpu_ns() const override { return collective_cpu_ns_; }

  absl::Status Run(const Collective& call) override;
  void Abort(absl::string_view why) override ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  absl::Status AllToAll(const Collective& call);
  absl::Status AllGather(const Collective& call);
  absl::Status Broadcast(const Collective& call);
  absl::Status Message(const Collective& call);
  absl::Status Barrier();
  absl::Status AllReduce(const Collective& call);
  template <typename Op, typename T>
  absl::Status AllReduce(absl::Span<T> values);
  template <typename Op, typename T>
  absl::Status AllReduceInOneRound(absl::Span<T> values);
  template <typename Op, typename T>
  absl::Status AllReduceByShares(absl::Span<T> values);
  template <typename T>
  absl::Status ReduceScatter(const Collective& call);

  absl::Status Swap(CollectiveKind kind, absl::Span<const SendRun> sends,
                    absl::Span<const ReceiveRun> receives) {
    return Timed([&] { return exchange_->Run(kind, sends, receives); });
  }
  // Runs `body` unless broken, counts its time and keeps its error.
  template <typename Body>
  absl::Status Timed(const Body& body) ABSL_LOCKS_EXCLUDED(mutex_);
  // Keeps the first error and returns it.
  absl::Status Break(absl::Status error) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status state() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return state_;
  }
  template <typename T>
  T* Scratch(int64_t count) {
    scratch_.resize(std::max(scratch_.size(), count * sizeof(T)));
    return reinterpret_cast<T*>(scratch_.data());
  }

  const std::unique_ptr<Exchange> exchange_;
  std::atomic<int64_t> collective_ns_ = 0;
  std::atomic<int64_t> collective_cpu_ns_ = 0;
  std::vector<std::byte> scratch_;
  mutable absl::Mutex mutex_;
  absl::Status state_ ABSL_GUARDED_BY(mutex_);
};

template <typename Body>
absl::Status MeshCommunicator::Timed(const Body& body) {
  EVENSTEP_RETURN_IF_ERROR(state());
  ScopedTimer timer(&collective_ns_, &collective_cpu_ns_);
  absl::Status status = body();
  if (status.ok()) return status;
  return Break(std::move(status));
}

absl::Status MeshCommunicator::Break(absl::Status error) {
  absl::MutexLock lock(&mutex_);
  if (state_.ok()) state_ = std::move(error);
  return state_;
}

void MeshCommunicator::Abort(absl::string_view why) {
  {
    absl::MutexLock lock(&mutex_);
    if (!state_.ok()) return;
    state_ = absl::AbortedError(absl::StrCat("collectives aborted: ", why));
  }
  exchange_->Abort(why);
}

absl::Status MeshCommunicator::Run(const Collective& call) {
  switch (call.kind) {
    case CollectiveKind::kAllToAll:
      return AllToAll(call);
    case CollectiveKind::kAllGather:
      return AllGather(call);
    case CollectiveKind::kAllReduce:
    case CollectiveKind::kAllReduceShares:
      return AllReduce(call);
    case CollectiveKind::kReduceScatter:
      if (call.type == ElementType::kFloat32) return ReduceScatter<float>(call);
      if (call.type == ElementType::kFloat64)
        return ReduceScatter<double>(call);
      return absl::InternalError("only floating point values are scattered");
    case CollectiveKind::kBroadcast:
      return Broadcast(call);
    case CollectiveKind::kSend:
    case CollectiveKind::kReceive:
      return Message(call);
    case CollectiveKind::kBarrier:
      return Barrier();
  }
  return absl::InternalError("an unknown collective");
}

absl::Status MeshCommunicator::AllToAll(const Collective& call) {
  return Swap(call.kind, EndToEnd<SendRun>(Bytes(call.send), call.send_counts),
              EndToEnd<ReceiveRun>(Bytes(call.recv), call.recv_counts));
}

absl::Status MeshCommunicator::AllGather(const Collective& call) {
  const std::vector<SendRun> sends(
      size(), {Bytes(call.send), call.recv_counts[rank()]});
  return Swap(call.kind, sends,
              EndToEnd<ReceiveRun>(Bytes(call.recv), call.recv_counts));
}

absl::Status MeshCommunicator::Broadcast(const Collective& call) {
  std::vector<SendRun> sends(size());
  std::vector<ReceiveRun> receives(size());
  if (rank() == call.peer) {
    sends.assign(size(), {Bytes(call.send), call.count});
    sends[call.peer].bytes = 0;
  } else {
    receives[call.peer] = {Bytes(call.recv), call.count};
  }
  return Swap(call.kind, sends, receives);
}

absl::Status MeshCommunicator::Message(const Collective& call) {
  if (call.count == 0) return state();
  return Timed([&] {
    return call.kind == CollectiveKind::kSend
               ? exchange_->Send(call.peer, {Bytes(call.send), call.count})
               : exchange_->Receive(call.peer, {Bytes(call.recv), call.count});
  });
}

absl::Status MeshCommunicator::Barrier() {
  const std::byte mine{};
  std::vector<std::byte> theirs(size());
  const std::vector<SendRun> sends(size(), {&mine, 1});
  std::vector<ReceiveRun> receives(size());
  for (int p = 0; p < size(); ++p) receives[p] = {&theirs[p], 1};
  return Swap(CollectiveKind::kBarrier, sends, receives);
}

template <typename T>
absl::Span<T> ValuesOf(const Collective& call) {
  return absl::MakeSpan(static_cast<T*>(call.recv), call.count);
}

absl::Status MeshCommunicator::AllReduce(const Collective& call) {
  switch (call.type) {
    case ElementType::kFloat32:
      return AllReduce<Sum>(ValuesOf<float>(call));
    case ElementType::kFloat64:
      return AllReduce<Sum>(ValuesOf<double>(call));
    case ElementType::kInt64:
      return call.op == ReduceOp::kSum
                 ? AllReduce<Sum>(ValuesOf<int64_t>(call))
                 : AllReduce<Min>(ValuesOf<int64_t>(call));
    case ElementType::kByte:
      break;
  }
  return absl::InternalError("bytes are not summed");
}

template <typename Op, typename T>
absl::Status MeshCommunicator::AllReduce(absl::Span<T> values) {
  if (size() == 1) return state();
  const int64_t bytes = static_cast<int64_t>(values.size() * sizeof(T));
  if (bytes <= kOneRoundBytes) return AllReduceInOneRound<Op>(values);
  return AllReduceByShares<Op>(values);
}

template <typename Op, typename T>
absl::Status MeshCommunicator::AllReduceInOneRound(absl::Span<T> values) {
  const int64_t count = static_cast<int64_t>(values.size());
  const int64_t bytes = count * static_cast<int64_t>(sizeof(T));
  T* parts = Scratch<T>(count * size());
  const std::vector<SendRun> sends(size(), {Bytes(values.data()), bytes});
  EVENSTEP_RETURN_IF_ERROR(Swap(
      CollectiveKind::kAllReduce, sends,
      EndToEnd<ReceiveRun>(Bytes(parts), std::vector<int64_t>(size(), bytes))));
  Fold<Op>(parts, size(), count, values.data());
  return absl::OkStatus();
}

template <typename Op, typename T>
absl::Status MeshCommunicator::AllReduceByShares(absl::Span<T> values) {
  const int64_t count = static_cast<int64_t>(values.size());
  const int64_t element = sizeof(T);
  const auto [begin, end] = Share(count, size(), rank());
  const int64_t own = end - begin;
  T* parts = Scratch<T>(own * size());
  std::vector<SendRun> sends(size());
  std::vector<ReceiveRun> receives(size());
  for (int p = 0; p < size(); ++p) {
    const auto [from, to] = Share(count, size(), p);
    sends[p] = {Bytes(values.data() + from), (to - from) * element};
    receives[p] = {Bytes(parts + p * own), own * element};
  }
  EVENSTEP_RETURN_IF_ERROR(
      Swap(CollectiveKind::kAllReduceShares, sends, receives));
  Fold<Op>(parts, size(), own, values.data() + begin);
  for (int p = 0; p < size(); ++p) {
    const auto [from, to] = Share(count, size(), p);
    receives[p] = {Bytes(values.data() + from), (to - from) * element};
    sends[p] = {Bytes(values.data() + begin), own * element};
  }
  sends[rank()].bytes = receives[rank()].bytes = 0;
  return Swap(CollectiveKind::kAllReduce, sends, receives);
}

template <typename T>
absl::Status MeshCommunicator::ReduceScatter(const Collective& call) {
  constexpr int64_t kElement = sizeof(T);
  const int64_t own = call.send_counts[rank()];
  T* parts = Scratch<T>(own * size());
  std::vector<int64_t> send_bytes;
  for (int64_t count : call.send_counts) {
    send_bytes.push_back(count * kElement);
  }
  EVENSTEP_RETURN_IF_ERROR(
      Swap(call.kind, EndToEnd<SendRun>(Bytes(call.send), send_bytes),
           EndToEnd<ReceiveRun>(Bytes(parts),
                                std::vector<int64_t>(size(), own * kElement))));
  Fold<Sum>(parts, size(), own, static_cast<T*>(call.recv));
  return absl::OkStatus();
}

}  // namespace

std::unique_ptr<Communicator> MakeMeshCommunicator(
    std::unique_ptr<Exchange> exchange) {
  return std::make_unique<MeshCommunicator>(std::move(exchange));
}

absl::Status WarmOnHost(Communicator& communicator) {
  std::vector<float> values(1, 1.0F);
  EVENSTEP_RETURN_IF_ERROR(communicator.AllReduceSum(absl::MakeSpan(values)));
  if (values[0] != static_cast<float>(communicator.size())) {
    return absl::InternalError(absl::StrCat(
        "a sum of ones over ", communicator.size(), " ranks is ", values[0]));
  }
  constexpr int64_t kBytesPerPeer = 64 << 10;
  const std::vector<int64_t> bytes(communicator.size(), kBytesPerPeer);
  const std::vector<char> send(kBytesPerPeer * communicator.size());
  std::vector<char> recv(send.size());
  EVENSTEP_RETURN_IF_ERROR(
      communicator.AllToAllv(send.data(), bytes, recv.data(), bytes));
  return communicator.Barrier();
}

}  // namespace evenstep::trainer
