#include "coordinator/server/followers.h"

#include <utility>
#include <vector>

#include "coordinator/server/job_errors.h"

namespace evenstep::coordinator {
namespace {

constexpr int kPageRows = 64;
constexpr int kLogPageRows = 256;
constexpr size_t kMaxLogResponseBytes = 1 << 20;

}  // namespace

int64_t Followers::Watch(const v1::WatchRequest& request,
                         std::shared_ptr<WatchSink> sink) {
  const JobRecord* const record = book_.Find(request.job_id());
  if (record == nullptr) {
    sink->Finish(JobNotFound(request.job_id()));
    return 0;
  }
  const int64_t id = next_++;
  watchers_[id] = {request.job_id(), request.after_sequence(),
                   request.after_step(), record->job.attempt(),
                   std::move(sink)};
  of_job_[request.job_id()].insert(id);
  Pump(id);
  return id;
}

int64_t Followers::FollowLog(const v1::LogsRequest& request,
                             std::shared_ptr<LogSink> sink) {
  if (book_.Find(request.job_id()) == nullptr) {
    sink->Finish(JobNotFound(request.job_id()));
    return 0;
  }
  const int64_t id = next_++;
  log_followers_[id] = {request.job_id(), request.after_sequence(),
                        request.follow(), std::move(sink)};
  of_job_[request.job_id()].insert(id);
  Pump(id);
  return id;
}

void Followers::Pump(int64_t follower) {
  const auto watcher = watchers_.find(follower);
  if (watcher != watchers_.end() &&
      PumpWhileRoom(watcher->second) == Progress::kEnded) {
    Forget(watcher->second.job_id, follower);
    watchers_.erase(watcher);
  }
  const auto log = log_followers_.find(follower);
  if (log != log_followers_.end() &&
      PumpWhileRoom(log->second) == Progress::kEnded) {
    Forget(log->second.job_id, follower);
    log_followers_.erase(log);
  }
}

void Followers::Forget(const std::string& job_id, int64_t follower) {
  const auto found = of_job_.find(job_id);
  if (found == of_job_.end()) return;
  found->second.erase(follower);
  if (found->second.empty()) of_job_.erase(found);
}

template <typename Follower>
Followers::Progress Followers::PumpWhileRoom(Follower& follower) {
  while (follower.sink->HasRoom()) {
    const Progress progress = PumpOnce(follower);
    if (progress != Progress::kMore) return progress;
  }
  return Progress::kWaits;
}

void Followers::Remove(int64_t follower) {
  if (const auto watcher = watchers_.find(follower);
      watcher != watchers_.end()) {
    Forget(watcher->second.job_id, follower);
    watchers_.erase(watcher);
  }
  if (const auto log = log_followers_.find(follower);
      log != log_followers_.end()) {
    Forget(log->second.job_id, follower);
    log_followers_.erase(log);
  }
}

void Followers::PumpJob(const std::string& job_id) {
  const auto found = of_job_.find(job_id);
  if (found == of_job_.end()) return;
  // A copy: followers end while they are pumped.
  for (const int64_t id : std::set<int64_t>(found->second)) Pump(id);
}

void Followers::FinishAll(const absl::Status& status) {
  for (auto& [id, watcher] : watchers_) watcher.sink->Finish(status);
  for (auto& [id, follower] : log_followers_) follower.sink->Finish(status);
  watchers_.clear();
  log_followers_.clear();
  of_job_.clear();
}

bool Followers::IsOver(const std::string& job_id) {
  const JobRecord* const record = book_.Find(job_id);
  return record == nullptr ||
         (IsFinal(record->status.state) && book_.health().ok());
}

// The steps that are there come before this event. A step that ranks had begun
// when they were told to stop may follow STOPPING, but no final state. The
// store holds the steps of the newest attempt only.
bool Followers::EndsSteps(const Watcher& watcher, const v1::JobEvent& event) {
  const auto state = static_cast<JobState>(event.state());
  if (IsFinal(state)) return true;
  const JobRecord* const record = book_.Find(watcher.job_id);
  return state == JobState::kStopping && record != nullptr &&
         event.attempt() == record->job.attempt() &&
         event.attempt() == watcher.attempt;
}

// Events in order; those that end an attempt or the job only after all steps.
Followers::Progress Followers::PumpOnce(Watcher& watcher) {
  auto events =
      store_.ReadEvents(watcher.job_id, watcher.after_sequence, kPageRows);
  if (!events.ok()) {
    watcher.sink->Finish(events.status());
    return Progress::kEnded;
  }
  for (v1::JobEvent& event : *events) {
    const bool is_last = IsFinal(static_cast<JobState>(event.state()));
    if (EndsSteps(watcher, event)) {
      const Progress steps = SendSteps(watcher);
      if (steps != Progress::kWaits || !watcher.sink->HasRoom()) return steps;
    }
    if (event.attempt() > watcher.attempt) {  // its steps begin anew
      watcher.attempt = event.attempt();
      watcher.after_step = -1;
    }
    watcher.after_sequence = event.sequence();
    v1::WatchResponse response;
    *response.mutable_event() = std::move(event);
    watcher.sink->Send(std::move(response));
    if (is_last) {
      watcher.sink->Finish(absl::OkStatus());
      return Progress::kEnded;
    }
  }
  if (!events->empty()) return Progress::kMore;
  const Progress steps = SendSteps(watcher);
  // Its cursor was behind the last event already.
  if (steps != Progress::kWaits || !IsOver(watcher.job_id)) return steps;
  watcher.sink->Finish(absl::OkStatus());
  return Progress::kEnded;
}

// kWaits: all that are there have been sent.
Followers::Progress Followers::SendSteps(Watcher& watcher) {
  auto steps = store_.ReadSteps(watcher.job_id, watcher.after_step, kPageRows);
  if (!steps.ok()) {
    watcher.sink->Finish(steps.status());
    return Progress::kEnded;
  }
  for (v1::StepSummary& step : *steps) {
    watcher.after_step = step.step();
    v1::WatchResponse response;
    *response.mutable_step() = std::move(step);
    watcher.sink->Send(std::move(response));
  }
  return steps->empty() ? Progress::kWaits : Progress::kMore;
}

Followers::Progress Followers::PumpOnce(LogFollower& follower) {
  auto page =
      store_.ReadLog(follower.job_id, follower.after_sequence, kLogPageRows);
  if (!page.ok()) {
    follower.sink->Finish(page.status());
    return Progress::kEnded;
  }
  if (page->lines.empty()) {
    if (follower.follow && !IsOver(follower.job_id)) return Progress::kWaits;
    follower.sink->Finish(absl::OkStatus());
    return Progress::kEnded;
  }
  v1::LogsResponse response;
  response.set_dropped(page->num_dropped);
  size_t bytes = 0;
  for (v1::LogLine& line : page->lines) {
    bytes += line.ByteSizeLong();
    if (bytes > kMaxLogResponseBytes && response.lines_size() > 0) break;
    follower.after_sequence = line.sequence();
    *response.add_lines() = std::move(line);
  }
  follower.sink->Send(std::move(response));
  return Progress::kMore;
}

}  // namespace evenstep::coordinator
