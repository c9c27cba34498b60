#include "coordinator/steps/cost_terms.h"

#include "planner/costs/cost_limits.h"
#include "planner/costs/degrees.h"
#include "planner/costs/sample_size.h"
#include "wire/sp_mode_proto.h"

namespace evenstep::coordinator {
namespace {

// Collectives of a layer and pass, as TimeModel counts them.
constexpr double kUlyssesCalls = 4;
constexpr double kGatherCalls = 2;
constexpr double kSwitchCalls = 1;

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

}  // namespace

std::vector<double> CostTerms::ComputeCosts(
    const planner::TimeModel& costs) const {
  const auto fixed_ns = static_cast<double>(costs.micro_batch_fixed_ns);
  if (!model_.is_video()) {
    return {costs.linear_ns_per_token, fixed_ns, costs.quadratic_ns_per_token2,
            costs.head_ns_per_token};
  }
  return {
      costs.spatial.linear_ns_per_token + costs.temporal.linear_ns_per_token,
      fixed_ns, costs.spatial.quadratic_ns_per_token2,
      costs.temporal.quadratic_ns_per_token2, costs.head_ns_per_token};
}

double CostTerms::SpatialShare() const {
  const double spatial = first_.spatial.linear_ns_per_token;
  const double all = spatial + first_.temporal.linear_ns_per_token;
  return all > 0 ? spatial / all : 0.5;
}

void CostTerms::SetComputeCosts(const std::vector<double>& from,
                                planner::TimeModel* costs) const {
  costs->micro_batch_fixed_ns = planner::FixedCostNs(from[1]);
  costs->head_ns_per_token = from.back();
  if (!model_.is_video()) {
    costs->linear_ns_per_token = from[0];
    costs->quadratic_ns_per_token2 = from[2];
    return;
  }
  costs->spatial.linear_ns_per_token = SpatialShare() * from[0];
  costs->temporal.linear_ns_per_token = (1 - SpatialShare()) * from[0];
  costs->spatial.quadratic_ns_per_token2 = from[2];
  costs->temporal.quadratic_ns_per_token2 = from[3];
}

std::vector<double> CostTerms::ComputeTerms(
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
  if (!model_.is_video()) return {tokens * first, 1, pairs(0) * first, tokens};
  const double second = work(1, micro_batch.recompute_temporal_layers());
  const double share = SpatialShare();
  return {tokens * (share * first + (1 - share) * second), 1, pairs(0) * first,
          pairs(1) * second, tokens};
}

std::vector<double> CostTerms::CollectiveCosts(
    const planner::TimeModel& costs) const {
  std::vector<double> all = {static_cast<double>(costs.collective_latency_ns)};
  for (const auto& entry : costs.collective) all.push_back(entry.ns_per_token);
  for (const auto& entry : costs.gather) all.push_back(entry.ns_per_token);
  return all;
}

void CostTerms::SetCollectiveCosts(const std::vector<double>& from,
                                   planner::TimeModel* costs) const {
  auto cost = from.begin();
  costs->collective_latency_ns = planner::FixedCostNs(*cost++);
  for (auto& entry : costs->collective) entry.ns_per_token = *cost++;
  for (auto& entry : costs->gather) entry.ns_per_token = *cost++;
}

std::vector<double> CostTerms::CollectiveTerms(
    const v1::MicroBatch& micro_batch) const {
  const planner::SequenceSplit split = SplitOf(micro_batch);
  const bool switches = split.mode == planner::SpMode::kSwitch;
  const double layers = model_.layers().total();
  const double passes = 2 * layers + RedoneLayers(micro_batch);
  const double moved = static_cast<double>(SizeOf(model_, micro_batch).tokens) *
                       passes / (2 * layers);
  std::vector<double> terms(1 + first_.collective.size() +
                            first_.gather.size());
  if (split.ulysses_degree > 1 || switches) {
    terms[0] += (switches ? kSwitchCalls : kUlyssesCalls) * passes;
    AddAtDegree(first_.collective, split.degree, moved / split.degree,
                terms.data() + 1);
  }
  if (split.gather_degree > 1) {
    terms[0] += kGatherCalls * passes;
    AddAtDegree(first_.gather, split.degree, moved / split.ulysses_degree,
                terms.data() + 1 + first_.collective.size());
  }
  return terms;
}

}  // namespace evenstep::coordinator
