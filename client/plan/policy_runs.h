#ifndef EVENSTEP_CLIENT_PLAN_POLICY_RUNS_H_
#define EVENSTEP_CLIENT_PLAN_POLICY_RUNS_H_

// Plans one step with several policies and compares them: the same samples,
// memory and bound for all, every plan proven by the checker. On several
// threads if asked, with the same plans. Used by `evenstep plan` and by
// studies. Stateless.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "planner/planner.h"
#include "planner/simulator.h"

namespace evenstep::plan {

// fixed: every policy runs all samples. elastic: they are a pool, and the
// bucket policies draw a step from it, as they were published
// (planner/policies/elastic.h).
enum class BatchKind { kFixed, kElastic };

// What a policy drew from the pool, and what it left to later steps.
struct DrawnBatch {
  planner::PlanRequest request;  // of the drawn samples
  std::vector<planner::Sample> left;
};

struct PolicyRun {
  planner::Policy policy = planner::Policy::kEven;
  absl::Status status;              // why there is no plan
  std::optional<DrawnBatch> drawn;  // elastic
  planner::Plan plan;
  double planning_seconds = 0;  // CPU time
  std::optional<planner::SimulatedStep> simulated;
};

struct Comparison {
  planner::PlanRequest request;
  std::vector<PolicyRun> runs;  // in the order asked for

  // What the run's plan is of: all samples, or those it drew.
  const planner::PlanRequest& RequestOf(const PolicyRun& run) const {
    return run.drawn.has_value() ? run.drawn->request : request;
  }
  bool IsElastic() const;
  // Of all policies but `even`, the fastest; nullptr if there is none.
  const PolicyRun* BestBaseline() const;
  bool AnyPlan() const;
};

struct RunOptions {
  std::vector<planner::Policy> policies;
  int num_threads = 1;
  BatchKind batch = BatchKind::kFixed;
  uint64_t seed = 1;  // of elastic draws
  std::optional<planner::Hardware> simulate;
};

// All policies that can run such batches, or the one that is named.
// INVALID_ARGUMENT names the known.
absl::StatusOr<std::vector<planner::Policy>> PoliciesNamed(
    const std::string& name, BatchKind batch = BatchKind::kFixed);

// An infeasible policy is a run with a status. Errors are of the request or of
// the hardware.
absl::StatusOr<Comparison> ComparePolicies(const planner::PlanRequest& request,
                                           const RunOptions& options);

// Derived figures of a plan. Degrees: "8", or "1-16" from the least to the
// widest.
std::string DegreesOf(const planner::Plan& plan);
double RecomputeRatio(const planner::PlanRequest& request,
                      const planner::Plan& plan);  // of layers times tokens
double TokensPerSecond(const planner::PlanRequest& request,
                       const planner::Plan& plan);
double RatioToBound(const planner::Plan& plan);
// Most that a rank holds at once, over what it can hold: per rank.
std::vector<double> MemoryShares(const planner::PlanRequest& request,
                                 const planner::Plan& plan);
std::string BoundName(planner::BoundKind kind);

}  // namespace evenstep::plan

#endif  // EVENSTEP_CLIENT_PLAN_POLICY_RUNS_H_
