#include "planner/costs/device_memory.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "planner/validate.h"

namespace evenstep::planner {
namespace {

absl::Status CheckDevice(const DeviceMemory& device) {
  const bool ok =
      device.device_bytes > 0 && device.device_bytes <= kMaxActivationBytes &&
      device.margin >= 0 && device.margin < 1 && device.parameters >= 0 &&
      device.parameters <= kMaxActivationBytes / 64 &&
      device.states_over_ranks >= 1 && device.states_over_ranks <= kMaxRanks &&
      device.shard_replicas >= 0 &&
      device.shard_replicas < device.states_over_ranks;
  if (ok) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "device_bytes ", device.device_bytes, ", margin ", device.margin,
      ", parameters ", device.parameters, ", states_over_ranks ",
      device.states_over_ranks, ", shard_replicas ", device.shard_replicas,
      " are out of range"));
}

}  // namespace

absl::Status DeriveMemory(const DeviceMemory& device, MemoryModel* memory) {
  const int num_ways = (memory->tokens_per_rank != 0 ? 1 : 0) +
                       (memory->activation_bytes != 0 ? 1 : 0) +
                       (device.device_bytes != 0 ? 1 : 0);
  if (num_ways != 1) {
    return absl::InvalidArgumentError(
        "exactly one of tokens_per_rank, activation_bytes and device_bytes "
        "must be given");
  }
  if (device.device_bytes == 0) return absl::OkStatus();
  EVENSTEP_RETURN_IF_ERROR(CheckDevice(device));
  const int64_t states =
      device.parameters * StateBytesPerParameter(device.states,
                                                 device.states_over_ranks,
                                                 device.shard_replicas);
  memory->activation_bytes =
      std::llround((1 - device.margin) *
                   static_cast<double>(device.device_bytes)) -
      states;
  if (memory->activation_bytes > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the states of ", device.parameters, " parameters take ", states,
      " bytes, all of device_bytes ", device.device_bytes, " less the margin"));
}

}  // namespace evenstep::planner
