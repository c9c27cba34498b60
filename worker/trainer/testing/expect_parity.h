#ifndef EVENSTEP_WORKER_TRAINER_TESTING_EXPECT_PARITY_H_
#define EVENSTEP_WORKER_TRAINER_TESTING_EXPECT_PARITY_H_

// Parity as expectations of googletest: float64 to 1e-10. For tests.

#include <gtest/gtest.h>

#include <cmath>
#include <utility>
#include <vector>

#include "worker/trainer/testing/parity.h"

namespace evenstep::trainer::testing {

inline constexpr double kParityTolerance = 1e-10;
// Weights and local means give the token mean of one process.
inline constexpr double kLossTolerance = 1e-12;

inline ParityReport MustRun(const ParityOptions& options) {
  absl::StatusOr<ParityReport> report = RunParity(options);
  EXPECT_TRUE(report.ok()) << report.status();
  if (!report.ok()) {
    ParityReport none;
    none.loss = none.gradient = none.parameter = INFINITY;
    return none;
  }
  return *std::move(report);
}

inline void ExpectParity(const ParityOptions& options) {
  const ParityReport report = MustRun(options);
  EXPECT_LE(report.loss, kLossTolerance);
  EXPECT_LE(report.gradient, kParityTolerance);
  EXPECT_LE(report.parameter, kParityTolerance);
}

inline ParityOptions OneStep(int world,
                             std::vector<TestMicroBatch> micro_batches) {
  ParityOptions options;
  options.config = SmallConfig();
  options.world = world;
  options.steps = {std::move(micro_batches)};
  return options;
}

}  // namespace evenstep::trainer::testing

#endif  // EVENSTEP_WORKER_TRAINER_TESTING_EXPECT_PARITY_H_
