#ifndef EVENSTEP_WIRE_DATA_SUMMARY_PROTO_H_
#define EVENSTEP_WIRE_DATA_SUMMARY_PROTO_H_

// Summaries of a length index, and of all data of a job, between struct and
// wire. Pure functions.

#include "absl/status/statusor.h"
#include "data/dataset.h"
#include "evenstep/v1/plan.pb.h"
#include "jobspec/open_data.h"

namespace evenstep::wire {

v1::DataSummary ToProto(const data::DatasetSummary& summary);
v1::DataSummary ToProto(const jobspec::OpenedData& data);
// INVALID_ARGUMENT for a count below 0.
absl::StatusOr<data::DatasetSummary> FromProto(const v1::DataSummary& proto);

}  // namespace evenstep::wire

#endif  // EVENSTEP_WIRE_DATA_SUMMARY_PROTO_H_
