#ifndef EVENSTEP_PLANNER_POLICIES_BUCKETS_H_
#define EVENSTEP_PLANNER_POLICIES_BUCKETS_H_

// Length buckets, and of video shape buckets, as bucketed data loaders have
// them, and how micro-batches of one bucket run: by the profile of the
// published policies, which looks at the bucket's bound and never at the
// samples at hand. Used by `bucket` and `dcp-*`, for fixed and for elastic
// batches. Stateless.

#include <cstdint>
#include <vector>

#include "planner/costs/cost_model.h"
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

struct BucketShape {
  int degree = 1;
  LayerCounts recompute_layers;
  int64_t batch = 1;  // samples of a micro-batch
  int64_t ns = 0;     // of one micro-batch
};

// The shape with the best throughput of a rank, of at most `most_samples`, with
// recompute from `modes`. With contiguous blocks, of the world full of such
// groups: 12 of 5 ranks leave 4 of 64 idle. The profiled sample must fit some
// degree in one.
BucketShape BestShape(const PlanRequest& request, const CostModel& costs,
                      const Bucket& bucket,
                      const std::vector<LayerCounts>& modes,
                      int64_t most_samples);

// One degree for all buckets: as many samples as take no longer than one of the
// first bucket, the longest.
std::vector<BucketShape> EvenShapes(const PlanRequest& request,
                                    const CostModel& costs,
                                    const std::vector<Bucket>& buckets,
                                    int degree, const LayerCounts& recompute);

// The least recompute with which some degree holds the longest of every bucket.
LayerCounts LeastModeThatHolds(const PlanRequest& request,
                               const std::vector<Bucket>& buckets);

}  // namespace evenstep::planner

#endif  // EVENSTEP_PLANNER_POLICIES_BUCKETS_H_
