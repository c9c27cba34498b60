#include "worker/trainer/comm/testing/fake_nccl.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace evenstep::trainer::testing {
namespace {

int64_t SizeOf(NcclType type) {
  switch (type) {
    case NcclType::kUint8:
      return 1;
    case NcclType::kFloat32:
      return 4;
    case NcclType::kInt64:
    case NcclType::kFloat64:
      return 8;
  }
  return 1;
}

template <typename T>
void Add(const void* from, int64_t count, NcclOp op, void* into) {
  const T* a = static_cast<const T*>(from);
  T* b = static_cast<T*>(into);
  for (int64_t i = 0; i < count; ++i) {
    b[i] = op == NcclOp::kSum ? b[i] + a[i] : std::min(b[i], a[i]);
  }
}

void Add(NcclType type, const void* from, int64_t count, NcclOp op,
         void* into) {
  switch (type) {
    case NcclType::kUint8:
      return Add<uint8_t>(from, count, op, into);
    case NcclType::kFloat32:
      return Add<float>(from, count, op, into);
    case NcclType::kInt64:
      return Add<int64_t>(from, count, op, into);
    case NcclType::kFloat64:
      return Add<double>(from, count, op, into);
  }
}

}  // namespace

class FakeNcclTable : public NcclTable {
 public:
  FakeNcclTable(FakeNccl* fake, NcclFaults* faults)
      : fake_(*fake), faults_(*faults) {}

  NcclResult GetUniqueId(NcclId* id) override {
    absl::MutexLock lock(&fake_.mutex_);
    const std::string name = absl::StrCat("id-", ++fake_.num_ids_);
    std::memcpy(id->bytes.data(), name.data(), name.size());
    return NcclResult::kSuccess;
  }
  NcclResult CommInit(NcclComm* comm, int size, const NcclId& id,
                      int rank) override;
  NcclResult CommAsyncError(NcclComm comm, NcclResult* state) override;
  NcclResult CommFinalize(NcclComm comm) override {
    fake_.HangIf(faults_.finalize_hangs);
    absl::MutexLock lock(&fake_.mutex_);
    Of(comm)->finalizing = true;
    return NcclResult::kInProgress;
  }
  NcclResult CommDestroy(NcclComm comm) override {
    absl::MutexLock lock(&fake_.mutex_);
    Forget(Of(comm));
    ++fake_.num_destroyed_;
    return NcclResult::kSuccess;
  }
  NcclResult CommAbort(NcclComm comm) override {
    fake_.HangIf(faults_.abort_hangs);
    absl::MutexLock lock(&fake_.mutex_);
    Forget(Of(comm));
    ++fake_.num_aborted_;
    return NcclResult::kSuccess;
  }

  NcclResult GroupStart() override {
    in_group_ = true;
    return NcclResult::kSuccess;
  }
  NcclResult GroupEnd() override {
    in_group_ = false;
    return Enqueue(std::exchange(grouped_, {}));
  }
  NcclResult AllReduce(const void* send, void* recv, int64_t count,
                       NcclType type, NcclOp op,
                       const NcclPlace& place) override {
    return Add({FakeNccl::Kind::kAllReduce, send, recv, count, type, op, 0},
               place);
  }
  NcclResult Reduce(const void* send, void* recv, int64_t count, NcclType type,
                    int root, const NcclPlace& place) override {
    return Add(
        {FakeNccl::Kind::kReduce, send, recv, count, type, NcclOp::kSum, root},
        place);
  }
  NcclResult Broadcast(void* data, int64_t bytes, int root,
                       const NcclPlace& place) override {
    return Add({FakeNccl::Kind::kBroadcast, data, data, bytes, NcclType::kUint8,
                NcclOp::kSum, root},
               place);
  }
  NcclResult Send(const void* data, int64_t bytes, int peer,
                  const NcclPlace& place) override {
    return Add({FakeNccl::Kind::kSend, data, nullptr, bytes, NcclType::kUint8,
                NcclOp::kSum, peer},
               place);
  }
  NcclResult Recv(void* data, int64_t bytes, int peer,
                  const NcclPlace& place) override {
    return Add({FakeNccl::Kind::kReceive, nullptr, data, bytes,
                NcclType::kUint8, NcclOp::kSum, peer},
               place);
  }

