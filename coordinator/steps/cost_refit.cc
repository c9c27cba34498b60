#include "coordinator/steps/cost_refit.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "base/status_macros.h"
#include "planner/costs/cost_limits.h"
#include "planner/limits.h"
#include "planner/validate.h"
#include "wire/sp_mode_proto.h"

namespace evenstep::coordinator {
namespace {

// A first cost of less than this share of the time is held as one of it.
constexpr double kLeastShare = 0.01;
constexpr double kNoLimit = std::numeric_limits<double>::infinity();

double Dot(const std::vector<double>& a, const std::vector<double>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

planner::SequenceSplit SplitOf(const v1::MicroBatch& micro_batch) {
  const int degree = micro_batch.degree();
  planner::SequenceSplit split;
  split.mode = wire::SpModeFromProto(micro_batch.sp_mode())
                   .value_or(planner::SpMode::kUlysses);
  split.degree = degree;
  if (split.mode == planner::SpMode::kSwitch) return split;
  // 0 means the degree.
  const int ulysses = micro_batch.ulysses_degree();
  split.ulysses_degree = ulysses == 0 ? degree : ulysses;
  split.gather_degree = degree / split.ulysses_degree;
  return split;
}

std::vector<planner::Sample> SamplesOf(const v1::MicroBatch& micro_batch) {
  std::vector<planner::Sample> samples(micro_batch.lengths_size());
  for (int i = 0; i < micro_batch.lengths_size(); ++i) {
    samples[i].length = micro_batch.lengths(i);
    if (i >= micro_batch.shapes_size()) continue;
    samples[i].frames = micro_batch.shapes(i).frames();
    samples[i].height = micro_batch.shapes(i).height();
    samples[i].width = micro_batch.shapes(i).width();
  }
  return samples;
}

// Not in integers: the times may be any.
double TotalComputeNs(const v1::StepReport& report) {
  double total = 0;
  for (const v1::MicroBatchTime& time : report.micro_batches()) {
    total += static_cast<double>(time.compute_ns());
  }
  return total;
}

}  // namespace

CostRefit::CostRefit(const planner::TimeModel& first,
                     const planner::ModelShape& model,
                     const std::vector<int>& ranks_per_node,
                     const RefitOptions& options)
    : first_(planner::WithinLimits(first)),
      highest_(planner::HighestCosts(first)),
      model_(model),
      terms_(model, first_),
      nodes_(first_, {ranks_per_node, {}}),
      options_(options) {
  now_.costs = first_;
  now_.compute = MakeFit(terms_.ComputeCosts(first_));
  now_.collectives = MakeFit(terms_.CollectiveCosts(first_));
  now_.log_slowness.resize(
      std::accumulate(ranks_per_node.begin(), ranks_per_node.end(), 0));
}

planner::BatchWork CostRefit::WorkOf(const v1::MicroBatch& micro_batch) const {
  planner::BatchWork work =
      planner::WorkOf(model_, SplitOf(micro_batch), SamplesOf(micro_batch),
                      {micro_batch.recompute_layers(),
                       micro_batch.recompute_temporal_layers()});
  work.crosses_nodes =
      nodes_.ClassOf({micro_batch.first_rank(), micro_batch.degree()})
          .crosses_nodes;
  return work;
}

CostRefit::Fit CostRefit::MakeFit(std::vector<double> first) {
  Fit fit;
  for (const double cost : first) fit.prior.push_back(cost > 0 ? 1 : 0);
  fit.factor = fit.prior;
  fit.share.resize(first.size());
  fit.observed = planner::NormalEquations(static_cast<int>(first.size()));
  fit.scale = std::move(first);
  return fit;
}

double CostRefit::Bounded(double ns, double expected_ns) const {
  if (expected_ns <= 0) return ns;
  // A time below a nanosecond was not measured.
  return std::max(1.0, std::clamp(ns, expected_ns / options_.outlier_ratio,
                                  expected_ns * options_.outlier_ratio));
}

// Held by its share of the time, every first cost gives way by the same factor
// when all are wrong by one. A cost that was 0 is counted in whole times.
void CostRefit::WeighPrior(Fit* fit,
                           const std::vector<Observation>& observations) {
  double total_ns = 0;
  for (const Observation& seen : observations) total_ns += seen.ns;
  for (size_t i = 0; i < fit->scale.size(); ++i) {
    if (fit->share[i] > 0) continue;  // known since an earlier step
    double terms = 0;
    for (const Observation& seen : observations) terms += seen.terms[i];
    if (terms <= 0) continue;
    if (fit->prior[i] == 0) fit->scale[i] = total_ns / terms;
    fit->share[i] =
        std::clamp(fit->scale[i] * terms / total_ns, kLeastShare, 1.0);
  }
}

// From the last cost to the first, each beside those that are left.
std::vector<bool> CostRefit::Unidentified(const Fit& fit) const {
  planner::NormalEquations left = fit.observed;
  std::vector<bool> held(left.size());
  for (int i = left.size() - 1; i >= 0; --i) {
    held[i] = fit.prior[i] == 0 &&
              IndependentShare(left, i) < options_.least_independence;
    if (held[i]) left.Hold(i, 0);
  }
  return held;
}

std::vector<double> CostRefit::Follow(
    Fit* fit, const std::vector<Observation>& observations,
    const std::vector<double>& highest) const {
  const int size = fit->observed.size();
  WeighPrior(fit, observations);
  // Relative to the time, and in factors of the first costs.
  fit->observed.Scale(options_.memory);
  for (const Observation& seen : observations) {
    std::vector<double> row = seen.terms;
    for (int i = 0; i < size; ++i) row[i] *= fit->scale[i] / seen.ns;
    fit->observed.Add(row, 1, seen.weight);
  }
  planner::NormalEquations all = fit->observed;
  std::vector<double> highest_factor;
  for (int i = 0; i < size; ++i) {
    std::vector<double> row(size);
    row[i] = 1;
    // What was never seen stays as it was.
    const double share = fit->share[i] > 0 ? fit->share[i] : 1;
    all.Add(row, fit->prior[i], options_.prior_weight * share);
    highest_factor.push_back(fit->scale[i] > 0 ? highest[i] / fit->scale[i]
                                               : kNoLimit);
  }
  const std::vector<bool> held = Unidentified(*fit);
  for (int i = 0; i < size; ++i) {
    if (held[i]) all.Hold(i, fit->factor[i]);
  }
  const std::vector<double> found = SolveBounded(all, highest_factor);
  std::vector<double> costs;
  for (int i = 0; i < size; ++i) {
    if (!held[i]) fit->factor[i] = found[i];
    costs.push_back(std::min(fit->factor[i] * fit->scale[i], highest[i]));
  }
  return costs;
}

void CostRefit::ObserveCompute(const v1::StepPlan& plan,
                               const std::vector<v1::StepReport>& reports) {
  const std::vector<double> speeds = RankSpeeds();
  const std::vector<double> now = terms_.ComputeCosts(now_.costs);
  const std::vector<double> first = terms_.ComputeCosts(first_);
  std::vector<Observation> observations;
  double measured_ns = 0;
  double by_first_ns = 0;
  for (const v1::StepReport& report : reports) {
    const double rank_ns = TotalComputeNs(report);
    const double speed = speeds.empty() ? 1 : speeds[report.rank()];
    for (const v1::MicroBatchTime& time : report.micro_batches()) {
      if (time.compute_ns() <= 0) continue;
      Observation seen;
      seen.terms =
          terms_.ComputeTerms(WorkOf(plan.micro_batches(time.index())));
      const double ns = static_cast<double>(time.compute_ns()) * speed;
      seen.ns = Bounded(ns, Dot(now, seen.terms));
      // A rank's step weighs 1, whatever its parts.
      seen.weight = static_cast<double>(time.compute_ns()) / rank_ns;
      measured_ns += ns;
      by_first_ns += Dot(first, seen.terms);
      observations.push_back(std::move(seen));
    }
  }
  if (observations.empty()) return;
  terms_.SetComputeCosts(
      Follow(&now_.compute, observations, terms_.ComputeCosts(highest_)),
      &now_.costs);
  // Without first costs there is nothing to drift from.
  if (by_first_ns < 1) return;
  const double drift = measured_ns / by_first_ns - 1;
  now_.drift = now_.drift.has_value()
                   ? *now_.drift + options_.smoothing * (drift - *now_.drift)
                   : drift;
}

void CostRefit::ObserveCollectives(const v1::StepPlan& plan,
                                   const std::vector<v1::StepReport>& reports) {
  // The rank that came last waited for nobody.
  std::vector<int64_t> least_ns(plan.micro_batches_size(), -1);
  for (const v1::StepReport& report : reports) {
    for (const v1::MicroBatchTime& time : report.micro_batches()) {
      int64_t& least = least_ns[time.index()];
      if (least < 0 || time.collective_ns() < least) {
        least = time.collective_ns();
      }
    }
  }
  double total_ns = 0;
  std::vector<Observation> observations;
  for (int i = 0; i < plan.micro_batches_size(); ++i) {
    const v1::MicroBatch& micro_batch = plan.micro_batches(i);
    if (micro_batch.degree() == 1 || least_ns[i] <= 0) continue;
    Observation seen;
    seen.terms = terms_.CollectiveTerms(WorkOf(micro_batch));
    seen.ns = Bounded(static_cast<double>(least_ns[i]),
                      Dot(terms_.CollectiveCosts(now_.costs), seen.terms));
    total_ns += seen.ns;
    observations.push_back(std::move(seen));
  }
  if (observations.empty()) return;
  for (Observation& seen : observations) seen.weight = seen.ns / total_ns;
  terms_.SetCollectiveCosts(
      Follow(&now_.collectives, observations, terms_.CollectiveCosts(highest_)),
      &now_.costs);
}

void CostRefit::ObserveSpeeds(const v1::StepPlan& plan,
                              const std::vector<v1::StepReport>& reports) {
  const std::vector<double> now = terms_.ComputeCosts(now_.costs);
  for (const v1::StepReport& report : reports) {
    double nominal_ns = 0;
    for (const v1::MicroBatchTime& time : report.micro_batches()) {
      nominal_ns += Dot(
          now, terms_.ComputeTerms(WorkOf(plan.micro_batches(time.index()))));
    }
    const double measured_ns = TotalComputeNs(report);
    if (nominal_ns <= 0 || measured_ns <= 0) continue;
    const double slowness =
        std::log(Bounded(measured_ns, nominal_ns) / nominal_ns);
    double& smoothed = now_.log_slowness[report.rank()];
    smoothed += options_.smoothing * (slowness - smoothed);
  }
}

void CostRefit::ObserveStepFixed(const std::vector<v1::StepReport>& reports) {
  int64_t reduction_ns = reports.front().reduction_ns();
  int64_t update_ns = 0;
  for (const v1::StepReport& report : reports) {
    reduction_ns = std::min(reduction_ns, report.reduction_ns());
    update_ns = std::max(update_ns, report.update_compute_ns());
  }
  const double measured_ns =
      static_cast<double>(reduction_ns) + static_cast<double>(update_ns);
  if (measured_ns <= 0) return;
  const auto now_ns = static_cast<double>(now_.costs.step_fixed_ns);
  const double followed_ns =
      now_ns <= 0 ? measured_ns
                  : now_ns + options_.smoothing *
                                 (Bounded(measured_ns, now_ns) - now_ns);
  now_.costs.step_fixed_ns = planner::FixedCostNs(followed_ns);
}

absl::Status CostRefit::CheckEstimates() const {
  EVENSTEP_RETURN_IF_ERROR(planner::ValidateTime(now_.costs));
  EVENSTEP_RETURN_IF_ERROR(planner::ValidateRankSpeeds(RankSpeeds()));
  if (std::isfinite(drift())) return absl::OkStatus();
  return absl::InvalidArgumentError("the drift of the costs is not a number");
}

absl::Status CostRefit::Observe(const v1::StepPlan& plan,
                                const std::vector<v1::StepReport>& reports) {
  if (plan.step() == 0 || reports.empty()) return absl::OkStatus();
  State before = now_;
  ObserveSpeeds(plan, reports);
  ObserveCompute(plan, reports);
  ObserveCollectives(plan, reports);
  ObserveStepFixed(reports);
  // Costs that are followed together may leave the limit of one of them.
  now_.costs = planner::WithinLimits(std::move(now_.costs));
  absl::Status status = CheckEstimates();
  if (!status.ok()) now_ = std::move(before);
  return status;
}

std::vector<double> CostRefit::RankSpeeds() const {
  std::vector<double> sorted = now_.log_slowness;
  std::sort(sorted.begin(), sorted.end());
  // Of two, the faster one is the middle.
  const double middle = sorted[(sorted.size() - 1) / 2];
  std::vector<double> speeds;
  bool nominal = true;
  for (const double slowness : now_.log_slowness) {
    const double speed =
        std::clamp(std::exp(middle - slowness), planner::kMinRankSpeed,
                   planner::kMaxRankSpeed);
    const bool close = std::abs(speed - 1) <= options_.speed_tolerance;
    speeds.push_back(close ? 1 : speed);
    nominal = nominal && close;
  }
  return nominal ? std::vector<double>() : speeds;
}

}  // namespace evenstep::coordinator
