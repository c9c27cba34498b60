#include "coordinator/server/job_registry.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "google/protobuf/util/time_util.h"

namespace evenstep::coordinator {
namespace {

constexpr int kMaxRecentSteps = 32;
// While the disk is full, lines beyond these are given up, oldest first.
constexpr size_t kMaxUnwrittenLines = 100000;
constexpr size_t kMaxUnwrittenBytes = 32 << 20;

google::protobuf::Timestamp ToTimestamp(absl::Time time) {
  return google::protobuf::util::TimeUtil::NanosecondsToTimestamp(
      absl::ToUnixNanos(time));
}

WaitingJob WaitingOf(const JobRecord& record) {
  return {record.arrival, record.job.job_id(), record.job.spec().ranks()};
}

}  // namespace

absl::Status JobRegistry::Load() {
  EVENSTEP_ASSIGN_OR_RETURN(std::vector<JobRecord> loaded, store_.LoadJobs());
  for (JobRecord& record : loaded) {
    const std::string job_id = record.job.job_id();
    auto steps = store_.ReadSteps(
        job_id, record.job.steps_done() - kMaxRecentSteps - 1, kMaxRecentSteps);
    EVENSTEP_RETURN_IF_ERROR(steps.status());
    for (v1::StepSummary& step : *steps) {
      *record.job.add_recent_steps() = std::move(step);
    }
    JobRecord& kept = records_[job_id] = std::move(record);
    by_arrival_[kept.arrival] = &kept;
    EnterState(kept);
  }
  return absl::OkStatus();
}

void JobRegistry::EnterState(const JobRecord& record) {
  ++counts_[record.status.state];
  if (record.status.state == JobState::kQueued) queue_.Add(WaitingOf(record));
}

void JobRegistry::LeaveState(const JobRecord& record, JobState before) {
  if (--counts_[before] == 0) counts_.erase(before);
  if (before == JobState::kQueued) queue_.Remove(WaitingOf(record));
}

JobRecord* JobRegistry::Find(const std::string& job_id) {
  const auto it = records_.find(job_id);
  return it == records_.end() ? nullptr : &it->second;
}

std::vector<JobRecord*> JobRegistry::All() {
  num_visited_ += static_cast<int64_t>(by_arrival_.size());
  std::vector<JobRecord*> all;
  all.reserve(by_arrival_.size());
  for (const auto& [arrival, record] : by_arrival_) all.push_back(record);
  return all;
}

std::vector<const JobRecord*> JobRegistry::NewestBefore(
    int64_t arrival, const std::set<JobState>& states, size_t limit) const {
  std::vector<const JobRecord*> found;
  auto it = by_arrival_.lower_bound(arrival);
  while (it != by_arrival_.begin() && found.size() < limit) {
    const JobRecord* const record = (--it)->second;
    ++num_visited_;
    if (states.empty() || states.contains(record->status.state)) {
      found.push_back(record);
    }
  }
  return found;
}

int64_t JobRegistry::Count(const std::set<JobState>& states) const {
  if (states.empty()) return static_cast<int64_t>(records_.size());
  int64_t count = 0;
  for (const auto& [state, num_jobs] : counts_) {
    if (states.contains(state)) count += num_jobs;
  }
  return count;
}

absl::StatusOr<JobRecord*> JobRegistry::Create(const std::string& job_id,
                                               const v1::JobSpec& spec) {
  JobRecord record;
  record.job.set_job_id(job_id);
  *record.job.mutable_spec() = spec;
  record.job.set_state(v1::JOB_STATE_QUEUED);
  *record.job.mutable_submitted() = ToTimestamp(clock_.Wall());
  record.last_event = 1;
  v1::JobEvent event;
  event.set_sequence(1);
  *event.mutable_time() = record.job.submitted();
  event.set_state(v1::JOB_STATE_QUEUED);
  event.set_reason("SUBMITTED");
  event.set_message("stored; waits for slots");
  EVENSTEP_RETURN_IF_ERROR(store_.Create(&record, event));
  touched_.insert(job_id);
  JobRecord& kept = records_[job_id] = std::move(record);
  by_arrival_[kept.arrival] = &kept;
  EnterState(kept);
  return &kept;
}

absl::Status JobRegistry::Remove(const std::string& job_id) {
  EVENSTEP_RETURN_IF_ERROR(Flush());
  EVENSTEP_RETURN_IF_ERROR(store_.Remove(job_id));
  const auto found = records_.find(job_id);
  if (found != records_.end()) {
    LeaveState(found->second, found->second.status.state);
    by_arrival_.erase(found->second.arrival);
    records_.erase(found);
  }
  touched_.insert(job_id);
  return absl::OkStatus();
}

absl::StatusOr<v1::JobEvent> JobRegistry::Apply(JobRecord& record,
                                                const JobMove& move) {
  EVENSTEP_ASSIGN_OR_RETURN(
      record.status,
      NextStatus(record.status, move.action, move.after_stopping));
  const auto now = ToTimestamp(clock_.Wall());
  v1::Job& job = record.job;
  job.set_state(static_cast<v1::JobState>(record.status.state));
  job.set_reason(move.reason);
  job.set_message(move.message);
  if (move.action == JobAction::kAllocate && !job.has_started()) {
    *job.mutable_started() = now;
  }
  if (IsFinal(record.status.state)) *job.mutable_ended() = now;
  v1::JobEvent event;
  event.set_sequence(++record.last_event);
  *event.mutable_time() = now;
  event.set_state(job.state());
  event.set_reason(move.reason);
  event.set_message(move.message);
  event.set_attempt(job.attempt());
  return event;
}

absl::Status JobRegistry::StoreMove(const JobRecord& record,
                                    const v1::JobEvent& event) {
  // Followers end with the job: what it did before must be there first. Its own
  // row goes with the event only, or a final state could lack its event.
  EVENSTEP_RETURN_IF_ERROR(WriteUnsaved());
  EVENSTEP_RETURN_IF_ERROR(
      WithProgress(record.job.job_id(), [&](const Progress& before) {
        return store_.RecordMove(record, event, before);
      }));
  touched_.insert(record.job.job_id());
  return absl::OkStatus();
}

absl::Status JobRegistry::MoveDurably(JobRecord changed, const JobMove& move) {
  EVENSTEP_ASSIGN_OR_RETURN(const v1::JobEvent event, Apply(changed, move));
  health_ = StoreMove(changed, event);
  EVENSTEP_RETURN_IF_ERROR(health_);
  JobRecord& kept = records_.at(changed.job.job_id());
  const JobState before = kept.status.state;
  LeaveState(kept, before);
  kept = std::move(changed);
  EnterState(kept);
  return absl::OkStatus();
}

absl::Status JobRegistry::Move(JobRecord& record, const JobMove& move) {
  const JobState before = record.status.state;
  EVENSTEP_ASSIGN_OR_RETURN(const v1::JobEvent event, Apply(record, move));
  LeaveState(record, before);
  EnterState(record);
  health_ = StoreMove(record, event);
  if (health_.ok()) return absl::OkStatus();
  Log(LogLevel::kError, "store_failed",
      {{"job", record.job.job_id()},
       {"move", move.reason},
       {"error", health_}});
  unsaved_.push_back({record, event});
  return absl::OkStatus();
}

void JobRegistry::AddStep(JobRecord& record, const v1::StepSummary& step) {
  v1::Job& job = record.job;
  if (job.recent_steps_size() >= kMaxRecentSteps) {
    job.mutable_recent_steps()->DeleteSubrange(0, 1);
  }
  *job.add_recent_steps() = step;
  progress_.steps.push_back({job.job_id(), step});
  MarkChanged(record);
}

void JobRegistry::AddLogLine(JobRecord& record, v1::LogLine line) {
  line_bytes_ += line.text().size();
  while (!progress_.lines.empty() &&
         (progress_.lines.size() >= kMaxUnwrittenLines ||
          line_bytes_ > kMaxUnwrittenBytes)) {
    line_bytes_ -= progress_.lines.front().line.text().size();
    progress_.lines.pop_front();
  }
  line.set_sequence(++record.last_log);
  progress_.lines.push_back({record.job.job_id(), std::move(line)});
  MarkChanged(record);
}

// Writes with what was collected, but without the row of one job, and forgets
// it once that has worked.
template <typename Write>
absl::Status JobRegistry::WithProgress(absl::string_view without_job,
                                       const Write& write) {
  for (const std::string& job_id : changed_) {
    if (job_id != without_job) progress_.jobs.push_back(records_.at(job_id));
  }
  const absl::Status written = write(progress_);
  progress_.jobs.clear();
  EVENSTEP_RETURN_IF_ERROR(written);
  touched_.insert(changed_.begin(), changed_.end());
  progress_ = {};
  line_bytes_ = 0;
  changed_.clear();
  return absl::OkStatus();
}

absl::Status JobRegistry::WriteProgress() {
  if (progress_.empty() && changed_.empty()) return absl::OkStatus();
  return WithProgress("", [&](const Progress& progress) {
    return store_.AppendProgress(progress);
  });
}

absl::Status JobRegistry::WriteUnsaved() {
  while (!unsaved_.empty()) {
    const Unsaved& first = unsaved_.front();
    EVENSTEP_RETURN_IF_ERROR(store_.RecordMove(first.record, first.event, {}));
    touched_.insert(first.record.job.job_id());
    unsaved_.pop_front();
  }
  return absl::OkStatus();
}

absl::Status JobRegistry::Flush() {
  health_ = WriteUnsaved();
  if (health_.ok()) health_ = WriteProgress();
  return health_;
}

}  // namespace evenstep::coordinator
