#include "client/plan/policy_runs.h"

#include <time.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "planner/costs/cost_model.h"
#include "planner/costs/fits.h"
#include "planner/costs/memory_model.h"
#include "planner/policies.h"
#include "planner/policies/elastic.h"
#include "planner/proof/bounds.h"
#include "planner/validate.h"

namespace evenstep::plan {
namespace {

using planner::Plan;
using planner::PlanRequest;
using planner::Policy;

constexpr int kMaxThreads = 256;

double ThreadCpuSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) +
         static_cast<double>(now.tv_nsec) * 1e-9;
}

// Whether the policy looks at all recompute choices by itself.
bool ChoosesRecompute(Policy policy) {
  switch (policy) {
    case Policy::kEven:
    case Policy::kBucket:
    case Policy::kBucketTuned:
    case Policy::kDcpInter:
    case Policy::kDcpIntra:
      return true;
    default:
      return false;
  }
}

// Whether the policy keeps one degree, that a user would tune. `bucket` is
// published with the smallest.
bool IsTunedByDegree(Policy policy) {
  return policy == Policy::kStatic || policy == Policy::kBalanced ||
         policy == Policy::kPacked || policy == Policy::kBucketTuned;
}

// Keeps the faster plan; of two errors the first.
void KeepFaster(absl::StatusOr<Plan> plan, absl::StatusOr<Plan>& best) {
  const bool better = plan.ok() && (!best.ok() || plan->predicted_step_ns <
                                                      best->predicted_step_ns);
  if (better || absl::IsUnknown(best.status())) best = std::move(plan);
}

// Every degree that holds the longest sample.
void OfferEveryDegree(PlanRequest request, absl::StatusOr<Plan>& best) {
  KeepFaster(planner::MakePlan(request), best);
  const auto own = planner::StaticDegree(request);
  if (!own.ok()) return;
  for (int degree : planner::StaticDegrees(request)) {
    if (degree == *own) continue;
    request.options.static_degree = degree;
    KeepFaster(planner::MakePlan(request), best);
  }
}

// The plan of a policy that keeps one degree and, `bucket-tuned` apart, one
// number of recomputed layers: with those that are fastest.
absl::StatusOr<Plan> BestSingleMode(const PlanRequest& request, Policy policy) {
  absl::StatusOr<Plan> best = absl::UnknownError("not planned yet");
  if (ChoosesRecompute(policy)) {
    OfferEveryDegree(request, best);
    return best;
  }
  for (const auto& mode : planner::RecomputeModes(request)) {
    PlanRequest single = request;
    single.options.recompute_choices.clear();
    single.options.recompute_layers = mode;
    OfferEveryDegree(std::move(single), best);
  }
  return best;
}

absl::StatusOr<Plan> MakeCheckedPlan(PlanRequest request, Policy policy,
                                     const planner::LowerBound& bound) {
  request.options.policy = policy;
  EVENSTEP_ASSIGN_OR_RETURN(Plan plan, IsTunedByDegree(policy)
                                           ? BestSingleMode(request, policy)
                                           : planner::MakePlan(request));
  // Of the whole request, whatever mode the policy kept to.
  plan.lower_bound_ns = bound.step_ns;
  plan.active_bound = bound.kind;
  EVENSTEP_RETURN_IF_ERROR(planner::CheckPlan(request, plan));
  return plan;
}

// As published: `bucket` without accumulation, and `packed`, which has no rule
// for recompute, with the most that may be chosen.
absl::Status DrawChecked(PlanRequest pool, const RunOptions& options,
                         PolicyRun* run) {
  pool.options.policy = run->policy;
  if (run->policy == Policy::kPacked) {
    pool.options.recompute_layers = planner::RecomputeModes(pool).back();
    pool.options.recompute_choices.clear();
  }
  planner::ElasticOptions draw;
  draw.seed = options.seed;
  if (run->policy == Policy::kBucket) {
    draw.accumulation = planner::Accumulation::kNone;
  }
  EVENSTEP_ASSIGN_OR_RETURN(planner::ElasticStep step,
                            planner::DrawElasticStep(pool, draw));
  EVENSTEP_RETURN_IF_ERROR(planner::CheckElasticStep(pool, step));
  run->drawn = {std::move(step.request), std::move(step.carried_over)};
  run->plan = std::move(step.plan);
  return absl::OkStatus();
}

absl::Status PlanChecked(const PlanRequest& request,
                         const planner::LowerBound& bound,
                         const RunOptions& options, PolicyRun* run) {
  if (options.batch == BatchKind::kElastic) {
    return DrawChecked(request, options, run);
  }
  EVENSTEP_ASSIGN_OR_RETURN(run->plan,
                            MakeCheckedPlan(request, run->policy, bound));
  return absl::OkStatus();
}

PolicyRun RunPolicy(const PlanRequest& request, Policy policy,
                    const planner::LowerBound& bound,
                    const RunOptions& options) {
  PolicyRun run;
  run.policy = policy;
  const double start = ThreadCpuSeconds();
  run.status = PlanChecked(request, bound, options, &run);
  run.planning_seconds = ThreadCpuSeconds() - start;
  if (!run.status.ok() || !options.simulate.has_value()) return run;
  auto step =
      planner::Simulate(run.drawn.has_value() ? run.drawn->request : request,
                        run.plan, *options.simulate);
  run.status = step.status();
  if (step.ok()) run.simulated = *std::move(step);
  return run;
}

