#ifndef EVENSTEP_TESTING_FAKE_CLIENT_H_
#define EVENSTEP_TESTING_FAKE_CLIENT_H_

// A coordinator in memory, for tests of programs that use the SDK. Thread-safe.
// Jobs stand where the test puts them: PutJob, AddEvent, AddStep and AddLog
// say what happened; streams wait for more until the job is final.
//
//   FakeClient fake;
//   fake.ScriptSubmit([](FakeClient& f, const Job& job) {
//     f.AddStep(job.id, {.step = 0, .loss = 5.5});
//     f.AddEvent(job.id, {.state = JobState::kSucceeded});
//   });

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "evenstep/client.h"

namespace evenstep::client {

class FakeClient : public Client {
 public:
  absl::StatusOr<SubmitResult> Submit(const SubmitOptions& options) override;
  absl::StatusOr<Job> Get(const std::string& job_id) override;
  absl::StatusOr<JobPage> List(const ListOptions& options) override;
  absl::StatusOr<Job> Cancel(const std::string& job_id,
                             const std::string& message) override;
  absl::Status Watch(const std::string& job_id, WatchCursor* cursor,
                     const StreamOptions& stream,
                     const WatchHandler& handler) override;
  absl::Status Logs(const std::string& job_id, LogCursor* cursor,
                    const LogOptions& options, const StreamOptions& stream,
                    const LogHandler& handler) override;
  absl::Status Health() override;
  absl::StatusOr<std::string> ServerVersion() override;

  // Adds or replaces a job.
  void PutJob(const Job& job);
  // Numbers the event and moves the job to its state.
  void AddEvent(const std::string& job_id, JobEvent event);
  void AddStep(const std::string& job_id, const StepSummary& step);
  void AddLog(const std::string& job_id, LogLine line);
  // Runs after each job that Submit stores.
  void ScriptSubmit(std::function<void(FakeClient&, const Job&)> script);
  // Every call fails with this until it is set to OK again.
  void FailWith(const absl::Status& status);
  // What a cancel makes of a running job: CANCELLED unless set.
  void CancelTo(JobState state);
  void SetNow(absl::Time now);

 private:
  struct Entry {
    Job job;
    std::vector<WatchItem> items;
    std::vector<LogLine> lines;
    int64_t num_events = 0;
  };
  absl::Status Find(const std::string& job_id, Entry** entry)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Waits until `sequence` has an element `index` (true) or the job has ended
  // without one (false).
  template <typename Sequence>
  absl::StatusOr<bool> WaitForIndex(const std::string& job_id,
                                    const StreamOptions& stream, size_t index,
                                    Sequence Entry::*sequence);

  absl::Mutex mutex_;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  JobState cancel_state_ ABSL_GUARDED_BY(mutex_) = JobState::kCancelled;
  absl::Time now_ ABSL_GUARDED_BY(mutex_) = absl::FromUnixSeconds(1700000000);
  std::function<void(FakeClient&, const Job&)> script_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Entry> entries_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> order_ ABSL_GUARDED_BY(mutex_);  // oldest first
  absl::CondVar changed_;
};

// A client of the fake's jobs, for code that wants to own its client. The fake
// must outlive it.
std::unique_ptr<Client> Borrow(FakeClient& fake);

}  // namespace evenstep::client

#endif  // EVENSTEP_TESTING_FAKE_CLIENT_H_
