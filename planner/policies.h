#ifndef EVENSTEP_PLANNER_POLICIES_H_
#define EVENSTEP_PLANNER_POLICIES_H_

// The table of policies. A policy turns a valid request into placements; all
// else (prediction, bound, digest) is the same for every one and done by
// MakePlan. To add a policy: write a PolicyFunction, add its row to
// policies.cc and its name to the enum in request.h. Stateless.

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "planner/costs/cost_model.h"
#include "planner/costs/fits.h"
#include "planner/evaluate.h"
#include "planner/proof/bounds.h"
#include "planner/request.h"

namespace evenstep::planner {

// The request is valid, and every sample fits some legal degree.
struct PolicyInput {
  const PlanRequest& request;
  const CostModel& costs;
  const CostTable& table;
  const LowerBound& bound;
};

using PolicyFunction =
    absl::StatusOr<std::vector<Placement>> (*)(const PolicyInput& input);

struct PolicyRow {
  Policy policy;
  absl::string_view name;
  PolicyFunction place;
};

absl::Span<const PolicyRow> Policies();

// The rows. Each fails with FAILED_PRECONDITION if its own rule cannot hold the
// samples.

// One degree for the run; sample i to replica i mod R, next fit in order.
absl::StatusOr<std::vector<Placement>> PlaceStatic(const PolicyInput& input);
// The static degree; longest processing time by cost over the replicas, then
// first-fit decreasing within each.
absl::StatusOr<std::vector<Placement>> PlaceBalanced(const PolicyInput& input);
// The static degree; first-fit decreasing over all, bins dealt round-robin.
absl::StatusOr<std::vector<Placement>> PlacePacked(const PolicyInput& input);
// One degree set by the longest, most recompute of the modes; micro-batches of
// one length bucket each, their sizes evening out time.
absl::StatusOr<std::vector<Placement>> PlaceBucket(const PolicyInput& input);
// The same in the mode that is fastest.
absl::StatusOr<std::vector<Placement>> PlaceBucketTuned(
    const PolicyInput& input);
// Every bucket in its throughput-best (degree, micro-batch); groups drawn until
// the ranks are full, accumulation such that all end together.
absl::StatusOr<std::vector<Placement>> PlaceDcpInter(const PolicyInput& input);
// The same with recompute by bucket.
absl::StatusOr<std::vector<Placement>> PlaceDcpIntra(const PolicyInput& input);
// Degree and place of every sample chosen for exactly these samples; never
// slower than another row.
absl::StatusOr<std::vector<Placement>> PlaceEven(const PolicyInput& input);

}  // namespace evenstep::planner

#endif  // EVENSTEP_PLANNER_POLICIES_H_
