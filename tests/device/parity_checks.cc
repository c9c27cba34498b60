// Whole steps (forward, loss, gradients, clipping, AdamW) on the GPU against
// worker/trainer/testing/oracle.h on the CPU. Ranks are threads that share the
// device, each with a stream of its own, over staged_communicator.h.

#include <ATen/ATen.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "tests/device/checks.h"
#include "tests/device/staged_communicator.h"
#include "worker/trainer/cuda/cuda_support.h"
#include "worker/trainer/testing/parity.h"

namespace evenstep::trainer {
namespace {

using testing::ParityOptions;
using testing::ParityReport;
using testing::TestMicroBatch;

constexpr double kTolerance = 1e-10;

absl::Status StartRank() { return MakeCudaSupport().start(0).status(); }

// Heads of 16 values, which flash attention takes in bfloat16.
ParityOptions OnGpu(int world, std::vector<TestMicroBatch> micro_batches) {
  ParityOptions options;
  options.config = testing::SmallConfig();
  options.config.width = 64;
  options.config.vocab = 257;
  options.config.device = Gpu();
  options.world = world;
  options.steps.assign(3, micro_batches);
  options.start_rank = StartRank;
  options.wrap_factory = MakeStagedFactory;
  return options;
}

struct Tolerance {
  double loss = kTolerance;
  double gradient = kTolerance;
};

absl::Status ExpectParity(absl::string_view what, const ParityOptions& options,
                          const Tolerance& tolerance = {}) {
  const auto report = testing::RunParity(options);
  if (!report.ok()) {
    return absl::Status(report.status().code(),
                        absl::StrCat(what, ": ", report.status().message()));
  }
  absl::PrintF("  %-34s loss %.1e, gradients %.1e, parameters %.1e\n", what,
               report->loss, report->gradient, report->parameter);
  return Expect(
      report->loss < tolerance.loss && report->gradient < tolerance.gradient,
      absl::StrCat(what, " is too far from the oracle"));
}

// The first error; all are run.
void Keep(absl::Status next, absl::Status* first) {
  if (!next.ok()) absl::PrintF("  %s\n", next.ToString());
  first->Update(next);
}

std::vector<std::pair<const char*, std::vector<TestMicroBatch>>>
TwoRankCases() {
  return {{"2 ranks alone", {{0, 1, {40, 5}}, {1, 1, {33}}}},
          {"Ulysses 2", {{0, 2, {37, 1, 20}, 1}, {1, 1, {9}}}},
          {"KV-gather 2", {{0, 2, {37, 1, 20}, 1, 1}, {1, 1, {9}}}}};
}

}  // namespace

absl::Status StepOfOneRankIsTheOracles() {
  absl::Status status;
  const ParityOptions options =
      OnGpu(1, {{0, 1, {37, 1, 64, 2}}, {0, 1, {50}, 2}, {0, 1, {3, 3}, 1}});
  Keep(ExpectParity("causal", options), &status);
  ParityOptions full = options;
  full.config.attention = AttentionMask::kFull;
  Keep(ExpectParity("full attention", full), &status);
  ParityOptions split = options;
  split.sharding = Sharding::kZero1;
  Keep(ExpectParity("ZeRO-1", split), &status);
  return status;
}

absl::Status ManyRanksOnOneDeviceAreTheOracle() {
  absl::Status status;
  for (auto& [what, micro_batches] : TwoRankCases()) {
    ParityOptions options = OnGpu(2, micro_batches);
    Keep(ExpectParity(what, options), &status);
    options.sharding = Sharding::kZero1;
    Keep(ExpectParity(absl::StrCat(what, ", ZeRO-1"), options), &status);
  }
  ParityOptions both = OnGpu(4, {{0, 4, {45, 7}, 1, 2}, {0, 2, {11}, 0, 1}});
  both.sharding = Sharding::kZero1;
  Keep(ExpectParity("both: 2 x 2, ZeRO-1", both), &status);
  return status;
}

// Far from the oracle's float32, but no further at degree 2 than at 1.
absl::Status HalfPrecisionStaysWithinRounding() {
  const Tolerance rounding = {.loss = 2e-2, .gradient = 0.15};
  absl::Status status;
  ParityOptions alone = OnGpu(1, {{0, 1, {300, 41, 512}, 1}});
  alone.config.dtype = at::kBFloat16;
  Keep(ExpectParity("1 rank", alone, rounding), &status);
  for (auto& [what, micro_batches] : TwoRankCases()) {
    micro_batches[0].lengths.insert(micro_batches[0].lengths.end(), {300, 512});
    ParityOptions options = OnGpu(2, micro_batches);
    options.config.dtype = at::kBFloat16;
    options.sharding = Sharding::kZero1;
    Keep(ExpectParity(what, options, rounding), &status);
  }
  return status;
}

}  // namespace evenstep::trainer
