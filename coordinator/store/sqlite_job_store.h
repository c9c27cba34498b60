#ifndef EVENSTEP_COORDINATOR_STORE_SQLITE_JOB_STORE_H_
#define EVENSTEP_COORDINATOR_STORE_SQLITE_JOB_STORE_H_

// The store in one SQLite file: write-ahead log, synchronous=FULL, a schema
// version with migrations, and a lock file so that two coordinators never share
// one. ":memory:" needs no file and is forgotten. Used by one thread.
//
// Tables: jobs(id, arrival, state, after_stopping, last_event, last_log, job),
// events, attempts, steps, log_lines, forgotten(id, attempt, generation: the
// last ones of a removed job). Bodies are serialised messages of
// proto/evenstep/v1/job.proto.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/store/job_store.h"
#include "coordinator/store/sqlite_database.h"

namespace evenstep::coordinator {

class SqliteJobStore : public JobStore {
 public:
  // DATA_LOSS: the file is damaged. FAILED_PRECONDITION: written by a newer
  // version, or another coordinator has it.
  static absl::StatusOr<std::unique_ptr<SqliteJobStore>> Open(
      const std::string& path, const StoreLimits& limits);
  ~SqliteJobStore() override;

  absl::Status Create(JobRecord* record, const v1::JobEvent& event) override;
  absl::Status RecordMove(const JobRecord& record, const v1::JobEvent& event,
                          const Progress& before) override;
  absl::Status AppendProgress(const Progress& progress) override;
  absl::Status Remove(const std::string& job_id) override;
  absl::StatusOr<std::vector<JobRecord>> LoadJobs() override;
  absl::StatusOr<std::vector<v1::JobEvent>> ReadEvents(
      const std::string& job_id, int64_t after_sequence, int limit) override;
  absl::StatusOr<std::vector<v1::StepSummary>> ReadSteps(
      const std::string& job_id, int64_t after_step, int limit) override;
  absl::StatusOr<LogPage> ReadLog(const std::string& job_id,
                                  int64_t after_sequence, int limit) override;

  Database& database() { return database_; }

 private:
  SqliteJobStore(Database database, const StoreLimits& limits, int lock_fd);

  absl::Status GoOnFromForgotten(v1::Job* job);
  absl::Status TrimForgotten();
  absl::Status InsertJob(JobRecord* record);
  absl::Status UpdateJob(const JobRecord& record);
  absl::Status InsertEvent(const std::string& job_id,
                           const v1::JobEvent& event);
  absl::Status InsertAttempt(const JobRecord& record);
  absl::Status InsertStep(const StoredStep& stored);
  absl::Status InsertLine(const StoredLogLine& stored);
  absl::Status WriteProgress(const Progress& progress);
  absl::Status Trim(const Progress& progress);

  Database database_;
  const StoreLimits limits_;
  const int lock_fd_;  // -1: none
};

}  // namespace evenstep::coordinator

#endif  // EVENSTEP_COORDINATOR_STORE_SQLITE_JOB_STORE_H_
