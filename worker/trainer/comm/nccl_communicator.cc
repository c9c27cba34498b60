#include "worker/trainer/comm/nccl_communicator.h"

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "worker/trainer/comm/call_checks.h"
#include "worker/trainer/comm/nccl_session.h"

namespace evenstep::trainer {
namespace {

template <typename T>
constexpr NcclType kTypeOf = NcclType::kUint8;
template <>
constexpr NcclType kTypeOf<float> = NcclType::kFloat32;
template <>
constexpr NcclType kTypeOf<double> = NcclType::kFloat64;
template <>
constexpr NcclType kTypeOf<int64_t> = NcclType::kInt64;

const std::byte* Bytes(const void* data) {
  return static_cast<const std::byte*>(data);
}
std::byte* Bytes(void* data) { return static_cast<std::byte*>(data); }

// Remembers the first error of several calls.
void Keep(NcclResult next, NcclResult* result) {
  if (*result == NcclResult::kSuccess || *result == NcclResult::kInProgress) {
    if (next != NcclResult::kSuccess) *result = next;
  }
}

// `calls` between GroupStart and GroupEnd, which run at once.
template <typename Calls>
NcclResult Grouped(NcclTable& table, const Calls& calls) {
  NcclResult result = table.GroupStart();
  calls([&result](NcclResult next) { Keep(next, &result); });
  Keep(table.GroupEnd(), &result);
  return result;
}

class NcclCommunicator : public Communicator {
 public:
  NcclCommunicator(std::unique_ptr<NcclSession> session, void* scratch)
      : session_(std::move(session)),
        table_(session_->table()),
        scratch_(scratch) {}
  ~NcclCommunicator() override {
    // Nothing may still work on it.
    session_.reset();
    table_.Free(scratch_);
  }

  int rank() const override { return session_->rank(); }
  int size() const override { return session_->size(); }
  int64_t collective_ns() const override { return session_->collective_ns(); }

  absl::Status AllToAllv(const void* send, absl::Span<const int64_t> send_bytes,
                         void* recv,
                         absl::Span<const int64_t> recv_bytes) override;
  absl::Status AllGatherv(const void* send, void* recv,
                          absl::Span<const int64_t> recv_bytes) override;
  absl::Status AllReduceSum(absl::Span<float> values) override {
    return AllReduce(values, NcclOp::kSum);
  }
  absl::Status AllReduceSum(absl::Span<double> values) override {
    return AllReduce(values, NcclOp::kSum);
  }
  absl::Status AllReduceSum(absl::Span<int64_t> values) override {
    return AllReduce(values, NcclOp::kSum);
  }
  absl::Status AllReduceMin(absl::Span<int64_t> values) override {
    return AllReduce(values, NcclOp::kMin);
  }
  absl::Status ReduceScatterSum(absl::Span<const float> send,
                                absl::Span<const int64_t> counts,
                                absl::Span<float> recv) override {
    return ReduceScatter(send, counts, recv);
  }
  absl::Status ReduceScatterSum(absl::Span<const double> send,
                                absl::Span<const int64_t> counts,
                                absl::Span<double> recv) override {
    return ReduceScatter(send, counts, recv);
  }
  absl::Status Broadcast(void* data, int64_t bytes, int root) override;
  absl::Status Send(const void* data, int64_t bytes, int peer) override;
  absl::Status Recv(void* data, int64_t bytes, int peer) override;
  absl::Status Barrier() override;
  void Abort(absl::string_view why) override { session_->Abort(why); }

  // Connections are made by first use: one collective of each kind that they
  // differ by.
  absl::Status Warm();

  // Bytes of the scratch memory for a group of `size` ranks: what Warm moves.
  static int64_t ScratchBytes(int size) { return 2 * kWarmBytes * size; }

 private:
  static constexpr int64_t kWarmBytes = 1024;

  template <typename T>
  absl::Status AllReduce(absl::Span<T> values, NcclOp op);
  template <typename T>
  absl::Status ReduceScatter(absl::Span<const T> send,
                             absl::Span<const int64_t> counts,
                             absl::Span<T> recv);

