#include "coordinator/steps/job_steps.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "jobspec/plan_request.h"
#include "planner/costs/cost_limits.h"

namespace evenstep::coordinator {
namespace {

// Ranks may be a gate apart, and reports of one rank overtake another's: twice
// the look-ahead, and some more for short ones.
constexpr int64_t kSlackSteps = 8;

}  // namespace

JobSteps::JobSteps(const jobspec::JobSpec& spec,
                   std::vector<int> ranks_per_node, int64_t generation)
    : spec_(spec),
      ranks_per_node_(std::move(ranks_per_node)),
      generation_(generation),
      costs_(spec.costs),
      nominal_{planner::NominalCosts(jobspec::ToModelShape(spec.model)), {}},
      totals_(spec.ranks, spec.steps) {}

int64_t JobSteps::LastAllowedStep() const {
  return std::min(spec_.steps - 1,
                  next_step_ + 2 * spec_.look_ahead + kSlackSteps);
}

// Plans are held until their steps are committed: ranks that report lengths and
// run no step must not fill the memory.
bool JobSteps::IsFarAhead() const {
  return !plans_.empty() && next_step_ - plans_.begin()->first >
                                2 * spec_.look_ahead + kSlackSteps;
}

StepShape JobSteps::Shape() const {
  return {spec_.ranks, spec_.batch_samples, spec_.data.max_length,
          spec_.model.is_video()};
}

absl::Status JobSteps::CheckLengths(const v1::LengthReport& report) const {
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

absl::Status JobSteps::AddLengths(const v1::LengthReport& report) {
  EVENSTEP_RETURN_IF_ERROR(CheckLengths(report));
  const int64_t step = report.step();
  if (step < next_step_) return absl::OkStatus();
  return lengths_.try_emplace(step, Shape(), step).first->second.Add(report);
}

int64_t JobSteps::num_waiting_reports() const {
  int64_t reports = 0;
  for (const auto& [step, lengths] : lengths_) {
    reports += lengths.num_reported();
  }
  return reports;
}

std::vector<int> JobSteps::RanksWithoutLengths() const {
  if (planning_ || next_step_ >= spec_.steps) return {};
  const auto next = lengths_.find(next_step_);
  return next == lengths_.end()
             ? StepLengths(Shape(), next_step_).MissingRanks()
             : next->second.MissingRanks();
}

planner::PlanRequest JobSteps::Request(const StepLengths& lengths) const {
  planner::PlanRequest request = jobspec::ToPlanRequest(spec_);
  request.samples = lengths.samples();
  request.cluster.ranks_per_node = ranks_per_node_;
  request.cluster.rank_speed = rank_speeds_;
  request.time = *costs_;
  return request;
}

std::optional<PlanWork> JobSteps::NextWork() {
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

absl::StatusOr<const v1::StepPlan*> JobSteps::Accept(PlanOutcome outcome) {
  planning_ = false;
  if (!outcome.refusal.ok()) totals_.CountRefusedPlan();
  EVENSTEP_RETURN_IF_ERROR(outcome.plan.status());
  last_good_ = std::move(outcome.used);
  return &(plans_[outcome.step] = *std::move(outcome.plan));
}

const v1::StepPlan* JobSteps::Find(int64_t step) const {
  const auto it = plans_.find(step);
  return it == plans_.end() ? nullptr : &it->second;
}

std::vector<const v1::StepPlan*> JobSteps::HeldPlans() const {
  std::vector<const v1::StepPlan*> held;
  for (const auto& [step, plan] : plans_) held.push_back(&plan);
  return held;
}

absl::StatusOr<std::optional<CommittedStep>> JobSteps::AddReport(
    const v1::StepReport& report) {
  const int64_t step = report.step();
  if (Find(step) == nullptr) return std::nullopt;
  std::map<int, v1::StepReport>& by_rank = reports_[step];
  by_rank.try_emplace(report.rank(), report);
  if (static_cast<int>(by_rank.size()) < spec_.ranks) return std::nullopt;
  std::vector<v1::StepReport> reports;
  reports.reserve(by_rank.size());
  for (auto& [rank, of_rank] : by_rank) reports.push_back(std::move(of_rank));
  reports_.erase(step);
  const v1::StepPlan plan = *Find(step);
  Forget(step);
  EVENSTEP_ASSIGN_OR_RETURN(StepFigures figures, SummariseStep(plan, reports));
  totals_.Add(figures);
  CommittedStep committed;
  Refit(plan, reports, &committed);
  committed.summary = std::move(figures.summary);
  committed.totals = totals_.ToProto();
  return committed;
}

// Steps whose planning begins from now on are planned with what was learned.
void JobSteps::Refit(const v1::StepPlan& plan,
                     const std::vector<v1::StepReport>& reports,
                     CommittedStep* committed) {
  if (!spec_.refit || !costs_.has_value()) return;
  if (!refit_.has_value()) {
    refit_.emplace(*costs_, jobspec::ToModelShape(spec_.model),
                   ranks_per_node_);
  }
  committed->refit_refusal = refit_->Observe(plan, reports);
  if (!committed->refit_refusal.ok()) return;
  costs_ = refit_->costs();
  rank_speeds_ = refit_->RankSpeeds();
  const double drift = refit_->drift();
  totals_.SetCostDrift(drift);
  const bool far = std::abs(drift) > kDriftBound;
  if (std::exchange(drift_is_far_, far) != far) committed->drift_news = drift;
}

std::vector<int> JobSteps::RanksWithoutReport(int64_t step) const {
  const auto reports = reports_.find(step);
  std::vector<int> ranks;
  for (int rank = 0; rank < spec_.ranks; ++rank) {
    if (reports == reports_.end() || !reports->second.contains(rank)) {
      ranks.push_back(rank);
    }
  }
  return ranks;
}

int64_t JobSteps::num_step_reports() const {
  int64_t num = 0;
  for (const auto& [step, reports] : reports_) {
    num += static_cast<int64_t>(reports.size());
  }
  return num;
}

}  // namespace evenstep::coordinator
