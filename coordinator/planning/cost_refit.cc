#include "coordinator/planning/cost_refit.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "planner/costs/degrees.h"
#include "planner/costs/sample_size.h"
#include "wire/sp_mode_proto.h"

namespace evenstep::coordinator {
namespace {

// A first cost of less than this share of the time is held as one of it.
constexpr double kLeastShare = 0.01;
// Collectives of a layer and pass, as TimeModel counts them.
constexpr double kUlyssesCalls = 4;
constexpr double kGatherCalls = 2;
constexpr double kSwitchCalls = 1;

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
  // 0 stands for the degree.
  const int ulysses = micro_batch.ulysses_degree();
  split.ulysses_degree = ulysses == 0 ? degree : ulysses;
  split.gather_degree = degree / split.ulysses_degree;
  return split;
}

planner::Sample SampleAt(const v1::MicroBatch& micro_batch, int index) {
  planner::Sample sample;
  sample.length = micro_batch.lengths(index);
  if (index >= micro_batch.shapes_size()) return sample;
  sample.frames = micro_batch.shapes(index).frames();
  sample.height = micro_batch.shapes(index).height();
  sample.width = micro_batch.shapes(index).width();
  return sample;
}

// As the planner counts it, the padding at the tail included.
planner::BatchSize SizeOf(const planner::ModelShape& model,
                          const v1::MicroBatch& micro_batch) {
  const planner::SequenceSplit split = SplitOf(micro_batch);
  planner::BatchSize size;
  for (int i = 0; i < micro_batch.lengths_size(); ++i) {
    size += planner::SizeOf(model, split, SampleAt(micro_batch, i));
  }
  size.tokens = planner::PaddedTokens(size.tokens, micro_batch.degree());
  return size;
}

double RedoneLayers(const v1::MicroBatch& micro_batch) {
  return micro_batch.recompute_layers() +
         micro_batch.recompute_temporal_layers();
}

// A degree without an entry takes the next larger one, or the last.
void AddAtDegree(const std::vector<planner::TimeModel::CollectiveCost>& costs,
                 int degree, double term, double* terms) {
  if (costs.empty()) return;
  size_t entry = 0;
  while (entry + 1 < costs.size() && costs[entry].degree < degree) ++entry;
  terms[entry] += term;
}

int64_t TotalComputeNs(const v1::StepReport& report) {
  int64_t total = 0;
  for (const v1::MicroBatchTime& time : report.micro_batches()) {
    total += time.compute_ns();
  }
  return total;
}

}  // namespace

CostRefit::CostRefit(const planner::TimeModel& first,
                     const planner::ModelShape& model, int world,
                     const RefitOptions& options)
    : first_(first),
      model_(model),
      options_(options),
      costs_(first),
      compute_(MakeFit(ComputeCosts(first))),
      collectives_(MakeFit(CollectiveCosts())),
      log_slowness_(world) {}

CostRefit::Fit CostRefit::MakeFit(std::vector<double> first) {
  Fit fit;
  for (const double cost : first) fit.prior.push_back(cost > 0 ? 1 : 0);
  fit.share.resize(first.size());
  fit.observed = NormalEquations(static_cast<int>(first.size()));
  fit.scale = std::move(first);
  return fit;
}

std::vector<double> CostRefit::ComputeCosts(
    const planner::TimeModel& costs) const {
  const auto fixed_ns = static_cast<double>(costs.micro_batch_fixed_ns);
  if (model_.is_video()) {
    return {
        fixed_ns, costs.head_ns_per_token,
        costs.spatial.linear_ns_per_token + costs.temporal.linear_ns_per_token,
        costs.spatial.quadratic_ns_per_token2,
        costs.temporal.quadratic_ns_per_token2};
  }
  return {fixed_ns, costs.head_ns_per_token, costs.linear_ns_per_token,
          costs.quadratic_ns_per_token2};
}

double CostRefit::SpatialShare() const {
  const double spatial = first_.spatial.linear_ns_per_token;
  const double all = spatial + first_.temporal.linear_ns_per_token;
  return all > 0 ? spatial / all : 0.5;
}

