#include "worker/trainer/comm/nccl_communicator.h"

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "worker/trainer/comm/communicator_factory.h"
#include "worker/trainer/comm/nccl_session.h"

namespace evenstep::trainer {
namespace {

NcclType TypeOf(ElementType type) {
  switch (type) {
    case ElementType::kByte:
      return NcclType::kUint8;
    case ElementType::kFloat32:
      return NcclType::kFloat32;
    case ElementType::kFloat64:
      return NcclType::kFloat64;
    case ElementType::kInt64:
      return NcclType::kInt64;
  }
  return NcclType::kUint8;
}

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

  absl::Status Run(const Collective& call) override;
  void Abort(absl::string_view why) override { session_->Abort(why); }

  // Connections are made by first use: one collective of each kind that they
  // differ by.
  absl::Status Warm();

  // Bytes of the scratch memory for a group of `size` ranks: what Warm moves.
  static int64_t ScratchBytes(int size) { return 2 * kWarmBytes * size; }

 private:
  static constexpr int64_t kWarmBytes = 1024;

  // On the session's stream.
  NcclResult Enqueue(const Collective& call, const NcclPlace& place);
  NcclResult EnqueueAllToAll(const Collective& call, const NcclPlace& place);
  NcclResult EnqueueAllGather(const Collective& call, const NcclPlace& place);
  NcclResult EnqueueReduceScatter(const Collective& call,
                                  const NcclPlace& place);

  std::unique_ptr<NcclSession> session_;
  NcclTable& table_;
  void* const scratch_;
};

// Whether the call moves nothing on any rank.
bool IsEmpty(const Collective& call) {
  switch (call.kind) {
    case CollectiveKind::kAllReduce:
    case CollectiveKind::kAllReduceShares:
    case CollectiveKind::kBroadcast:
    case CollectiveKind::kSend:
    case CollectiveKind::kReceive:
      return call.count == 0;
    default:
      return false;
  }
}

absl::Status NcclCommunicator::Run(const Collective& call) {
  if (IsEmpty(call)) return session_->state();
  return session_->Run(
      call.kind, [&](const NcclPlace& place) { return Enqueue(call, place); });
}

NcclResult NcclCommunicator::Enqueue(const Collective& call,
                                     const NcclPlace& place) {
  switch (call.kind) {
    case CollectiveKind::kAllToAll:
      return EnqueueAllToAll(call, place);
    case CollectiveKind::kAllGather:
      return EnqueueAllGather(call, place);
    case CollectiveKind::kAllReduce:
    case CollectiveKind::kAllReduceShares:
      return table_.AllReduce(
          call.send, call.recv, call.count, TypeOf(call.type),
          call.op == ReduceOp::kSum ? NcclOp::kSum : NcclOp::kMin, place);
    case CollectiveKind::kReduceScatter:
      return EnqueueReduceScatter(call, place);
    case CollectiveKind::kBroadcast:
      return table_.Broadcast(call.recv, call.count, call.peer, place);
    case CollectiveKind::kSend:
      return table_.Send(call.send, call.count, call.peer, place);
    case CollectiveKind::kReceive:
      return table_.Recv(call.recv, call.count, call.peer, place);
    case CollectiveKind::kBarrier:
      break;
  }
  return table_.AllReduce(scratch_, scratch_, 1, NcclType::kInt64, NcclOp::kSum,
                          place);
}

NcclResult NcclCommunicator::EnqueueAllToAll(const Collective& call,
                                             const NcclPlace& place) {
  return Grouped(table_, [&](const auto& keep) {
    const std::byte* from = Bytes(call.send);
    std::byte* to = Bytes(call.recv);
    for (int p = 0; p < size(); ++p) {
      const int64_t sent = call.send_counts[p];
      const int64_t received = call.recv_counts[p];
      if (sent > 0) keep(table_.Send(from, sent, p, place));
      if (received > 0) keep(table_.Recv(to, received, p, place));
      from += sent;
      to += received;
    }
  });
}

NcclResult NcclCommunicator::EnqueueAllGather(const Collective& call,
                                              const NcclPlace& place) {
  const int64_t own = call.recv_counts[rank()];
  return Grouped(table_, [&](const auto& keep) {
    std::byte* to = Bytes(call.recv);
    for (int p = 0; p < size(); ++p) {
      const int64_t received = call.recv_counts[p];
      if (own > 0) keep(table_.Send(call.send, own, p, place));
      if (received > 0) keep(table_.Recv(to, received, p, place));
      to += received;
    }
  });
}

// One reduction to each rank, since NCCL's own takes equal counts only.
NcclResult NcclCommunicator::EnqueueReduceScatter(const Collective& call,
                                                  const NcclPlace& place) {
  return Grouped(table_, [&](const auto& keep) {
    const std::byte* from = Bytes(call.send);
    for (int p = 0; p < size(); ++p) {
      const int64_t count = call.send_counts[p];
      if (count > 0) {
        keep(
            table_.Reduce(from, call.recv, count, TypeOf(call.type), p, place));
      }
      from += count * ElementBytes(call.type);
    }
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
