#include "evenstep/testing/fake_client.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/submission.h"

namespace evenstep::client {
namespace {

constexpr absl::Duration kPollInterval = absl::Milliseconds(2);

absl::Status StreamEnd(const StreamOptions& stream) {
  if (stream.stop.stop_requested()) return absl::CancelledError("stopped");
  if (absl::Now() >= stream.deadline) {
    return absl::DeadlineExceededError("the deadline has passed");
  }
  return absl::OkStatus();
}

bool Matches(const std::vector<JobState>& states, JobState state) {
  return states.empty() ||
         std::find(states.begin(), states.end(), state) != states.end();
}

class BorrowedClient : public Client {
 public:
  explicit BorrowedClient(FakeClient& fake) : fake_(fake) {}
  absl::StatusOr<SubmitResult> Submit(const SubmitOptions& options) override {
    return fake_.Submit(options);
  }
  absl::StatusOr<Job> Get(const std::string& job_id) override {
    return fake_.Get(job_id);
  }
  absl::StatusOr<JobPage> List(const ListOptions& options) override {
    return fake_.List(options);
  }
  absl::StatusOr<Job> Cancel(const std::string& job_id,
                             const std::string& message) override {
    return fake_.Cancel(job_id, message);
  }
  absl::Status Watch(const std::string& job_id, WatchCursor* cursor,
                     const StreamOptions& stream,
                     const WatchHandler& handler) override {
    return fake_.Watch(job_id, cursor, stream, handler);
  }
  absl::Status Logs(const std::string& job_id, LogCursor* cursor,
                    const LogOptions& options, const StreamOptions& stream,
                    const LogHandler& handler) override {
    return fake_.Logs(job_id, cursor, options, stream, handler);
  }
  absl::Status Health() override { return fake_.Health(); }
  absl::StatusOr<std::string> ServerVersion() override {
    return fake_.ServerVersion();
  }

