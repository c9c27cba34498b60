#include "worker/trainer/comm/in_process_communicator.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/status_macros.h"
#include "worker/trainer/comm/communicator_factory.h"
#include "worker/trainer/comm/exchange.h"

namespace evenstep::trainer {

// The meeting point of one group's ranks.
class InProcessGroup {
 public:
  InProcessGroup(int size, absl::Duration timeout)
      : size_(size),
        timeout_(timeout),
        joined_(size),
        calls_(size),
        letters_(static_cast<size_t>(size) * size) {}

  int size() const { return size_; }

  absl::Status Join(int rank) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Run(int rank, CollectiveKind kind,
                   absl::Span<const SendRun> sends,
                   absl::Span<const ReceiveRun> receives)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Waits until the receiver has taken the letter.
  absl::Status Send(int from, int to, const SendRun& run)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Receive(int from, int to, const ReceiveRun& run)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // The rank will call no more; peers that wait for it fail.
  void Leave(int rank, absl::string_view why) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Call {
    CollectiveKind kind = CollectiveKind::kBarrier;
    absl::Span<const SendRun> sends;
    absl::Span<const ReceiveRun> receives;
  };
  // What one rank has for another; its memory is the sender's, who waits.
  struct Letter {
    SendRun run;
    bool waiting = false;
    absl::Status outcome;
  };

  Letter& LetterOf(int from, int to) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return letters_[from * size_ + to];
  }
  // Until the letter's state is `waiting`.
  absl::Status AwaitLetter(const Letter& letter, bool waiting,
                           absl::string_view who)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckCalls() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Complete() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Await(int rank, int64_t round)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const int size_;
  const absl::Duration timeout_;
  absl::Mutex mutex_;
  SteadyCondition changed_;  // a round is complete, a letter, or the group
  std::vector<bool> joined_ ABSL_GUARDED_BY(mutex_);
  std::vector<Call> calls_ ABSL_GUARDED_BY(mutex_);
  std::vector<Letter> letters_ ABSL_GUARDED_BY(mutex_);
  int arrived_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t round_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status round_status_ ABSL_GUARDED_BY(mutex_);
  absl::Status gone_ ABSL_GUARDED_BY(mutex_);  // why the group is broken
};

absl::Status InProcessGroup::Join(int rank) {
  absl::MutexLock lock(&mutex_);
  if (joined_[rank]) {
    return absl::AlreadyExistsError(
        absl::StrCat("rank ", rank, " has joined this group before"));
  }
  joined_[rank] = true;
  return absl::OkStatus();
}

absl::Status InProcessGroup::Run(int rank, CollectiveKind kind,
                                 absl::Span<const SendRun> sends,
                                 absl::Span<const ReceiveRun> receives) {
  absl::MutexLock lock(&mutex_);
  EVENSTEP_RETURN_IF_ERROR(gone_);
  calls_[rank] = {kind, sends, receives};
  if (++arrived_ < size_) return Await(rank, round_);
  round_status_ = Complete();
  arrived_ = 0;
  ++round_;
  changed_.NotifyAll();
  return round_status_;
}

absl::Status InProcessGroup::Await(int rank, int64_t round) {
  const auto over = [this, round]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return round_ != round || !gone_.ok();
  };
  const bool in_time = changed_.WaitFor(mutex_, timeout_, over);
  if (round_ != round) return round_status_;
  if (in_time) return gone_;
  gone_ = absl::DeadlineExceededError(
      absl::StrCat("rank ", rank, " waited ", absl::FormatDuration(timeout_),
                   " in ", CollectiveName(calls_[rank].kind), "; ", arrived_,
                   " of ", size_, " ranks had come"));
  changed_.NotifyAll();
  return gone_;
}

absl::Status InProcessGroup::CheckCalls() const {
  for (int p = 1; p < size_; ++p) {
    if (calls_[p].kind != calls_[0].kind) {
      return absl::FailedPreconditionError(absl::StrCat(
          "ranks differ: rank 0 is in ", CollectiveName(calls_[0].kind),
          ", rank ", p, " in ", CollectiveName(calls_[p].kind)));
    }
  }
  for (int from = 0; from < size_; ++from) {
    for (int to = 0; to < size_; ++to) {
      const int64_t sent = calls_[from].sends[to].bytes;
      const int64_t expected = calls_[to].receives[from].bytes;
      if (sent == expected) continue;
      return absl::FailedPreconditionError(absl::StrCat(
          "counts differ in ", CollectiveName(calls_[0].kind), ": rank ", from,
          " sends ", sent, " bytes, rank ", to, " expects ", expected));
    }
  }
  return absl::OkStatus();
}

absl::Status InProcessGroup::Complete() {
  EVENSTEP_RETURN_IF_ERROR(CheckCalls());
  for (int to = 0; to < size_; ++to) {
    for (int from = 0; from < size_; ++from) {
      const SendRun& sent = calls_[from].sends[to];
      if (sent.bytes == 0) continue;
      std::memcpy(calls_[to].receives[from].data, sent.data, sent.bytes);
    }
  }
  return absl::OkStatus();
}

absl::Status InProcessGroup::Send(int from, int to, const SendRun& run) {
  absl::MutexLock lock(&mutex_);
  EVENSTEP_RETURN_IF_ERROR(gone_);
  Letter& letter = LetterOf(from, to);
  letter = {run, true, absl::OkStatus()};
  changed_.NotifyAll();
  const absl::Status taken =
      AwaitLetter(letter, false,
                  absl::StrCat("rank ", from, " waited for rank ", to,
                               " to receive from it"));
  if (taken.ok()) return letter.outcome;
  letter.waiting = false;  // its memory goes back to the caller
  return taken;
}