  std::unique_ptr<NcclSession> session_;
  NcclTable& table_;
  void* const scratch_;
};

absl::Status NcclCommunicator::AllToAllv(const void* send,
                                         absl::Span<const int64_t> send_bytes,
                                         void* recv,
                                         absl::Span<const int64_t> recv_bytes) {
  EVENSTEP_RETURN_IF_ERROR(CheckCounts(send_bytes, size(), "send"));
  EVENSTEP_RETURN_IF_ERROR(CheckCounts(recv_bytes, size(), "receive"));
  return session_->Run(CollectiveKind::kAllToAll, [&](const NcclPlace& place) {
    return Grouped(table_, [&](const auto& keep) {
      const std::byte* from = Bytes(send);
      std::byte* to = Bytes(recv);
      for (int p = 0; p < size(); ++p) {
        if (send_bytes[p] > 0) {
          keep(table_.Send(from, send_bytes[p], p, place));
        }
        if (recv_bytes[p] > 0) keep(table_.Recv(to, recv_bytes[p], p, place));
        from += send_bytes[p];
        to += recv_bytes[p];
      }
    });
  });
}

absl::Status NcclCommunicator::AllGatherv(
    const void* send, void* recv, absl::Span<const int64_t> recv_bytes) {
  EVENSTEP_RETURN_IF_ERROR(CheckCounts(recv_bytes, size(), "receive"));
  const int64_t own_bytes = recv_bytes[rank()];
  return session_->Run(CollectiveKind::kAllGather, [&](const NcclPlace& place) {
    return Grouped(table_, [&](const auto& keep) {
      std::byte* to = Bytes(recv);
      for (int p = 0; p < size(); ++p) {
        if (own_bytes > 0) keep(table_.Send(send, own_bytes, p, place));
        if (recv_bytes[p] > 0) keep(table_.Recv(to, recv_bytes[p], p, place));
        to += recv_bytes[p];
      }
    });
  });
}

template <typename T>
absl::Status NcclCommunicator::AllReduce(absl::Span<T> values, NcclOp op) {
  if (values.empty()) return session_->state();
  return session_->Run(CollectiveKind::kAllReduce, [&](const NcclPlace& place) {
    return table_.AllReduce(values.data(), values.data(),
                            static_cast<int64_t>(values.size()), kTypeOf<T>, op,
                            place);
  });
}

// One reduction to each rank, since NCCL's own takes equal counts only.
template <typename T>
absl::Status NcclCommunicator::ReduceScatter(absl::Span<const T> send,
                                             absl::Span<const int64_t> counts,
                                             absl::Span<T> recv) {
  EVENSTEP_RETURN_IF_ERROR(
      CheckShares(counts, {rank(), size()}, send.size(), recv.size()));
  return session_->Run(CollectiveKind::kReduceScatter,
                       [&](const NcclPlace& place) {
                         return Grouped(table_, [&](const auto& keep) {
                           const T* from = send.data();
                           for (int p = 0; p < size(); ++p) {
                             if (counts[p] > 0) {
                               keep(table_.Reduce(from, recv.data(), counts[p],
                                                  kTypeOf<T>, p, place));
                             }
                             from += counts[p];
                           }
                         });
                       });
}

absl::Status NcclCommunicator::Broadcast(void* data, int64_t bytes, int root) {
  EVENSTEP_RETURN_IF_ERROR(CheckRoot(bytes, root, size()));
  if (bytes == 0) return session_->state();
  return session_->Run(CollectiveKind::kBroadcast, [&](const NcclPlace& place) {
    return table_.Broadcast(data, bytes, root, place);
  });
}

absl::Status NcclCommunicator::Send(const void* data, int64_t bytes, int peer) {
  EVENSTEP_RETURN_IF_ERROR(CheckPeer(bytes, peer, rank(), size()));
  if (bytes == 0) return session_->state();
  return session_->Run(CollectiveKind::kSend, [&](const NcclPlace& place) {
    return table_.Send(data, bytes, peer, place);
  });
}

absl::Status NcclCommunicator::Recv(void* data, int64_t bytes, int peer) {
  EVENSTEP_RETURN_IF_ERROR(CheckPeer(bytes, peer, rank(), size()));
  if (bytes == 0) return session_->state();
  return session_->Run(CollectiveKind::kReceive, [&](const NcclPlace& place) {
    return table_.Recv(data, bytes, peer, place);
  });
}

absl::Status NcclCommunicator::Barrier() {
  return session_->Run(CollectiveKind::kBarrier, [&](const NcclPlace& place) {
    return table_.AllReduce(scratch_, scratch_, 1, NcclType::kInt64,
                            NcclOp::kSum, place);
  });
}

absl::Status NcclCommunicator::Warm() {
  const std::vector<int64_t> bytes(size(), kWarmBytes);
  EVENSTEP_RETURN_IF_ERROR(
      AllToAllv(scratch_, bytes, Bytes(scratch_) + kWarmBytes * size(), bytes));
  return Barrier();
}

class NcclFactory : public CommunicatorFactory {
 public:
  NcclFactory(NcclOptions options, NcclTable* table, RendezvousStore* store)
      : options_(std::move(options)),
        timeout_ms_(std::make_shared<SharedTimeoutMs>(
            absl::ToInt64Milliseconds(options_.timeout))),
        watchdog_(std::make_shared<Watchdog>(options_.end_process)),
        table_(table),
        store_(store) {}

