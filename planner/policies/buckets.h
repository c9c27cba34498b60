#ifndef EVENSTEP_PLANNER_POLICIES_BUCKETS_H_
#define EVENSTEP_PLANNER_POLICIES_BUCKETS_H_

// Length buckets, and of video shape buckets, as bucketed data loaders have
// them: the facts of a run that `bucket` and `dcp-*` profile instead of looking
// at the step's own lengths. Stateless.

#include <cstdint>
#include <vector>

#include "planner/request.h"

namespace evenstep::planner {

struct Bucket {
  // What a profile assumes of every sample: the bucket's upper bound, or the
  // longest length possible; of video, the bucket's frames and patches.
  Sample profiled;
  std::vector<int> samples;  // indices into the request, in its order
};

// Buckets of the request that hold samples, longest first. Of text, bounds are
// run.bucket_bounds, or powers of two; where the cluster cannot hold the upper
// bound in any mode, the longest sample of the step stands in for it. Of video,
// a bucket is a number of frames and a resolution.
std::vector<Bucket> DivideIntoBuckets(const PlanRequest& request);

}  // namespace evenstep::planner

#endif  // EVENSTEP_PLANNER_POLICIES_BUCKETS_H_
