#ifndef EVENSTEP_PLANNER_POLICIES_BUCKET_SHAPES_H_
#define EVENSTEP_PLANNER_POLICIES_BUCKET_SHAPES_H_

// How micro-batches of one bucket run, by the profile of the published bucket
// policies: from the bucket's bound, never from the samples at hand. Used by
// `bucket` and `dcp-*`, for fixed and for elastic batches. Stateless.

#include <cstdint>
#include <vector>

#include "planner/costs/cost_model.h"
#include "planner/policies/buckets.h"
#include "planner/request.h"

namespace evenstep::planner {

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

#endif  // EVENSTEP_PLANNER_POLICIES_BUCKET_SHAPES_H_