  std::string ErrorText(NcclResult result, NcclComm /*comm*/) override {
    return absl::StrCat("fake error ", static_cast<int>(result));
  }
  StreamState QueryStream(DeviceStream stream) override;
  absl::StatusOr<void*> Allocate(int64_t bytes) override {
    ++fake_.num_allocations_;
    return std::calloc(bytes, 1);
  }
  void Free(void* memory) override {
    --fake_.num_allocations_;
    std::free(memory);
  }

 private:
  using Placed = std::pair<NcclComm, FakeNccl::Operation>;

  static FakeNccl::Comm* Of(NcclComm comm) {
    return static_cast<FakeNccl::Comm*>(comm);
  }
  NcclResult Add(const FakeNccl::Operation& operation, const NcclPlace& place) {
    if (!in_group_) return Enqueue({{place.comm, operation}});
    grouped_.emplace_back(place.comm, operation);
    return NcclResult::kSuccess;
  }
  NcclResult Enqueue(std::vector<Placed> operations);
  void Forget(FakeNccl::Comm* comm)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(fake_.mutex_) {
    own_.erase(comm);
    fake_.Leave(comm);
  }

  FakeNccl& fake_;
  NcclFaults& faults_;
  bool in_group_ = false;
  std::vector<Placed> grouped_;
  std::set<FakeNccl::Comm*> own_ ABSL_GUARDED_BY(fake_.mutex_);
};

NcclResult FakeNcclTable::CommInit(NcclComm* comm, int size, const NcclId& id,
                                   int rank) {
  fake_.HangIf(faults_.init_hangs);
  if (faults_.init_result != NcclResult::kSuccess) return faults_.init_result;
  absl::MutexLock lock(&fake_.mutex_);
  auto& group = fake_.groups_[std::string(id.bytes.data())];
  if (group == nullptr) group = std::make_shared<FakeNccl::Group>();
  group->members.resize(size);
  auto made = std::make_unique<FakeNccl::Comm>();
  made->group = group;
  made->rank = rank;
  made->polls_left = faults_.init_polls;
  made->error = faults_.init_async;
  group->members[rank] = made.get();
  *comm = made.get();
  own_.insert(made.get());
  fake_.comms_[made.get()] = std::move(made);
  return NcclResult::kInProgress;
}

NcclResult FakeNcclTable::CommAsyncError(NcclComm comm, NcclResult* state) {
  absl::MutexLock lock(&fake_.mutex_);
  FakeNccl::Comm* asked = Of(comm);
  const auto& members = asked->group->members;
  const bool all_there =
      asked->num_enqueued > 0 || asked->finalizing ||
      std::all_of(members.begin(), members.end(),
                  [](const auto* member) { return member != nullptr; });
  *state = asked->error;
  if (*state == NcclResult::kSuccess && asked->group->someone_left &&
      asked->num_pending > 0 && faults_.notices_peers) {
    *state = NcclResult::kRemoteError;
  }
  if (*state != NcclResult::kSuccess) return NcclResult::kSuccess;
  const bool waits = asked->polls_left != 0 || !all_there ||
                     (asked->finalizing && faults_.finalize_in_progress);
  if (asked->polls_left > 0) --asked->polls_left;
  if (waits) *state = NcclResult::kInProgress;
  return NcclResult::kSuccess;
}

StreamState FakeNcclTable::QueryStream(DeviceStream /*stream*/) {
  absl::MutexLock lock(&fake_.mutex_);
  for (const FakeNccl::Comm* comm : own_) {
    const int at = faults_.fail_stream_at_operation;
    if (at != kNever && comm->num_enqueued > at) return StreamState::kFailed;
    if (comm->num_pending > 0) return StreamState::kPending;
  }
  return StreamState::kDone;
}

