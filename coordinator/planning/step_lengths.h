#ifndef EVENSTEP_COORDINATOR_PLANNING_STEP_LENGTHS_H_
#define EVENSTEP_COORDINATOR_PLANNING_STEP_LENGTHS_H_

// The samples of one step as they arrive, each rank's share in a report of its
// own. Checks that a share is exactly the rank's: positions i of the step with
// i mod world = rank, in order (law 1: no sample is lost or doubled). Owned by
// the plan pipeline; not thread-safe.

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "evenstep/v1/plan.pb.h"
#include "planner/request.h"

namespace evenstep::coordinator {

struct StepShape {
  int world = 1;
  int64_t batch_samples = 1;
  int64_t max_length = 1;
  bool is_video = false;  // reports carry shapes
};

class StepLengths {
 public:
  StepLengths(const StepShape& shape, int64_t step);

  // INVALID_ARGUMENT with rank, step and sample: nothing of it is kept. A
  // repeated equal report is fine; another one from the same rank is refused.
  absl::Status Add(const v1::LengthReport& report);

  bool complete() const { return num_reported_ == shape_.world; }
  // By position. Complete steps only.
  const std::vector<planner::Sample>& samples() const { return samples_; }
  // Ranks whose share has not come.
  std::vector<int> MissingRanks() const;

 private:
  absl::Status CheckShare(const v1::LengthReport& report) const;
  absl::Status CheckSample(const v1::LengthReport& report, int index) const;
  // A sample that has been checked, as the planner wants it.
  planner::Sample SampleAt(const v1::LengthReport& report, int index) const;
  bool SameAsKept(const v1::LengthReport& report) const;
  int64_t Position(int rank, int index) const {
    return rank + int64_t{index} * shape_.world;
  }

  const StepShape shape_;
  const int64_t step_;
  std::vector<planner::Sample> samples_;
  std::vector<bool> reported_;
  int num_reported_ = 0;
};

}  // namespace evenstep::coordinator

#endif  // EVENSTEP_COORDINATOR_PLANNING_STEP_LENGTHS_H_
