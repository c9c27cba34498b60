#ifndef EVENSTEP_TESTS_DEVICE_CHECKS_H_
#define EVENSTEP_TESTS_DEVICE_CHECKS_H_

// The checks of device_check.cc. Each prints what it measured, indented, and
// fails with the numbers. They run one after another on the main thread, whose
// device and stream are chosen; none depends on another.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "evenstep/trainer/packed_shard.h"
#include "worker/trainer/model/decoder.h"

namespace evenstep::trainer {

// parity_checks.cc: whole steps, against the oracle on the CPU.
absl::Status StepOfOneRankIsTheOracles();
absl::Status ManyRanksOnOneDeviceAreTheOracle();
absl::Status HalfPrecisionStaysWithinRounding();

// kernel_checks.cc: attention and the decoder's parts, against float32.
absl::Status VarlenFlashAttention();
absl::Status FlashAttentionInBlocks();
absl::Status NormRotationAndEmbedding();

// speed_checks.cc
absl::Status RecomputeMemoryAndTime();
absl::Status ReportedTimesAreTheDevices();
absl::Status TrainingSpeed();

// nccl_checks.cc
absl::Status NcclCollectivesOfOneRank();
absl::Status NcclAbortAndRebuild();

// Of all checks.
inline at::Device Gpu() { return at::Device(at::kCUDA, 0); }
void Synchronize();
// INTERNAL with `what` unless it holds.
absl::Status Expect(bool holds, absl::string_view what);
// Largest of |a - b| over the largest of |b|, in float64.
double RelativeDifference(const at::Tensor& a, const at::Tensor& b);

}  // namespace evenstep::trainer

#endif  // EVENSTEP_TESTS_DEVICE_CHECKS_H_