 private:
  FakeClient& fake_;
};

}  // namespace

std::unique_ptr<Client> Borrow(FakeClient& fake) {
  return std::make_unique<BorrowedClient>(fake);
}

absl::Status FakeClient::Find(const std::string& job_id, Entry** entry) {
  if (!failure_.ok()) return failure_;
  auto it = entries_.find(job_id);
  if (it == entries_.end()) {
    return absl::NotFoundError(absl::StrCat("no job '", job_id, "'"));
  }
  *entry = &it->second;
  return absl::OkStatus();
}

absl::StatusOr<SubmitResult> FakeClient::Submit(const SubmitOptions& options) {
  EVENSTEP_ASSIGN_OR_RETURN(Submission submission, MakeSubmission(options));
  SubmitResult result;
  std::function<void(FakeClient&, const Job&)> script;
  {
    absl::MutexLock lock(&mutex_);
    if (!failure_.ok()) return failure_;
    Job& job = result.job;
    job.id = submission.job_id;
    FillFromSpec(submission.spec, &job);
    job.state = JobState::kQueued;
    job.submitted = now_;
    auto [it, created] = entries_.try_emplace(job.id);
    if (!created && it->second.job.job_yaml != job.job_yaml) {
      return absl::AlreadyExistsError(
          absl::StrCat("job '", job.id, "' exists with another spec"));
    }
    result.created = created;
    if (created) {
      it->second.job = job;
      order_.push_back(job.id);
      script = script_;
    } else {
      job = it->second.job;
    }
  }
  if (script) script(*this, result.job);
  return result;
}

absl::StatusOr<Job> FakeClient::Get(const std::string& job_id) {
  absl::MutexLock lock(&mutex_);
  Entry* entry = nullptr;
  EVENSTEP_RETURN_IF_ERROR(Find(job_id, &entry));
  return entry->job;
}

absl::StatusOr<JobPage> FakeClient::List(const ListOptions& options) {
  absl::MutexLock lock(&mutex_);
  if (!failure_.ok()) return failure_;
  size_t skip = 0;
  if (!options.page_token.empty() &&
      !absl::SimpleAtoi(options.page_token, &skip)) {
    return absl::InvalidArgumentError("bad page token");
  }
  JobPage page;
  size_t index = 0;
  for (auto id = order_.rbegin(); id != order_.rend(); ++id) {
    const Job& job = entries_.at(*id).job;
    if (!Matches(options.states, job.state)) continue;
    ++page.num_jobs;
    if (index++ < skip) continue;
    if (page.jobs.size() == static_cast<size_t>(options.page_size)) {
      if (page.next_page_token.empty()) {
        page.next_page_token = absl::StrCat(index - 1);
      }
      continue;
    }
    page.jobs.push_back(job);
    page.jobs.back().recent_steps.clear();
  }
  return page;
}

void FakeClient::CancelTo(JobState state) {
  absl::MutexLock lock(&mutex_);
  cancel_state_ = state;
}

absl::StatusOr<Job> FakeClient::Cancel(const std::string& job_id,
                                       const std::string& message) {
  EVENSTEP_ASSIGN_OR_RETURN(Job job, Get(job_id));
  if (!IsFinal(job.state)) {
    JobEvent event;
    {
      absl::MutexLock lock(&mutex_);
      event.state = cancel_state_;
    }
    event.reason = "CANCELLED_BY_USER";
    event.message = message;
    AddEvent(job_id, event);
  }
  return Get(job_id);
}

template <typename Sequence>
absl::StatusOr<bool> FakeClient::WaitForIndex(const std::string& job_id,
                                              const StreamOptions& stream,
                                              size_t index,
                                              Sequence Entry::*sequence) {
  absl::MutexLock lock(&mutex_);
  while (true) {
    EVENSTEP_RETURN_IF_ERROR(StreamEnd(stream));
    Entry* entry = nullptr;
    EVENSTEP_RETURN_IF_ERROR(Find(job_id, &entry));
    if (index < (entry->*sequence).size()) return true;
    if (IsFinal(entry->job.state)) return false;
    changed_.WaitWithTimeout(&mutex_, kPollInterval);
  }
}

absl::Status FakeClient::Watch(const std::string& job_id, WatchCursor* cursor,
                               const StreamOptions& stream,
                               const WatchHandler& handler) {
  for (size_t index = 0;; ++index) {
    EVENSTEP_ASSIGN_OR_RETURN(
        bool more, WaitForIndex(job_id, stream, index, &Entry::items));
    if (!more) return absl::OkStatus();
    WatchItem item;
    {
      absl::MutexLock lock(&mutex_);
      item = entries_.at(job_id).items[index];
    }
    const auto* event = std::get_if<JobEvent>(&item);
    int64_t& after =
        event != nullptr ? cursor->after_sequence : cursor->after_step;
    const int64_t number =
        event != nullptr ? event->sequence : std::get<StepSummary>(item).step;
    if (number <= after) continue;
    after = number;
    if (handler(item) == Follow::kStop) return absl::OkStatus();
  }
}

absl::Status FakeClient::Logs(const std::string& job_id, LogCursor* cursor,
                              const LogOptions& options,
                              const StreamOptions& stream,
                              const LogHandler& handler) {
  for (size_t index = 0;; ++index) {
    LogLine line;
    {
      absl::MutexLock lock(&mutex_);
      Entry* entry = nullptr;
      EVENSTEP_RETURN_IF_ERROR(Find(job_id, &entry));
      const bool exists = index < entry->lines.size();
      if (!exists && options.mode == LogMode::kSoFar) return absl::OkStatus();
    }
    EVENSTEP_ASSIGN_OR_RETURN(
        bool more, WaitForIndex(job_id, stream, index, &Entry::lines));
    if (!more) return absl::OkStatus();
    {
      absl::MutexLock lock(&mutex_);
      line = entries_.at(job_id).lines[index];
    }
    if (line.sequence <= cursor->after_sequence) continue;
    cursor->after_sequence = line.sequence;
    if (handler(line) == Follow::kStop) return absl::OkStatus();
  }
}

absl::Status FakeClient::Health() {
  absl::MutexLock lock(&mutex_);
  return failure_;
}

absl::StatusOr<std::string> FakeClient::ServerVersion() {
  absl::MutexLock lock(&mutex_);
  if (!failure_.ok()) return failure_;
  return std::string("0.0.0-fake");
}

void FakeClient::PutJob(const Job& job) {
  absl::MutexLock lock(&mutex_);
  auto [it, created] = entries_.try_emplace(job.id);
  it->second.job = job;
  if (created) order_.push_back(job.id);
  changed_.SignalAll();
}

void FakeClient::AddEvent(const std::string& job_id, JobEvent event) {
  absl::MutexLock lock(&mutex_);
  Entry& entry = entries_.at(job_id);
  event.sequence = ++entry.num_events;
  if (event.time == absl::Time()) event.time = now_;
  entry.job.state = event.state;
  entry.job.reason = event.reason;
  entry.job.message = event.message;
  if (IsFinal(event.state)) entry.job.ended = event.time;
  entry.items.emplace_back(std::move(event));
  changed_.SignalAll();
}

void FakeClient::AddStep(const std::string& job_id, const StepSummary& step) {
  absl::MutexLock lock(&mutex_);
  Entry& entry = entries_.at(job_id);
  entry.job.recent_steps.push_back(step);
  entry.job.steps_done = step.step + 1;
  entry.items.emplace_back(step);
  changed_.SignalAll();
}

void FakeClient::AddLog(const std::string& job_id, LogLine line) {
  absl::MutexLock lock(&mutex_);
  Entry& entry = entries_.at(job_id);
  line.sequence = static_cast<int64_t>(entry.lines.size()) + 1;
  if (line.time == absl::Time()) line.time = now_;
  entry.lines.push_back(std::move(line));
  changed_.SignalAll();
}

void FakeClient::ScriptSubmit(
    std::function<void(FakeClient&, const Job&)> script) {
  absl::MutexLock lock(&mutex_);
  script_ = std::move(script);
}

void FakeClient::FailWith(const absl::Status& status) {
  absl::MutexLock lock(&mutex_);
  failure_ = status;
  changed_.SignalAll();
}

void FakeClient::SetNow(absl::Time now) {
  absl::MutexLock lock(&mutex_);
  now_ = now;
}

}  // namespace evenstep::client
