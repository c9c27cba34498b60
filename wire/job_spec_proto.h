#ifndef EVENSTEP_WIRE_JOB_SPEC_PROTO_H_
#define EVENSTEP_WIRE_JOB_SPEC_PROTO_H_

// Job specs and costs between structs and wire. Pure functions.

#include "absl/status/statusor.h"
#include "evenstep/v1/job_spec.pb.h"
#include "evenstep/v1/plan.pb.h"
#include "jobspec/job_spec.h"
#include "planner/request.h"

namespace evenstep::wire {

v1::JobSpec ToProto(const jobspec::JobSpec& spec);
// INVALID_ARGUMENT for unknown names and values that break a rule
// (jobspec::ValidateJobSpec), with the field.
absl::StatusOr<jobspec::JobSpec> FromProto(const v1::JobSpec& proto);

v1::CostModel ToProto(const planner::TimeModel& costs);
absl::StatusOr<planner::TimeModel> FromProto(const v1::CostModel& proto);

}  // namespace evenstep::wire

#endif  // EVENSTEP_WIRE_JOB_SPEC_PROTO_H_
