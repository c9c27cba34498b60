#ifndef EVENSTEP_WORKER_TRAINER_TESTING_MEMORY_SWEEP_H_
#define EVENSTEP_WORKER_TRAINER_TESTING_MEMORY_SWEEP_H_

// The planner's memory formula with a model's constants against what tensors
// take: one sweep over cases of one kind, whatever the kind of model. For
// tests; no constant is fitted to what they measure. Main thread only.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>

#include "jobspec/job_spec.h"
#include "jobspec/plan_request.h"
#include "planner/costs/memory_model.h"
#include "worker/trainer/model/tensor_memory.h"
#include "worker/trainer/testing/measure_memory.h"

namespace evenstep::trainer::testing {

inline constexpr double kMemoryTolerance = 0.1;

// Before any tensor of the process.
inline const bool kTensorsAreCounted = [] {
  CountTensorBytes();
  return true;
}();

struct MemoryComparison {
  int64_t predicted_bytes = 0;
  int64_t measured_bytes = 1;

  // Predicted over measured, minus 1.
  double error() const {
    return static_cast<double>(predicted_bytes) /
               static_cast<double>(measured_bytes) -
           1;
  }
};

// `what` is a MemoryCase or a ClipMemoryCase, `config` of the job's model.
template <typename Config, typename Case>
MemoryComparison CompareMemory(const jobspec::JobSpec& job,
                               const Config& config, const Case& what) {
  EXPECT_TRUE(kTensorsAreCounted);
  const auto use = MeasureMemory(config, what);
  EXPECT_TRUE(use.ok()) << use.status();
  if (!use.ok()) return {};
  return {
      planner::PredictBytes(jobspec::ToPlanRequest(job), what.recompute_layers,
                            what.degree, use->own_tokens * what.degree),
      use->bytes};
}

// What a sweep sees of the errors; printed when it ends.
class MemorySweep {
 public:
  explicit MemorySweep(const char* name) : name_(name) {}
  ~MemorySweep() {
    std::printf("predicted memory, %s: %.1f %% to %+.1f %% over %d cases\n",
                name_, 100 * least_, 100 * most_, count_);
  }
  MemorySweep(const MemorySweep&) = delete;
  MemorySweep& operator=(const MemorySweep&) = delete;

  void Check(const MemoryComparison& compared, const std::string& what) {
    const double error = compared.error();
    least_ = count_ == 0 ? error : std::min(least_, error);
    most_ = count_ == 0 ? error : std::max(most_, error);
    ++count_;
    EXPECT_LE(std::abs(error), kMemoryTolerance)
        << what << ": " << compared.predicted_bytes << " bytes, measured "
        << compared.measured_bytes;
  }

 private:
  const char* const name_;
  double least_ = 0;
  double most_ = 0;
  int count_ = 0;
};

}  // namespace evenstep::trainer::testing

#endif  // EVENSTEP_WORKER_TRAINER_TESTING_MEMORY_SWEEP_H_
