#ifndef EVENSTEP_COORDINATOR_TESTING_FAULTY_JOB_STORE_H_
#define EVENSTEP_COORDINATOR_TESTING_FAULTY_JOB_STORE_H_

// A store that fails when told to, as a full disk does: for tests of what the
// coordinator does then. Passes everything on otherwise. Does not own the store
// behind it. Used by one thread.

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "coordinator/store/job_store.h"

namespace evenstep::coordinator {

class FaultyJobStore : public JobStore {
 public:
  explicit FaultyJobStore(JobStore& store) : store_(store) {}

  // Every write fails with this until it is OK again.
  void FailWrites(absl::Status failure) { failure_ = std::move(failure); }
  // Only moves fail: the disk fills between two writes.
  void FailMovesOnly(absl::Status failure) { moves_ = std::move(failure); }
  int num_failed() const { return num_failed_; }

  absl::Status Create(JobRecord* record, const v1::JobEvent& event) override {
    return Fails() ? failure_ : store_.Create(record, event);
  }
  absl::Status RecordMove(const JobRecord& record, const v1::JobEvent& event,
                          const Progress& before) override {
    if (!moves_.ok()) return moves_;
    return Fails() ? failure_ : store_.RecordMove(record, event, before);
  }
  absl::Status AppendProgress(const Progress& progress) override {
    return Fails() ? failure_ : store_.AppendProgress(progress);
  }
  absl::Status Remove(const std::string& job_id) override {
    return Fails() ? failure_ : store_.Remove(job_id);
  }
  absl::StatusOr<std::vector<JobRecord>> LoadJobs() override {
    return store_.LoadJobs();
  }
  absl::StatusOr<std::vector<v1::JobEvent>> ReadEvents(
      const std::string& job_id, int64_t after_sequence, int limit) override {
    return store_.ReadEvents(job_id, after_sequence, limit);
  }
  absl::StatusOr<std::vector<v1::StepSummary>> ReadSteps(
      const std::string& job_id, int64_t after_step, int limit) override {
    return store_.ReadSteps(job_id, after_step, limit);
  }
  absl::StatusOr<LogPage> ReadLog(const std::string& job_id,
                                  int64_t after_sequence, int limit) override {
    return store_.ReadLog(job_id, after_sequence, limit);
  }

 private:
  bool Fails() {
    if (failure_.ok()) return false;
    ++num_failed_;
    return true;
  }

  JobStore& store_;
  absl::Status failure_;
  absl::Status moves_;
  int num_failed_ = 0;
};

}  // namespace evenstep::coordinator

#endif  // EVENSTEP_COORDINATOR_TESTING_FAULTY_JOB_STORE_H_
