#include "worker/trainer/comm/flight_recorder.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "worker/trainer/comm/communicator.h"

namespace evenstep::trainer {

FlightRecorder::FlightRecorder(int capacity, const Clock& clock)
    : capacity_(capacity), clock_(clock), entries_(capacity) {}

int64_t FlightRecorder::Begin(CollectiveEntry entry) {
  entry.begun = clock_.Monotonic();
  absl::MutexLock lock(&mutex_);
  const int64_t ticket = num_begun_++;
  entries_[ticket % capacity_] = std::move(entry);
  return ticket;
}

void FlightRecorder::End(int64_t ticket, absl::StatusCode outcome) {
  const absl::Duration now = clock_.Monotonic();
  absl::MutexLock lock(&mutex_);
  // Others may have written over it meanwhile.
  if (num_begun_ - ticket > capacity_) return;
  entries_[ticket % capacity_].ended = now;
  entries_[ticket % capacity_].outcome = outcome;
}

std::vector<CollectiveEntry> FlightRecorder::Entries() const {
  absl::MutexLock lock(&mutex_);
  return EntriesLocked();
}

std::vector<CollectiveEntry> FlightRecorder::EntriesLocked() const {
  std::vector<CollectiveEntry> entries;
  const int64_t first = std::max<int64_t>(0, num_begun_ - capacity_);
  for (int64_t ticket = first; ticket < num_begun_; ++ticket) {
    entries.push_back(entries_[ticket % capacity_]);
  }
  return entries;
}

void FlightRecorder::Dump(absl::string_view why) {
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

int64_t FlightRecorder::num_dumps() const {
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

class RecordedCommunicator : public CommunicatorDecorator {
 public:
  RecordedCommunicator(std::unique_ptr<Communicator> inner, std::string group,
                       FlightRecorder* recorder)
      : CommunicatorDecorator(std::move(inner)),
        group_(std::make_shared<const std::string>(std::move(group))),
        recorder_(*recorder) {}

  void Abort(absl::string_view why) override {
    recorder_.Dump(absl::StrCat("abort of ", *group_, ": ", why));
    CommunicatorDecorator::Abort(why);
  }

  absl::Status Run(const Collective& call) override {
    const int64_t ticket = recorder_.Begin({.kind = call.kind,
                                            .group = group_,
                                            .bytes = call.Bytes(),
                                            .number = ++num_calls_});
    absl::Status status = inner().Run(call);
    recorder_.End(ticket, status.code());
    if (!status.ok()) recorder_.Dump(status.message());
    return status;
  }

 private:
  const std::shared_ptr<const std::string> group_;
  FlightRecorder& recorder_;
  int64_t num_calls_ = 0;
};

class RecordingFactory : public CommunicatorFactory {
 public:
  RecordingFactory(std::unique_ptr<CommunicatorFactory> inner,
                   FlightRecorder* recorder)
      : inner_(std::move(inner)), recorder_(recorder) {}

  absl::StatusOr<std::unique_ptr<Communicator>> Create(
      const std::string& key, const RankBlock& block, int world_rank) override {
    EVENSTEP_ASSIGN_OR_RETURN(auto made,
                              inner_->Create(key, block, world_rank));
    return std::make_unique<RecordedCommunicator>(std::move(made), key,
                                                  recorder_);
  }
  void SetTimeout(absl::Duration timeout) override {
    inner_->SetTimeout(timeout);
  }

 private:
  const std::unique_ptr<CommunicatorFactory> inner_;
  FlightRecorder* const recorder_;
};

}  // namespace

OnHang DumpThenEnd(FlightRecorder* recorder, OnHang end_process) {
  return [recorder, end = std::move(end_process)](absl::string_view why) {
    recorder->Dump(why);
    end(why);
  };
}

std::unique_ptr<CommunicatorFactory> MakeRecordingFactory(
    std::unique_ptr<CommunicatorFactory> inner, FlightRecorder* recorder) {
  return std::make_unique<RecordingFactory>(std::move(inner), recorder);
}

}  // namespace evenstep::trainer
