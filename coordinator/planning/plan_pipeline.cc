#include "coordinator/planning/plan_pipeline.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "planner/costs/cost_limits.h"

namespace evenstep::coordinator {
namespace {

// Ranks may be a gate apart, and reports of one rank overtake another's: twice
// the look-ahead, and some more for short ones.
constexpr int64_t kSlackSteps = 8;

}  // namespace

PlanPipeline::PlanPipeline(const jobspec::JobSpec& spec,
                           std::vector<int> ranks_per_node, int64_t generation)
    : spec_(spec),
      ranks_per_node_(std::move(ranks_per_node)),
      generation_(generation),
      costs_(spec.costs),
      nominal_{planner::NominalCosts(jobspec::ToModelShape(spec.model)), {}} {}

int64_t PlanPipeline::LastAllowedStep() const {
  return std::min(spec_.steps - 1,
                  next_step_ + 2 * spec_.look_ahead + kSlackSteps);
}

// Plans are held until their steps are committed: ranks that report lengths and
// run no step must not fill the memory.
bool PlanPipeline::IsFarAhead() const {
  return !plans_.empty() && next_step_ - plans_.begin()->first >
                                2 * spec_.look_ahead + kSlackSteps;
}

StepShape PlanPipeline::Shape() const {
  return {spec_.ranks, spec_.batch_samples, spec_.data.max_length,
          spec_.model.is_video()};
}

absl::Status PlanPipeline::CheckLengths(const v1::LengthReport& report) const {
  const int64_t step = report.step();
  if (report.rank() < 0 || report.rank() >= spec_.ranks) {
    return absl::InvalidArgumentError(
        absl::StrCat("length report of rank ", report.rank(), " for step ",
                     step, ": the job has ", spec_.ranks, " ranks"));
  }
  if (step < 0 || step >= spec_.steps) {
    return absl::InvalidArgumentError(
        absl::StrCat("length report of rank ", report.rank(), " for step ",
                     step, ": the job has ", spec_.steps, " steps"));
  }
  if (step > LastAllowedStep()) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "length report of rank ", report.rank(), " for step ", step, ": step ",
        next_step_, " is not planned yet and look_ahead is ",
        spec_.look_ahead));
  }
  if (step < next_step_) return absl::OkStatus();
  const auto known = lengths_.find(step);
  return known == lengths_.end() ? CheckLengthShare(Shape(), step, report)
                                 : known->second.Check(report);
}

absl::Status PlanPipeline::AddLengths(const v1::LengthReport& report) {
  EVENSTEP_RETURN_IF_ERROR(CheckLengths(report));
  const int64_t step = report.step();
  if (step < next_step_) return absl::OkStatus();
  return lengths_.try_emplace(step, Shape(), step).first->second.Add(report);
}

int64_t PlanPipeline::num_waiting_reports() const {
  int64_t reports = 0;
  for (const auto& [step, lengths] : lengths_) {
    reports += lengths.num_reported();
  }
  return reports;
}

std::vector<int> PlanPipeline::RanksWithoutLengths() const {
  if (planning_ || next_step_ >= spec_.steps) return {};
  const auto next = lengths_.find(next_step_);
  return next == lengths_.end()
             ? StepLengths(Shape(), next_step_).MissingRanks()
             : next->second.MissingRanks();
}

planner::PlanRequest PlanPipeline::Request(const StepLengths& lengths) const {
  planner::PlanRequest request = jobspec::ToPlanRequest(spec_);
  request.samples = lengths.samples();
  request.cluster.ranks_per_node = ranks_per_node_;
  request.cluster.rank_speed = rank_speeds_;
  request.time = *costs_;
  return request;
}

std::optional<PlanWork> PlanPipeline::NextWork() {
  if (planning_ || !costs_ || !data_agreed_ || IsFarAhead()) {
    return std::nullopt;
  }
  const auto next = lengths_.find(next_step_);
  if (next == lengths_.end() || !next->second.complete()) return std::nullopt;
  planning_ = true;
  PlanWork work{Request(next->second), generation_, next_step_};
  if (last_good_.has_value()) work.earlier.push_back(*last_good_);
  work.earlier.push_back(nominal_);
  lengths_.erase(next);
  ++next_step_;
  return work;
}

absl::StatusOr<const v1::StepPlan*> PlanPipeline::Accept(PlanOutcome outcome) {
  planning_ = false;
  EVENSTEP_RETURN_IF_ERROR(outcome.plan.status());
  last_good_ = std::move(outcome.used);
  return &(plans_[outcome.step] = *std::move(outcome.plan));
}

const v1::StepPlan* PlanPipeline::Find(int64_t step) const {
  const auto it = plans_.find(step);
  return it == plans_.end() ? nullptr : &it->second;
}

std::vector<const v1::StepPlan*> PlanPipeline::HeldPlans() const {
  std::vector<const v1::StepPlan*> held;
  for (const auto& [step, plan] : plans_) held.push_back(&plan);
  return held;
}

}  // namespace evenstep::coordinator
