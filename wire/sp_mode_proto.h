#ifndef EVENSTEP_WIRE_SP_MODE_PROTO_H_
#define EVENSTEP_WIRE_SP_MODE_PROTO_H_

// Modes of sequence parallelism to and from the wire: the wire counts from 1,
// so that a mode that was not said is not a mode. Used by plans and job specs.

#include <optional>

#include "evenstep/v1/plan.pb.h"
#include "planner/model.h"

namespace evenstep::wire {

v1::SpMode SpModeToProto(planner::SpMode mode);
// Nothing: unspecified, or unknown to this program.
std::optional<planner::SpMode> SpModeFromProto(int mode);

}  // namespace evenstep::wire

#endif  // EVENSTEP_WIRE_SP_MODE_PROTO_H_