absl::Status InProcessGroup::Receive(int from, int to, const ReceiveRun& run) {
  absl::MutexLock lock(&mutex_);
  EVENSTEP_RETURN_IF_ERROR(gone_);
  Letter& letter = LetterOf(from, to);
  EVENSTEP_RETURN_IF_ERROR(AwaitLetter(
      letter, true,
      absl::StrCat("rank ", to, " waited for rank ", from, " to send to it")));
  EVENSTEP_RETURN_IF_ERROR(gone_);  // so the sender gives up, too
  letter.waiting = false;
  changed_.NotifyAll();
  if (letter.run.bytes != run.bytes) {
    letter.outcome = absl::FailedPreconditionError(
        absl::StrCat("rank ", from, " sends ", letter.run.bytes,
                     " bytes, rank ", to, " expects ", run.bytes));
    return letter.outcome;
  }
  std::memcpy(run.data, letter.run.data, run.bytes);
  return absl::OkStatus();
}

absl::Status InProcessGroup::AwaitLetter(const Letter& letter, bool waiting,
                                         absl::string_view who) {
  const auto over = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return letter.waiting == waiting || !gone_.ok();
  };
  const bool in_time = changed_.WaitFor(mutex_, timeout_, over);
  if (letter.waiting == waiting) return absl::OkStatus();
  if (in_time) return gone_;
  gone_ = absl::DeadlineExceededError(
      absl::StrCat(who, " for ", absl::FormatDuration(timeout_)));
  changed_.NotifyAll();
  return gone_;
}

void InProcessGroup::Leave(int rank, absl::string_view why) {
  absl::MutexLock lock(&mutex_);
  if (!gone_.ok()) return;
  gone_ = absl::UnavailableError(
      absl::StrCat("rank ", rank, " left the group: ", why));
  changed_.NotifyAll();
}

namespace {

class InProcessExchange : public Exchange {
 public:
  InProcessExchange(std::shared_ptr<InProcessGroup> group, int rank)
      : group_(std::move(group)), rank_(rank) {}
  ~InProcessExchange() override { group_->Leave(rank_, "it was closed"); }

  int rank() const override { return rank_; }
  int size() const override { return group_->size(); }
  absl::Status Run(CollectiveKind kind, absl::Span<const SendRun> sends,
                   absl::Span<const ReceiveRun> receives) override {
    return group_->Run(rank_, kind, sends, receives);
  }
  absl::Status Send(int peer, const SendRun& run) override {
    return group_->Send(rank_, peer, run);
  }
  absl::Status Receive(int peer, const ReceiveRun& run) override {
    return group_->Receive(peer, rank_, run);
  }
  void Abort(absl::string_view why) override { group_->Leave(rank_, why); }

 private:
  const std::shared_ptr<InProcessGroup> group_;
  const int rank_;
};

}  // namespace

class InProcessFactory : public CommunicatorFactory {
 public:
  explicit InProcessFactory(InProcessHub* hub) : hub_(hub) {}

  absl::StatusOr<std::unique_ptr<Communicator>> Create(
      const std::string& key, const RankBlock& block, int world_rank) override {
    EVENSTEP_RETURN_IF_ERROR(CheckInBlock(block, world_rank));
    const int rank = world_rank - block.first_rank;
    std::shared_ptr<InProcessGroup> group = hub_->FindOrAdd(key, block.degree);
    if (group->size() != block.degree) {
      return absl::FailedPreconditionError(absl::StrCat(
          "group ", key, " has ", group->size(), " ranks, not ", block.degree));
    }
    EVENSTEP_RETURN_IF_ERROR(group->Join(rank));
    auto communicator = MakeMeshCommunicator(
        std::make_unique<InProcessExchange>(std::move(group), rank));
    // Nothing of it is slow at first.
    EVENSTEP_RETURN_IF_ERROR(communicator->Barrier());
    return communicator;
  }

 private:
  InProcessHub* const hub_;
};

InProcessHub::InProcessHub(absl::Duration timeout) : timeout_(timeout) {}
InProcessHub::~InProcessHub() = default;

std::unique_ptr<CommunicatorFactory> InProcessHub::MakeFactory() {
  return std::make_unique<InProcessFactory>(this);
}

std::shared_ptr<InProcessGroup> InProcessHub::FindOrAdd(const std::string& key,
                                                        int size) {
  absl::MutexLock lock(&mutex_);
  if (groups_.size() >= sweep_size_) SweepClosed();
  std::weak_ptr<InProcessGroup>& slot = groups_[key];
  std::shared_ptr<InProcessGroup> group = slot.lock();
  if (group == nullptr) {
    group = std::make_shared<InProcessGroup>(size, timeout_);
    slot = group;
  }
  return group;
}

int64_t InProcessHub::num_groups() const {
  absl::MutexLock lock(&mutex_);
  return std::count_if(groups_.begin(), groups_.end(), [](const auto& entry) {
    return !entry.second.expired();
  });
}

// Keys of closed groups; each sweep is paid for by as many new groups.
void InProcessHub::SweepClosed() {
  std::erase_if(groups_,
                [](const auto& entry) { return entry.second.expired(); });
  sweep_size_ = std::max(kFirstSweepSize, 2 * groups_.size());
}

std::unique_ptr<Communicator> MakeSelfCommunicator() {
  return MakeMeshCommunicator(std::make_unique<InProcessExchange>(
      std::make_shared<InProcessGroup>(1, absl::InfiniteDuration()), 0));
}

}  // namespace evenstep::trainer
