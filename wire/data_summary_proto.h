#ifndef EVENSTEP_WIRE_DATA_SUMMARY_PROTO_H_
#define EVENSTEP_WIRE_DATA_SUMMARY_PROTO_H_

// Summaries of a length index between struct and wire. Pure functions.

#include "absl/status/statusor.h"
#include "data/dataset.h"
#include "evenstep/v1/plan.pb.h"

namespace evenstep::wire {

v1::DataSummary ToProto(const data::DatasetSummary& summary);
// INVALID_ARGUMENT for a count below 0.
absl::StatusOr<data::DatasetSummary> FromProto(const v1::DataSummary& proto);

}  // namespace evenstep::wire

#endif  // EVENSTEP_WIRE_DATA_SUMMARY_PROTO_H_
