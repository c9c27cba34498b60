#include "worker/trainer/loop/evaluator.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "wire/job_spec_proto.h"
#include "worker/trainer/job/agreement.h"
#include "worker/trainer/job/evaluation_data.h"
#include "worker/trainer/job/plan_needs.h"
#include "worker/trainer/link/failure.h"

namespace evenstep::trainer {
namespace {

// Larger than any reason: the rank could read its samples.
constexpr int64_t kNoFailure = std::numeric_limits<int64_t>::max();

// Costs that were measured differ from rank to rank.
absl::StatusOr<planner::TimeModel> CostsOfRankZero(
    const planner::TimeModel& costs, Communicator& world) {
  std::string text = wire::ToProto(costs).SerializeAsString();
  EVENSTEP_RETURN_IF_ERROR(BroadcastText(world, &text));
  evenstep::v1::CostModel proto;
  if (!proto.ParseFromString(text)) {
    return absl::InternalError("rank 0's costs cannot be parsed");
  }
  return wire::FromProto(proto);
}

absl::StatusOr<std::vector<wire::StepPlan>> AgreeOnPlans(
    const Evaluator::Parts& parts, const planner::TimeModel& own_costs) {
  Communicator& world = parts.engine->groups->world();
  planner::TimeModel costs = own_costs;
  if (!parts.setup->spec.costs.has_value()) {
    EVENSTEP_ASSIGN_OR_RETURN(costs, CostsOfRankZero(own_costs, world));
  }
  EVENSTEP_ASSIGN_OR_RETURN(
      std::vector<wire::StepPlan> plans,
      PlanEvaluation(*parts.setup, costs, parts.data->samples()));
  EVENSTEP_RETURN_IF_ERROR(CheckSameOnAllRanks(
      world, "the plans of the evaluation", DigestOf(plans)));
  return plans;
}

}  // namespace

absl::StatusOr<Evaluator> Evaluator::Create(const Parts& parts,
                                            const planner::TimeModel& costs) {
  auto plans = AgreeOnPlans(parts, costs);
  if (plans.ok()) return Evaluator(parts, *std::move(plans));
  return WithReason(plans.status(), FailureReason::kStartFailed, kNoStep);
}

Evaluator::Evaluator(const Parts& parts, std::vector<wire::StepPlan> plans)
    : parts_(parts), plans_(std::move(plans)) {
  for (const wire::StepPlan& plan : plans_) {
    trained_tokens_ += plan.trained_tokens;
    longest_plan_ns_ = std::max(longest_plan_ns_, plan.predicted_step_ns);
  }
}

bool Evaluator::IsDue(int64_t step) const {
  const jobspec::JobSpec& spec = parts_.setup->spec;
  const int64_t done = step + 1;
  return done == spec.steps ||
         (spec.evaluation.every > 0 && done % spec.evaluation.every == 0);
}

absl::StatusOr<EvaluationResult> Evaluator::Run(int64_t step) const {
  // Of all plans: peers may still run the one before.
  parts_.set_timeout(longest_plan_ns_);
  auto result = RunPlans(step);
  if (result.ok()) return result;
  return WithReason(result.status(), ReasonOfEngineError(result.status()),
                    step);
}

absl::StatusOr<EvaluationResult> Evaluator::RunPlans(int64_t step) const {
  ForwardResult own;
  for (const wire::StepPlan& plan : plans_) {
    const absl::StatusOr<SampleMap> samples = parts_.data->Load(plan, step);
    EvaluationResult result;
    EVENSTEP_RETURN_IF_ERROR(Agree(samples.status(), step, &result.failure));
    if (!result.failure.ok()) return result;
    EVENSTEP_RETURN_IF_ERROR(OpenGroups(*parts_.engine->groups, plan));
    EVENSTEP_ASSIGN_OR_RETURN(
        const ForwardResult done,
        parts_.engine->runner->RunForward(plan, ReaderOf(*samples)));
    own.loss_sum += done.loss_sum;
    own.trained_tokens += done.trained_tokens;
  }
  return Reduce(own, step);
}

absl::Status Evaluator::Agree(const absl::Status& own, int64_t step,
                              absl::Status* failure) const {
  int64_t reason = own.ok() ? kNoFailure : static_cast<int64_t>(ReasonOf(own));
  EVENSTEP_RETURN_IF_ERROR(
      parts_.engine->groups->world().AllReduceMin(absl::MakeSpan(&reason, 1)));
  if (reason == kNoFailure) return absl::OkStatus();
  *failure =
      !own.ok()
          ? own
          : FailureError(
                FailureReason::kPeerFailed, step,
                absl::StrCat(
                    "another rank cannot evaluate after step ", step, ": ",
                    FailureReasonName(static_cast<FailureReason>(reason))));
  return absl::OkStatus();
}

// Sums of doubles are exact for counts, and equal to the last bit on all ranks.
absl::StatusOr<EvaluationResult> Evaluator::Reduce(const ForwardResult& own,
                                                   int64_t step) const {
  double totals[] = {own.loss_sum, static_cast<double>(own.trained_tokens)};
  EVENSTEP_RETURN_IF_ERROR(
      parts_.engine->groups->world().AllReduceSum(absl::MakeSpan(totals)));
  EvaluationResult result;
  result.trained_tokens = static_cast<int64_t>(totals[1]);
  if (result.trained_tokens != trained_tokens_) {
    return absl::InternalError(
        absl::StrCat("the ranks counted ", result.trained_tokens,
                     " tokens with a loss in an evaluation, its plans say ",
                     trained_tokens_));
  }
  result.loss = totals[0] / totals[1];
  if (!std::isfinite(result.loss)) {
    result.failure = FailureError(
        FailureReason::kNotFinite, step,
        absl::StrCat("the loss of the held-out samples after step ", step,
                     " is not finite (", result.loss,
                     "); the loss of the step itself is finite"));
  }
  return result;
}

}  // namespace evenstep::trainer
