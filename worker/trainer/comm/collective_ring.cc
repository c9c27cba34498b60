#include "worker/trainer/comm/collective_ring.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "worker/trainer/comm/wrapped_communicator.h"

namespace evenstep::trainer {

CollectiveRing::CollectiveRing(int capacity, const Clock& clock)
    : capacity_(capacity), clock_(clock), entries_(capacity) {}

int64_t CollectiveRing::Begin(CollectiveEntry entry) {
  entry.begun = clock_.Monotonic();
  absl::MutexLock lock(&mutex_);
  const int64_t ticket = num_begun_++;
  entries_[ticket % capacity_] = std::move(entry);
  return ticket;
}

void CollectiveRing::End(int64_t ticket, absl::StatusCode outcome) {
  const absl::Duration now = clock_.Monotonic();
  absl::MutexLock lock(&mutex_);
  // Others may have written over it meanwhile.
  if (num_begun_ - ticket > capacity_) return;
  entries_[ticket % capacity_].ended = now;
  entries_[ticket % capacity_].outcome = outcome;
}

std::vector<CollectiveEntry> CollectiveRing::Entries() const {
  absl::MutexLock lock(&mutex_);
  return EntriesLocked();
}

std::vector<CollectiveEntry> CollectiveRing::EntriesLocked() const {
  std::vector<CollectiveEntry> entries;
  const int64_t first = std::max<int64_t>(0, num_begun_ - capacity_);
  for (int64_t ticket = first; ticket < num_begun_; ++ticket) {
    entries.push_back(entries_[ticket % capacity_]);
  }
  return entries;
}

void CollectiveRing::Dump(absl::string_view why) {
  std::vector<CollectiveEntry> entries;
  {
    absl::MutexLock lock(&mutex_);
    if (num_begun_ == num_begun_at_dump_) return;
    num_begun_at_dump_ = num_begun_;
    ++num_dumps_;
    entries = EntriesLocked();
  }
  const absl::Duration now = clock_.Monotonic();
  Log(LogLevel::kWarning, "last_collectives",
      {{"why", why}, {"entries", entries.size()}});
  for (const CollectiveEntry& entry : entries) {
    Log(LogLevel::kWarning, "collective",
        {{"call", DescribeEntry(entry, now)}});
  }
}

int64_t CollectiveRing::num_dumps() const {
  absl::MutexLock lock(&mutex_);
  return num_dumps_;
}

std::string DescribeEntry(const CollectiveEntry& entry, absl::Duration now) {
  const std::string call =
      absl::StrCat(CollectiveName(entry.kind), " ", entry.number, " of ",
                   *entry.group, ", ", entry.bytes, " bytes: ");
  if (entry.ended == absl::InfiniteDuration()) {
    return absl::StrCat(call, "waiting for ",
                        absl::FormatDuration(now - entry.begun));
  }
  const std::string took = absl::FormatDuration(entry.ended - entry.begun);
  const std::string ago = absl::FormatDuration(now - entry.ended);
  const std::string ended =
      entry.outcome == absl::StatusCode::kOk
          ? "done"
          : absl::StrCat("failed with ",
                         absl::StatusCodeToString(entry.outcome));
  return absl::StrCat(call, ended, " after ", took, ", ", ago, " ago");
}

namespace {

class RecordedCommunicator : public WrappedCommunicator {
 public:
  RecordedCommunicator(std::unique_ptr<Communicator> inner, std::string group,
                       CollectiveRing* ring)
      : WrappedCommunicator(std::move(inner)),
        group_(std::make_shared<const std::string>(std::move(group))),
        ring_(*ring) {}

  void Abort(absl::string_view why) override {
    ring_.Dump(absl::StrCat("abort of ", *group_, ": ", why));
    WrappedCommunicator::Abort(why);
  }

 protected:
  absl::Status Around(const CollectiveCall& call,
                      absl::FunctionRef<absl::Status()> run) override {
    const int64_t ticket = ring_.Begin({.kind = call.kind,
                                        .group = group_,
                                        .bytes = call.Bytes(),
                                        .number = ++num_calls_});
    absl::Status status = run();
    ring_.End(ticket, status.code());
    if (!status.ok()) ring_.Dump(status.message());
    return status;
  }

 private:
  const std::shared_ptr<const std::string> group_;
  CollectiveRing& ring_;
  int64_t num_calls_ = 0;
};

class RecordingFactory : public CommunicatorFactory {
 public:
  RecordingFactory(std::unique_ptr<CommunicatorFactory> inner,
                   CollectiveRing* ring)
      : inner_(std::move(inner)), ring_(ring) {}

  absl::StatusOr<std::unique_ptr<Communicator>> Create(
      const std::string& key, const RankBlock& block, int world_rank) override {
    EVENSTEP_ASSIGN_OR_RETURN(auto made,
                              inner_->Create(key, block, world_rank));
    return std::make_unique<RecordedCommunicator>(std::move(made), key, ring_);
  }
  void SetTimeout(absl::Duration timeout) override {
    inner_->SetTimeout(timeout);
  }

 private:
  const std::unique_ptr<CommunicatorFactory> inner_;
  CollectiveRing* const ring_;
};

}  // namespace

OnHang DumpThenEnd(CollectiveRing* ring, OnHang end_process) {
  return [ring, end = std::move(end_process)](absl::string_view why) {
    ring->Dump(why);
    end(why);
  };
}

std::unique_ptr<CommunicatorFactory> MakeRecordingFactory(
    std::unique_ptr<CommunicatorFactory> inner, CollectiveRing* ring) {
  return std::make_unique<RecordingFactory>(std::move(inner), ring);
}

}  // namespace evenstep::trainer
