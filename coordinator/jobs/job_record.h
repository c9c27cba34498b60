#ifndef EVENSTEP_COORDINATOR_JOBS_JOB_RECORD_H_
#define EVENSTEP_COORDINATOR_JOBS_JOB_RECORD_H_

// A job as the coordinator holds and stores it. The wire's Job is the record
// itself, so nothing is shown that is not stored; beside it stands what users
// need not see. Plain data, owned by the job manager.

#include <cstdint>

#include "coordinator/jobs/job_state.h"
#include "evenstep/v1/job.pb.h"

namespace evenstep::coordinator {

struct JobRecord {
  v1::Job job;  // recent_steps is kept in memory only
  JobStatus status;
  // Arrival: orders the queue and lists. Given by the store.
  int64_t arrival = 0;
  int64_t last_event = 0;  // sequence number of the newest event; 0: none
  int64_t last_log = 0;    // sequence number of the newest log line; 0: none
};

}  // namespace evenstep::coordinator

#endif  // EVENSTEP_COORDINATOR_JOBS_JOB_RECORD_H_
