#ifndef EVENSTEP_COORDINATOR_STEPS_STEP_LENGTHS_H_
#define EVENSTEP_COORDINATOR_STEPS_STEP_LENGTHS_H_

// The samples of one step as they arrive, each rank's share in a report of its
// own. Checks that a share is exactly the rank's: positions i of the step with
// i mod world = rank, in order (law 1: no sample is lost or doubled). Takes
// memory for what was reported alone. Owned by JobSteps; not
// thread-safe.

#include <cstdint>
#include <map>
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

// INVALID_ARGUMENT with rank, step and sample: the report is not exactly the
// rank's share of `step`.
absl::Status CheckLengthShare(const StepShape& shape, int64_t step,
                              const v1::LengthReport& report);

class StepLengths {
 public:
  StepLengths(const StepShape& shape, int64_t step);

  // As CheckLengthShare, and another report than the rank's first. A repeated
  // equal report is fine.
  absl::Status Check(const v1::LengthReport& report) const;
  // As Check; after an error nothing of the report is kept.
  absl::Status Add(const v1::LengthReport& report);

  bool complete() const { return num_reported() == shape_.world; }
  int num_reported() const { return static_cast<int>(shares_.size()); }
  // By position. Complete steps only.
  std::vector<planner::Sample> samples() const;
  // Ranks whose share has not come.
  std::vector<int> MissingRanks() const;

 private:
  // A sample that has been checked, as the planner wants it.
  planner::Sample SampleAt(const v1::LengthReport& report, int index) const;
  std::vector<planner::Sample> ShareOf(const v1::LengthReport& report) const;
  int64_t Position(int rank, int index) const {
    return rank + int64_t{index} * shape_.world;
  }

  const StepShape shape_;
  const int64_t step_;
  std::map<int, std::vector<planner::Sample>> shares_;  // by rank
};

}  // namespace evenstep::coordinator

#endif  // EVENSTEP_COORDINATOR_STEPS_STEP_LENGTHS_H_
