#include "planner/costs/cost_terms.h"

#include <algorithm>

#include "planner/costs/cost_fields.h"
#include "planner/costs/cost_limits.h"
#include "planner/costs/cost_model.h"

namespace evenstep::planner {
namespace {

using Entries = std::vector<TimeModel::CollectiveCost>;

// The part of `whole` by which kinds of layer share a cost.
double ShareOf(double part, double whole, double otherwise) {
  return whole > 0 ? part / whole : otherwise;
}

// A degree without an entry takes the next larger one, or the last.
void AddAtDegree(const Entries& costs, int degree, double term, double* terms) {
  if (costs.empty()) return;
  size_t entry = 0;
  while (entry + 1 < costs.size() && costs[entry].degree < degree) ++entry;
  terms[entry] += term;
}

}  // namespace

BatchWork WorkOf(const ModelShape& model, const SequenceSplit& split,
                 absl::Span<const Sample> samples,
                 const LayerCounts& recompute_layers) {
  BatchWork work;
  work.split = split;
  for (const Sample& sample : samples) {
    work.size += SizeOf(model, split, sample);
  }
  work.size.tokens = PaddedTokens(work.size.tokens, split.degree);
  work.recompute_layers = recompute_layers;
  return work;
}

CostTerms::CostTerms(const ModelShape& model, const TimeModel& first)
    : model_(model), first_(first) {
  const LayerTimes times = first.layers(model.is_video());
  double tokens = 0;
  double sharded = 0;
  for (const LayerTime& time : times) {
    tokens += time.linear_ns_per_token;
    sharded += time.sharded_attention_ns_per_token;
  }
  for (int kind = 0; kind < model.num_kinds(); ++kind) {
    const LayerTime& time = times[kind];
    shares_[kind] = {
        ShareOf(time.linear_ns_per_token, tokens, 1.0 / model.num_kinds()),
        ShareOf(time.attention_ns_per_token, time.linear_ns_per_token, 0),
        ShareOf(time.sharded_attention_ns_per_token, sharded, 0)};
  }
}

std::vector<double> CostTerms::ComputeCosts(const TimeModel& costs) const {
  std::vector<double> all = {0,
                             static_cast<double>(costs.micro_batch_fixed_ns)};
  const LayerTimes times = costs.layers(model_.is_video());
  double sharded = 0;
  for (int kind = 0; kind < model_.num_kinds(); ++kind) {
    all[kToken] += times[kind].linear_ns_per_token;
    all.push_back(times[kind].quadratic_ns_per_token2);
    sharded += times[kind].sharded_attention_ns_per_token;
  }
  all.push_back(sharded);
  all.push_back(costs.head_ns_per_token);
  return all;
}

void CostTerms::SetComputeCosts(absl::Span<const double> from,
                                TimeModel* costs) const {
  const double sharded = from[from.size() - 2];
  LayerTimes times;
  for (int kind = 0; kind < model_.num_kinds(); ++kind) {
    const Shares& share = shares_[kind];
    const double token = share.token * from[kToken];
    times[kind] = {token, from[kPairs + kind], share.attention * token,
                   share.sharded * sharded};
  }
  costs->set_layers(model_.is_video(), times);
  costs->micro_batch_fixed_ns = FixedCostNs(from[kFixed]);
  costs->head_ns_per_token = from.back();
}

std::vector<double> CostTerms::ComputeTerms(const BatchWork& work) const {
  const double degree = work.split.degree;
  const auto whole = static_cast<double>(work.size.tokens);
  const double tokens = whole / degree;
  std::vector<double> terms = {0, 1};
  double sharded = 0;
  for (int kind = 0; kind < model_.num_kinds(); ++kind) {
    const Shares& share = shares_[kind];
    const double run = 1 + work.recompute_layers[kind] /
                               (3.0 * std::max(1, model_.layers()[kind]));
    const double divided = degree > 1 ? 1 - share.attention : 1;
    terms[kToken] += share.token * divided * run * tokens;
    terms.push_back(static_cast<double>(work.size.pairs[kind]) / degree * run);
    if (degree > 1) sharded += share.sharded * run * whole;
  }
  terms.push_back(sharded);
  terms.push_back(tokens);
  return terms;
}

std::vector<double> CostTerms::CollectiveCosts(const TimeModel& costs) const {
  std::vector<double> all = {
      static_cast<double>(costs.collective_latency_ns),
      static_cast<double>(costs.collective_latency_across_ns)};
  ForEachCostList(costs, [&all](const char*, const Entries& entries) {
    for (const auto& entry : entries) all.push_back(entry.ns_per_token);
  });
  return all;
}

void CostTerms::SetCollectiveCosts(absl::Span<const double> from,
                                   TimeModel* costs) const {
  costs->collective_latency_ns = FixedCostNs(from[0]);
  costs->collective_latency_across_ns = FixedCostNs(from[1]);
  const double* cost = from.data() + kLatencies;
  ForEachCostList(*costs, [&cost](const char*, Entries& entries) {
    for (auto& entry : entries) entry.ns_per_token = *cost++;
  });
}

std::vector<double> CostTerms::CollectiveTerms(const BatchWork& work) const {
  std::vector<double> terms(CollectiveCosts(first_).size());
  const SequenceSplit& split = work.split;
  const double layers = model_.layers().total();
  const double passes = 2 * layers + work.recompute_layers.total();
  const double moved =
      static_cast<double>(work.size.tokens) * passes / (2 * layers);
  const bool across = work.crosses_nodes;
  const bool slow_calls = across && first_.collective_latency_across_ns > 0;
  terms[slow_calls ? 1 : 0] =
      static_cast<double>(CallsPerLayer(split)) * passes;
  const auto add = [&](const Entries& inside, const Entries& outside,
                       double term) {
    const Entries& chosen = across && !outside.empty() ? outside : inside;
    double* at = terms.data() + kLatencies;
    ForEachCostList(first_, [&](const char*, const Entries& entries) {
      if (&entries == &chosen) AddAtDegree(entries, split.degree, term, at);
      at += entries.size();
    });
  };
  if (ExchangesAll(split)) {
    add(first_.collective, first_.collective_across, moved / split.degree);
  }
  if (split.gather_degree > 1) {
    add(first_.gather, first_.gather_across, moved / split.ulysses_degree);
  }
  return terms;
}

}  // namespace evenstep::planner
