#ifndef EVENSTEP_COORDINATOR_SERVER_JOB_ERRORS_H_
#define EVENSTEP_COORDINATOR_SERVER_JOB_ERRORS_H_

// The errors of JobService with their machine-readable reasons: part of the
// contract with clients (proto/evenstep/v1/job.proto). Pure.

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "rpc/errors.h"

namespace evenstep::coordinator {

inline absl::Status JobNotFound(const std::string& job_id) {
  return rpc::WithReason(
      absl::NotFoundError(absl::StrCat("there is no job '", job_id, "'")),
      "JOB_NOT_FOUND");
}

inline absl::Status JobExistsWithOtherSpec(const std::string& job_id) {
  return rpc::WithReason(absl::AlreadyExistsError(absl::StrCat(
                             "job '", job_id,
                             "' was submitted before with another spec; choose "
                             "another id")),
                         "JOB_EXISTS_WITH_OTHER_SPEC");
}

inline absl::Status InvalidSpec(const absl::Status& status) {
  return rpc::WithReason(status, "INVALID_SPEC");
}

inline absl::Status InfeasibleJob(const absl::Status& status) {
  return rpc::WithReason(status, "INFEASIBLE_PLAN");
}

inline absl::Status ShuttingDown() {
  return rpc::WithReason(
      absl::UnavailableError("the coordinator is shutting down"),
      rpc::kShuttingDown);
}

inline absl::Status StoreNotWell(const absl::Status& status) {
  return rpc::WithReason(
      absl::Status(status.code(),
                   absl::StrCat("nothing is accepted while the store fails: ",
                                status.message())),
      "STORE_FAILED");
}

}  // namespace evenstep::coordinator

#endif  // EVENSTEP_COORDINATOR_SERVER_JOB_ERRORS_H_