void CostRefit::SetComputeCosts(const std::vector<double>& costs) {
  costs_.micro_batch_fixed_ns = std::llround(costs[0]);
  costs_.head_ns_per_token = costs[1];
  if (!model_.is_video()) {
    costs_.linear_ns_per_token = costs[2];
    costs_.quadratic_ns_per_token2 = costs[3];
    return;
  }
  costs_.spatial.linear_ns_per_token = SpatialShare() * costs[2];
  costs_.temporal.linear_ns_per_token = (1 - SpatialShare()) * costs[2];
  costs_.spatial.quadratic_ns_per_token2 = costs[3];
  costs_.temporal.quadratic_ns_per_token2 = costs[4];
}

std::vector<double> CostRefit::CollectiveCosts() const {
  std::vector<double> all = {static_cast<double>(costs_.collective_latency_ns)};
  for (const auto& entry : costs_.collective) all.push_back(entry.ns_per_token);
  for (const auto& entry : costs_.gather) all.push_back(entry.ns_per_token);
  return all;
}

std::vector<double> CostRefit::ComputeTerms(
    const v1::MicroBatch& micro_batch) const {
  const planner::BatchSize size = SizeOf(model_, micro_batch);
  const double degree = micro_batch.degree();
  const double tokens = static_cast<double>(size.tokens) / degree;
  const planner::LayerCounts layers = model_.layers();
  const auto work = [&](int kind, int redone) {
    return 1 + redone / (3.0 * layers[kind]);
  };
  const auto pairs = [&](int kind) {
    return static_cast<double>(size.pairs[kind]) / degree;
  };
  const double first = work(0, micro_batch.recompute_layers());
  if (!model_.is_video()) return {1, tokens, tokens * first, pairs(0) * first};
  const double second = work(1, micro_batch.recompute_temporal_layers());
  const double share = SpatialShare();
  return {1, tokens, tokens * (share * first + (1 - share) * second),
          pairs(0) * first, pairs(1) * second};
}

// As the planner's cost model (TimeModel of planner/costs/model.h).
std::vector<double> CostRefit::CollectiveTerms(
    const v1::MicroBatch& micro_batch) const {
  const planner::SequenceSplit split = SplitOf(micro_batch);
  const bool switches = split.mode == planner::SpMode::kSwitch;
  const double layers = model_.layers().total();
  const double passes = 2 * layers + RedoneLayers(micro_batch);
  const double moved = static_cast<double>(SizeOf(model_, micro_batch).tokens) *
                       passes / (2 * layers);
  std::vector<double> terms(1 + costs_.collective.size() +
                            costs_.gather.size());
  if (split.ulysses_degree > 1 || switches) {
    terms[0] += (switches ? kSwitchCalls : kUlyssesCalls) * passes;
    AddAtDegree(costs_.collective, split.degree, moved / split.degree,
                terms.data() + 1);
  }
  if (split.gather_degree > 1) {
    terms[0] += kGatherCalls * passes;
    AddAtDegree(costs_.gather, split.degree, moved / split.ulysses_degree,
                terms.data() + 1 + costs_.collective.size());
  }
  return terms;
}

