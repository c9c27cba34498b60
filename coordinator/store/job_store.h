#ifndef EVENSTEP_COORDINATOR_STORE_JOB_STORE_H_
#define EVENSTEP_COORDINATOR_STORE_JOB_STORE_H_

// What the coordinator remembers over its own death. Called by the job
// manager's thread only; calls block for the disk. Implementations:
// SqliteJobStore, and FaultyJobStore (fails on demand, for tests).
//
// Every failure is an error value: RESOURCE_EXHAUSTED (disk full), DATA_LOSS
// (the file is damaged), UNAVAILABLE (any other trouble of the disk). After an
// error nothing of the call has been stored.

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/jobs/job_state.h"
#include "evenstep/v1/job.pb.h"

namespace evenstep::coordinator {

struct StoredStep {
  std::string job_id;
  v1::StepSummary step;
};

struct StoredLogLine {
  std::string job_id;
  v1::LogLine line;
};

// What may be lost with the last fraction of a second, kept in memory until
// then and written together.
struct Progress {
  std::vector<JobRecord> jobs;  // rows that changed
  std::vector<StoredStep> steps;
  std::deque<StoredLogLine> lines;

  bool empty() const { return jobs.empty() && steps.empty() && lines.empty(); }
};

struct StoreLimits {
  int64_t steps_per_job = 20000;
  int64_t log_lines_per_job = 20000;
  // Removed jobs whose last attempt is known, the newest.
  int64_t forgotten_jobs = 100000;
};

struct LogPage {
  std::vector<v1::LogLine> lines;
  // Lines between the cursor and the first of `lines` that are held no more.
  int64_t num_dropped = 0;
};

class JobStore {
 public:
  virtual ~JobStore() = default;

  // Durable when it returns. Fills in record->arrival and, where an earlier job
  // of this id was removed, its last attempt and generation: agents remember
  // them, and the new job's go on from there. ALREADY_EXISTS.
  virtual absl::Status Create(JobRecord* record, const v1::JobEvent& event) = 0;
  // A move: what happened before it, the job and the event, all or nothing and
  // durable when it returns. A move into STARTING also stores the attempt with
  // its placements, and forgets the steps of the attempt before. NOT_FOUND: no
  // such job.
  virtual absl::Status RecordMove(const JobRecord& record,
                                  const v1::JobEvent& event,
                                  const Progress& before) = 0;
  // Enforces the limits, oldest out first.
  virtual absl::Status AppendProgress(const Progress& progress) = 0;

  // The job with all that belongs to it, but for the numbers of its last
  // attempt. Fine if it is not there.
  virtual absl::Status Remove(const std::string& job_id) = 0;

  // By arrival.
  virtual absl::StatusOr<std::vector<JobRecord>> LoadJobs() = 0;
  // In order of sequence or step, beginning after the cursor.
  virtual absl::StatusOr<std::vector<v1::JobEvent>> ReadEvents(
      const std::string& job_id, int64_t after_sequence, int limit) = 0;
  virtual absl::StatusOr<std::vector<v1::StepSummary>> ReadSteps(
      const std::string& job_id, int64_t after_step, int limit) = 0;
  virtual absl::StatusOr<LogPage> ReadLog(const std::string& job_id,
                                          int64_t after_sequence,
                                          int limit) = 0;
};

}  // namespace evenstep::coordinator

#endif  // EVENSTEP_COORDINATOR_STORE_JOB_STORE_H_