NcclResult FakeNcclTable::Enqueue(std::vector<Placed> operations) {
  if (operations.empty()) return NcclResult::kSuccess;
  int number = 0;
  {
    absl::MutexLock lock(&fake_.mutex_);
    number = Of(operations[0].first)->num_enqueued;
    if (number == faults_.hang_operation || number == faults_.stall_operation) {
      fake_.is_stuck_ = true;
    }
  }
  fake_.HangIf(number == faults_.hang_operation);
  absl::MutexLock lock(&fake_.mutex_);
  FakeNccl::Comm* comm = Of(operations[0].first);
  ++comm->num_enqueued;
  if (number == faults_.refuse_operation) return faults_.refusal;
  if (number == faults_.fail_operation) comm->error = faults_.failure;
  comm->polls_left = faults_.enqueue_polls;
  for (auto& [at, operation] : operations) {
    operation.stalls = number == faults_.stall_operation;
    fake_.Enqueue(Of(at), operation);
  }
  return comm->polls_left == 0 ? NcclResult::kSuccess : NcclResult::kInProgress;
}

std::unique_ptr<NcclTable> FakeNccl::MakeTable(NcclFaults* faults) {
  return std::make_unique<FakeNcclTable>(this, faults);
}

void FakeNccl::AwaitStuckOperation() {
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(&is_stuck_));
}

int FakeNccl::num_live() const {
  absl::MutexLock lock(&mutex_);
  return static_cast<int>(comms_.size());
}

void FakeNccl::Enqueue(Comm* comm, Operation operation) {
  ++comm->num_pending;
  if (operation.stalls) return;
  Group& group = *comm->group;
  if (operation.kind == Kind::kSend) {
    group.sends[{comm->rank, operation.peer}].push_back(operation);
  } else if (operation.kind == Kind::kReceive) {
    group.receives[{operation.peer, comm->rank}].push_back(operation);
  } else {
    comm->collectives.push_back(operation);
  }
  Advance(group);
}

void FakeNccl::Advance(Group& group) {
  while (AdvanceCollective(group)) {
  }
  AdvanceMessages(group);
}

bool FakeNccl::AdvanceCollective(Group& group) {
  for (const Comm* member : group.members) {
    if (member == nullptr || member->collectives.empty()) return false;
  }
  // Calls that do not fit each other never end, as in NCCL.
  const Operation first = group.members[0]->collectives.front();
  for (const Comm* member : group.members) {
    const Operation& call = member->collectives.front();
    if (call.kind != first.kind || call.count != first.count) return false;
  }
  const int64_t bytes = first.count * SizeOf(first.type);
  std::vector<char> total(bytes);
  const int source = first.kind == Kind::kBroadcast ? first.peer : 0;
  std::memcpy(total.data(), group.members[source]->collectives.front().send,
              bytes);
  if (first.kind != Kind::kBroadcast) {
    for (size_t p = 1; p < group.members.size(); ++p) {
      Add(first.type, group.members[p]->collectives.front().send, first.count,
          first.op, total.data());
    }
  }
  for (Comm* member : group.members) {
    const Operation& call = member->collectives.front();
    if (call.kind != Kind::kReduce || call.peer == member->rank) {
      std::memcpy(call.recv, total.data(), bytes);
    }
    member->collectives.pop_front();
    --member->num_pending;
  }
  return true;
}

void FakeNccl::AdvanceMessages(Group& group) {
  for (auto& [pair, sends] : group.sends) {
    auto& receives = group.receives[pair];
    while (!sends.empty() && !receives.empty() &&
           sends.front().count == receives.front().count) {
      std::memcpy(receives.front().recv, sends.front().send,
                  sends.front().count);
      sends.pop_front();
      receives.pop_front();
      --group.members[pair.first]->num_pending;
      --group.members[pair.second]->num_pending;
    }
  }
}

void FakeNccl::Leave(Comm* comm) {
  const std::shared_ptr<Group> group = comm->group;
  group->members[comm->rank] = nullptr;
  group->someone_left = true;
  for (auto* messages : {&group->sends, &group->receives}) {
    for (auto& [pair, waiting] : *messages) {
      // Memory of a rank that has left is not touched any more.
      if (pair.first == comm->rank || pair.second == comm->rank) {
        waiting.clear();
      }
    }
  }
  comms_.erase(comm);
}

}  // namespace evenstep::trainer::testing
