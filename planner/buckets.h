#ifndef EVENSTEP_PLANNER_BUCKETS_H_
#define EVENSTEP_PLANNER_BUCKETS_H_

// Length buckets, as bucketed data loaders have them: the facts of a run that
// `bucket` and `dcp-*` profile instead of looking at the step's own lengths.
// Stateless.

#include <cstdint>
#include <vector>

#include "planner/request.h"

namespace evenstep::planner {

struct Bucket {
  // What a profile assumes of every sample: the bucket's upper bound, or the
  // longest length possible.
  int64_t profiled_length = 0;
  std::vector<int> samples;  // indices into the request, in its order
};

// Buckets of the request that hold samples, longest first. Bounds are
// run.bucket_bounds, or powers of two. Where the cluster cannot hold the upper
// bound in any mode, the longest sample of the step stands in for it.
std::vector<Bucket> DivideIntoBuckets(const PlanRequest& request);

}  // namespace evenstep::planner

#endif  // EVENSTEP_PLANNER_BUCKETS_H_