planner::LowerBound BoundOf(const PlanRequest& request) {
  const planner::CostModel costs(request, request.options.recompute_layers);
  const planner::CostTable table(request, costs);
  return planner::ComputeLowerBound(request, costs, table);
}

}  // namespace

const PolicyRun* Comparison::BestBaseline() const {
  const PolicyRun* best = nullptr;
  for (const PolicyRun& run : runs) {
    if (!run.status.ok() || run.policy == Policy::kEven) continue;
    if (best == nullptr ||
        run.plan.predicted_step_ns < best->plan.predicted_step_ns) {
      best = &run;
    }
  }
  return best;
}

bool Comparison::IsElastic() const {
  return std::any_of(runs.begin(), runs.end(), [](const PolicyRun& run) {
    return run.drawn.has_value();
  });
}

bool Comparison::AnyPlan() const {
  return std::any_of(runs.begin(), runs.end(),
                     [](const PolicyRun& run) { return run.status.ok(); });
}

absl::StatusOr<std::vector<Policy>> PoliciesNamed(const std::string& name,
                                                  BatchKind batch) {
  std::vector<Policy> policies;
  if (name == "all") {
    for (const auto& row : planner::Policies()) {
      if (batch == BatchKind::kFixed ||
          planner::DrawsElasticBatches(row.policy)) {
        policies.push_back(row.policy);
      }
    }
    return policies;
  }
  auto policy = planner::ParsePolicy(name);
  if (!policy.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(policy.status().message(), ", and all"));
  }
  policies.push_back(*policy);
  return policies;
}

absl::StatusOr<Comparison> ComparePolicies(const PlanRequest& request,
                                           const RunOptions& options) {
  EVENSTEP_RETURN_IF_ERROR(planner::ValidateRequest(request));
  if (options.num_threads < 1 || options.num_threads > kMaxThreads) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.num_threads, " threads; from 1 to ", kMaxThreads));
  }
  Comparison comparison;
  comparison.request = request;
  comparison.runs.resize(options.policies.size());
  const absl::Status fit = planner::CheckSamplesFit(request);
  if (!fit.ok()) {
    for (size_t i = 0; i < comparison.runs.size(); ++i) {
      comparison.runs[i].policy = options.policies[i];
      comparison.runs[i].status = fit;
    }
    return comparison;
  }
  const planner::LowerBound bound = BoundOf(request);
  std::atomic<size_t> next = 0;
  auto work = [&] {
    for (size_t i = next++; i < comparison.runs.size(); i = next++) {
      comparison.runs[i] =
          RunPolicy(request, options.policies[i], bound, options);
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int i = 1; i < options.num_threads; ++i) threads.emplace_back(work);
    work();
  }
  for (const PolicyRun& run : comparison.runs) {
    if (absl::IsInvalidArgument(run.status)) return run.status;
  }
  return comparison;
}

std::string DegreesOf(const Plan& plan) {
  int least = 0;
  int most = 0;
  for (const planner::MicroBatch& batch : plan.micro_batches) {
    least = least == 0 ? batch.degree : std::min(least, batch.degree);
    most = std::max(most, batch.degree);
  }
  return least == most ? absl::StrCat(most) : absl::StrCat(least, "-", most);
}

double RecomputeRatio(const PlanRequest& request, const Plan& plan) {
  double recomputed = 0;
  double all = 0;
  for (const planner::MicroBatch& batch : plan.micro_batches) {
    const auto tokens = static_cast<double>(batch.padded_tokens);
    recomputed += tokens * batch.recompute_layers.total();
    all += tokens * request.model.layers().total();
  }
  return all > 0 ? recomputed / all : 0;
}

double TokensPerSecond(const PlanRequest& request, const Plan& plan) {
  double tokens = 0;
  for (const auto& sample : request.samples) {
    tokens += static_cast<double>(sample.length);
  }
  const double seconds = static_cast<double>(plan.predicted_step_ns) * 1e-9;
  return seconds > 0 ? tokens / seconds : 0;
}

double RatioToBound(const Plan& plan) {
  if (plan.lower_bound_ns == 0) return plan.predicted_step_ns == 0 ? 1 : 0;
  return static_cast<double>(plan.predicted_step_ns) /
         static_cast<double>(plan.lower_bound_ns);
}

std::vector<double> MemoryShares(const PlanRequest& request, const Plan& plan) {
  std::vector<double> shares(request.cluster.num_ranks(), 0);
  for (const planner::MicroBatch& batch : plan.micro_batches) {
    const double room = static_cast<double>(
        planner::TokensPerRank(request, batch.recompute_layers, batch.degree));
    const double share =
        static_cast<double>(batch.padded_tokens) / batch.degree / room;
    for (int i = 0; i < batch.degree; ++i) {
      double& most = shares[batch.first_rank + i];
      most = std::max(most, share);
    }
  }
  return shares;
}

std::string BoundName(planner::BoundKind kind) {
  switch (kind) {
    case planner::BoundKind::kArea:
      return "area";
    case planner::BoundKind::kLongest:
      return "longest";
    case planner::BoundKind::kMemory:
      return "memory";
    case planner::BoundKind::kDestructive:
      return "destructive";
  }
  return "unknown";
}

}  // namespace evenstep::plan
