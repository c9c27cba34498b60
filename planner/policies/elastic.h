#ifndef EVENSTEP_PLANNER_POLICIES_ELASTIC_H_
#define EVENSTEP_PLANNER_POLICIES_ELASTIC_H_

// Elastic batches: the set-up in which the bucket policies were published. The
// request's samples are a pool; groups are drawn from it until the ranks are
// full, so the number of samples of a step floats. What is not drawn stays for
// later steps: nothing is lost, nothing runs twice (docs/adr/0010). Breaks law
// 1 by design, so only `evenstep plan --batch elastic` and the study call this;
// no job does (docs/adr/0020). Pure: same pool, options and step, same draw.
// Stateless.
//
//   while (!pool.samples.empty()) {
//     absl::StatusOr<ElasticStep> step = DrawElasticStep(pool, {.step = k++});
//     ...                                 // step->plan is of step->request
//     pool.samples = step->carried_over;
//   }

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "planner/plan.h"
#include "planner/request.h"

namespace evenstep::planner {

enum class Accumulation {
  kNone,    // every group runs one micro-batch
  kMatched  // groups run as many as the slowest one's time allows
};

struct ElasticOptions {
  uint64_t seed = 0;
  int64_t step = 0;
  Accumulation accumulation = Accumulation::kMatched;
};

struct ElasticStep {
  PlanRequest request;  // the pool's, with the drawn samples only
  Plan plan;            // of all of them; CheckPlan(request, plan) passes
  std::vector<Sample> carried_over;  // in the pool's order
};

// Whether the policy draws its batch: bucket, packed, dcp-inter, dcp-intra.
bool DrawsElasticBatches(Policy policy);

// options.policy of the pool says what is drawn:
//   bucket     one degree set by the longest, most recompute of the modes; each
//              replica draws a micro-batch of one bucket
//   packed     the same degree; each replica is packed to capacity in the order
//              of the pool
//   dcp-inter  groups of a bucket's own degree and size, until the ranks are
//   dcp-intra  full; intra also with the bucket's own recompute
// Buckets are drawn by how many samples they hold. A bucket that cannot fill a
// micro-batch waits, unless nothing else can be drawn. A step without a trained
// token has no divisor: then the ranks are filled again, in further rounds,
// until there is one. INVALID_ARGUMENT for other policies, and for a pool
// without a trained token, the end of the data: what it holds changes no
// gradient. Else fails as MakePlan does.
absl::StatusOr<ElasticStep> DrawElasticStep(const PlanRequest& pool,
                                            const ElasticOptions& options);

// Law 1 under elastic: every id of the pool is in the step or carried over,
// once, unchanged; the step's request is the pool's in everything else; and
// CheckPlan. INTERNAL with what is broken.
absl::Status CheckElasticStep(const PlanRequest& pool, const ElasticStep& step);

}  // namespace evenstep::planner

#endif  // EVENSTEP_PLANNER_POLICIES_ELASTIC_H_