double CostRefit::Bounded(double ns, double expected_ns) const {
  if (expected_ns <= 0) return ns;
  return std::clamp(ns, expected_ns / options_.outlier_ratio,
                    expected_ns * options_.outlier_ratio);
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

std::vector<double> CostRefit::Follow(
    Fit* fit, const std::vector<Observation>& observations) {
  const int size = fit->observed.size();
  WeighPrior(fit, observations);
  // Relative to the time, and in factors of the first costs.
  fit->observed.Scale(options_.memory);
  for (const Observation& seen : observations) {
    std::vector<double> row = seen.terms;
    for (int i = 0; i < size; ++i) row[i] *= fit->scale[i] / seen.ns;
    fit->observed.Add(row, 1, seen.weight);
  }
  NormalEquations all = fit->observed;
  for (int i = 0; i < size; ++i) {
    std::vector<double> row(size);
    row[i] = 1;
    // What was never seen stays as it was.
    const double share = fit->share[i] > 0 ? fit->share[i] : 1;
    all.Add(row, fit->prior[i], options_.prior_weight * share);
  }
  std::vector<double> costs = SolveNonnegative(all);
  for (int i = 0; i < size; ++i) costs[i] *= fit->scale[i];
  return costs;
}

void CostRefit::ObserveCompute(const v1::StepPlan& plan,
                               const std::vector<v1::StepReport>& reports) {
  const std::vector<double> speeds = RankSpeeds();
  const std::vector<double> now = ComputeCosts(costs_);
  const std::vector<double> first = ComputeCosts(first_);
  std::vector<Observation> observations;
  double measured_ns = 0;
  double by_first_ns = 0;
  for (const v1::StepReport& report : reports) {
    const auto rank_ns = static_cast<double>(TotalComputeNs(report));
    const double speed = speeds.empty() ? 1 : speeds[report.rank()];
    for (const v1::MicroBatchTime& time : report.micro_batches()) {
      if (time.compute_ns() <= 0) continue;
      Observation seen;
      seen.terms = ComputeTerms(plan.micro_batches(time.index()));
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
  const std::vector<double> costs = Follow(&compute_, observations);
  SetComputeCosts(costs);
  if (by_first_ns <= 0) return;
  const double drift = measured_ns / by_first_ns - 1;
  drift_ = drift_.has_value() ? *drift_ + options_.smoothing * (drift - *drift_)
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
    seen.terms = CollectiveTerms(micro_batch);
    seen.ns = Bounded(static_cast<double>(least_ns[i]),
                      Dot(CollectiveCosts(), seen.terms));
    total_ns += seen.ns;
    observations.push_back(std::move(seen));
  }
  if (observations.empty()) return;
  for (Observation& seen : observations) seen.weight = seen.ns / total_ns;
  const std::vector<double> costs = Follow(&collectives_, observations);
  costs_.collective_latency_ns = std::llround(costs[0]);
  for (size_t i = 0; i < costs_.collective.size(); ++i) {
    costs_.collective[i].ns_per_token = costs[1 + i];
  }
  for (size_t i = 0; i < costs_.gather.size(); ++i) {
    costs_.gather[i].ns_per_token = costs[1 + costs_.collective.size() + i];
  }
}

void CostRefit::ObserveSpeeds(const v1::StepPlan& plan,
                              const std::vector<v1::StepReport>& reports) {
  const std::vector<double> now = ComputeCosts(costs_);
  for (const v1::StepReport& report : reports) {
    double nominal_ns = 0;
    for (const v1::MicroBatchTime& time : report.micro_batches()) {
      nominal_ns += Dot(now, ComputeTerms(plan.micro_batches(time.index())));
    }
    const auto measured_ns = static_cast<double>(TotalComputeNs(report));
    if (nominal_ns <= 0 || measured_ns <= 0) continue;
    const double slowness =
        std::log(Bounded(measured_ns, nominal_ns) / nominal_ns);
    double& smoothed = log_slowness_[report.rank()];
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
  const auto measured_ns = static_cast<double>(reduction_ns + update_ns);
  if (measured_ns <= 0) return;
  const auto now_ns = static_cast<double>(costs_.step_fixed_ns);
  costs_.step_fixed_ns = std::llround(
      now_ns <= 0 ? measured_ns
                  : now_ns + options_.smoothing *
                                 (Bounded(measured_ns, now_ns) - now_ns));
}

void CostRefit::Observe(const v1::StepPlan& plan,
                        const std::vector<v1::StepReport>& reports) {
  if (plan.step() == 0 || reports.empty()) return;
  ObserveSpeeds(plan, reports);
  ObserveCompute(plan, reports);
  ObserveCollectives(plan, reports);
  ObserveStepFixed(reports);
}

std::vector<double> CostRefit::RankSpeeds() const {
  std::vector<double> sorted = log_slowness_;
  std::sort(sorted.begin(), sorted.end());
  // Of two, the faster one is the middle.
  const double middle = sorted[(sorted.size() - 1) / 2];
  std::vector<double> speeds;
  bool nominal = true;
  for (const double slowness : log_slowness_) {
    const double speed = std::exp(middle - slowness);
    const bool close = std::abs(speed - 1) <= options_.speed_tolerance;
    speeds.push_back(close ? 1 : speed);
    nominal = nominal && close;
  }
  return nominal ? std::vector<double>() : speeds;
}

}  // namespace evenstep::coordinator
