#ifndef EVENSTEP_COORDINATOR_SERVER_JOB_REGISTRY_H_
#define EVENSTEP_COORDINATOR_SERVER_JOB_REGISTRY_H_

// All jobs in memory, and the rule by which they reach the store: a submit and
// an allocation are stored before anything else happens; any other move happens
// at once and is stored at once, or again and again until the disk allows it,
// and until then nothing new is accepted. Steps and log lines are collected and
// written together; a move takes what was collected before it along. Single
// owner: the event loop's thread.

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/clock.h"
#include "coordinator/jobs/job_state.h"
#include "coordinator/placement/job_queue.h"
#include "coordinator/store/job_store.h"

namespace evenstep::coordinator {

struct JobMove {
  JobAction action = JobAction::kStop;
  JobState after_stopping = JobState::kQueued;
  std::string reason;
  std::string message;
};

class JobRegistry {
 public:
  // Both outlive the registry.
  JobRegistry(JobStore& store, const Clock& clock)
      : store_(store), clock_(clock) {}

  // Once, at start.
  absl::Status Load();

  JobRecord* Find(const std::string& job_id);
  // By arrival. Walks over all records: nothing for what happens often.
  std::vector<JobRecord*> All();
  // At most `limit` jobs that came before `arrival` and are in one of `states`
  // (empty: any), newest first.
  std::vector<const JobRecord*> NewestBefore(int64_t arrival,
                                             const std::set<JobState>& states,
                                             size_t limit) const;
  // Jobs in one of `states` (empty: any).
  int64_t Count(const std::set<JobState>& states) const;
  const std::map<JobState, int>& counts() const { return counts_; }
  // Those in QUEUED.
  const JobQueue& queue() const { return queue_; }

  // Durable when it returns.
  absl::StatusOr<JobRecord*> Create(const std::string& job_id,
                                    const v1::JobSpec& spec);
  // `changed` is the record as it shall be, apart from what the move changes.
  // Stored first: on an error nothing has changed.
  absl::Status MoveDurably(JobRecord changed, const JobMove& move);
  // Happens whatever the disk says. FAILED_PRECONDITION: no such move.
  absl::Status Move(JobRecord& record, const JobMove& move);

  // Forgets a job that is over, with its events, steps and log. Progress that
  // is still collected is written first.
  absl::Status Remove(const std::string& job_id);

  // Collected; visible to followers after Flush.
  void AddStep(JobRecord& record, const v1::StepSummary& step);
  void AddLogLine(JobRecord& record, v1::LogLine line);
  void MarkChanged(const JobRecord& record) {
    changed_.insert(record.job.job_id());
  }
  // Writes what was collected, and moves that could not be stored before.
  absl::Status Flush();

  // Not ok: moves are waiting for the disk. Nothing new is accepted then.
  const absl::Status& health() const { return health_; }
  // Jobs with news in the store since the last call.
  std::set<std::string> TakeTouched() { return std::exchange(touched_, {}); }

  // Records that were looked at so far, those of the queue included: for tests
  // of what a call costs.
  int64_t num_visited() const { return num_visited_ + queue_.num_visited(); }

 private:
  struct Unsaved {
    JobRecord record;
    v1::JobEvent event;
  };
  // Keep counts_ and queue_ as the records' states are.
  void EnterState(const JobRecord& record);
  void LeaveState(const JobRecord& record, JobState before);
  absl::StatusOr<v1::JobEvent> Apply(JobRecord& record, const JobMove& move);
  absl::Status StoreMove(const JobRecord& record, const v1::JobEvent& event);
  template <typename Write>
  absl::Status WithProgress(absl::string_view without_job, const Write& write);
  absl::Status WriteProgress();
  absl::Status WriteUnsaved();

  JobStore& store_;
  const Clock& clock_;
  std::map<std::string, JobRecord> records_;
  // Derived from records_, updated with every move.
  std::map<int64_t, JobRecord*> by_arrival_;
  std::map<JobState, int> counts_;
  JobQueue queue_;
  mutable int64_t num_visited_ = 0;
  std::set<std::string> changed_;  // rows that differ from the store's
  std::set<std::string> touched_;
  Progress progress_;
  size_t line_bytes_ = 0;  // texts of progress_.lines
  std::deque<Unsaved> unsaved_;
  absl::Status health_;
};

}  // namespace evenstep::coordinator

#endif  // EVENSTEP_COORDINATOR_SERVER_JOB_REGISTRY_H_