  void SetTimeout(absl::Duration timeout) override {
    *timeout_ms_ = absl::ToInt64Milliseconds(timeout);
  }

  absl::StatusOr<std::unique_ptr<Communicator>> Create(const std::string& key,
                                                       const RankBlock& block,
                                                       int world_rank) override;

 private:
  absl::StatusOr<NcclId> ShareId(const std::string& key, int rank);

  const NcclOptions options_;
  const std::shared_ptr<SharedTimeoutMs> timeout_ms_;
  const std::shared_ptr<Watchdog> watchdog_;  // of all groups of the rank
  NcclTable* const table_;
  RendezvousStore* const store_;
};

// The first rank of the group makes it.
absl::StatusOr<NcclId> NcclFactory::ShareId(const std::string& key, int rank) {
  const std::string id_key = absl::StrCat(key, "/nccl-id");
  NcclId id;
  if (rank == 0) {
    NcclResult result = NcclResult::kSuccess;
    watchdog_->Run({"id", key, options_.timeout + options_.abort_grace},
                   [&] { result = table_->GetUniqueId(&id); });
    if (result != NcclResult::kSuccess) {
      return absl::UnavailableError(absl::StrCat(
          "NCCL id of group ", key, " failed with code ",
          static_cast<int>(result), ": ", table_->ErrorText(result, nullptr)));
    }
    EVENSTEP_RETURN_IF_ERROR(
        store_->Set(id_key, std::string(id.bytes.data(), id.bytes.size())));
    return id;
  }
  EVENSTEP_ASSIGN_OR_RETURN(const std::string text,
                            store_->Get(id_key, options_.timeout));
  if (text.size() != id.bytes.size()) {
    return absl::InternalError(absl::StrCat("NCCL id of group ", key, " has ",
                                            text.size(), " bytes, not ",
                                            id.bytes.size()));
  }
  std::memcpy(id.bytes.data(), text.data(), text.size());
  return id;
}

absl::StatusOr<std::unique_ptr<Communicator>> NcclFactory::Create(
    const std::string& key, const RankBlock& block, int world_rank) {
  EVENSTEP_RETURN_IF_ERROR(CheckInBlock(block, world_rank));
  const int rank = world_rank - block.first_rank;
  EVENSTEP_ASSIGN_OR_RETURN(const NcclId id, ShareId(key, rank));
  EVENSTEP_ASSIGN_OR_RETURN(auto session,
                            NcclSession::Open({.table = table_,
                                               .options = options_,
                                               .timeout_ms = timeout_ms_,
                                               .watchdog = watchdog_,
                                               .group = key,
                                               .rank = rank,
                                               .size = block.degree},
                                              id));
  EVENSTEP_ASSIGN_OR_RETURN(
      void* const scratch,
      table_->Allocate(NcclCommunicator::ScratchBytes(block.degree)));
  auto communicator =
      std::make_unique<NcclCommunicator>(std::move(session), scratch);
  EVENSTEP_RETURN_IF_ERROR(communicator->Warm());
  return communicator;
}

}  // namespace

std::unique_ptr<CommunicatorFactory> MakeNcclFactory(NcclOptions options,
                                                     NcclTable* table,
                                                     RendezvousStore* store) {
  return std::make_unique<NcclFactory>(std::move(options), table, store);
}

}  // namespace evenstep::trainer
