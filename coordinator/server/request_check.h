#ifndef EVENSTEP_COORDINATOR_SERVER_REQUEST_CHECK_H_
#define EVENSTEP_COORDINATOR_SERVER_REQUEST_CHECK_H_

// Bounds of what a client may ask of JobService: sizes, ids, pages and cursors.
// JobServiceImpl asks here before a request reaches the event loop; what a job
// may be is for jobspec's rules. A request that breaks a bound is refused with
// INVALID_ARGUMENT, the field and the numbers. Pure functions.

#include "absl/status/status.h"
#include "evenstep/v1/job.pb.h"

namespace evenstep::coordinator {

absl::Status CheckRequest(const v1::SubmitRequest& request);
absl::Status CheckRequest(const v1::GetRequest& request);
absl::Status CheckRequest(const v1::ListRequest& request);
absl::Status CheckRequest(const v1::CancelRequest& request);
absl::Status CheckRequest(const v1::WatchRequest& request);
absl::Status CheckRequest(const v1::LogsRequest& request);

}  // namespace evenstep::coordinator

#endif  // EVENSTEP_COORDINATOR_SERVER_REQUEST_CHECK_H_
