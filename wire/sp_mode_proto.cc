#include "wire/sp_mode_proto.h"

namespace evenstep::wire {

v1::SpMode SpModeToProto(planner::SpMode mode) {
  switch (mode) {
    case planner::SpMode::kUlysses:
      return v1::SP_MODE_ULYSSES;
    case planner::SpMode::kKvGather:
      return v1::SP_MODE_KV_GATHER;
    case planner::SpMode::kBoth:
      return v1::SP_MODE_BOTH;
    case planner::SpMode::kSwitch:
      return v1::SP_MODE_SWITCH;
  }
  return v1::SP_MODE_UNSPECIFIED;
}

std::optional<planner::SpMode> SpModeFromProto(int mode) {
  switch (mode) {
    case v1::SP_MODE_ULYSSES:
      return planner::SpMode::kUlysses;
    case v1::SP_MODE_KV_GATHER:
      return planner::SpMode::kKvGather;
    case v1::SP_MODE_BOTH:
      return planner::SpMode::kBoth;
    case v1::SP_MODE_SWITCH:
      return planner::SpMode::kSwitch;
    default:
      return std::nullopt;
  }
}

}  // namespace evenstep::wire
