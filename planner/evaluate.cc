#include "planner/evaluate.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "planner/costs/memory_model.h"
#include "planner/digest.h"

namespace evenstep::planner {
namespace {

// Costs in every mode; most requests have one.
class CostsByMode {
 public:
  CostsByMode(const PlanRequest& request, const CostModel& costs)
      : asked_(request.options.recompute_layers) {
    for (const LayerCounts& mode : RecomputeModes(request)) {
      costs_.push_back(costs.WithRecompute(mode));
    }
  }

  LayerCounts LayersOf(const Placement& placement) const {
    return placement.recompute_layers == kRecomputeAsAsked
               ? asked_
               : placement.recompute_layers;
  }
  // A number that is not a mode costs as asked; the checker refuses it.
  const CostModel& For(const Placement& placement) const {
    const LayerCounts layers = LayersOf(placement);
    const CostModel* found = &costs_[0];
    for (const CostModel& costs : costs_) {
      if (costs.recompute_layers() == layers) found = &costs;
    }
    return *found;
  }

 private:
  const LayerCounts asked_;
  std::vector<CostModel> costs_;
};

int64_t PredictNs(const CostsByMode& costs_by_mode, const Placement& placement,
                  const BatchSize& size) {
  const CostModel& costs = costs_by_mode.For(placement);
  const int64_t nominal_ns =
      costs.MicroBatchNs(costs.ClassOf(placement.block), size);
  return CostModel::AtSpeed(nominal_ns, costs.BlockSpeed(placement.block));
}

// When each rank is free, as micro-batches are run in order.
class Timeline {
 public:
  explicit Timeline(const PlanRequest& request)
      : sync_(request.options.sync),
        free_ns_(request.cluster.num_ranks(), 0),
        busy_ns_(request.cluster.num_ranks(), 0) {}

  void Run(const Block& block, int round, int64_t duration_ns) {
    if (sync_ == SyncMode::kPerRound && round != round_) {
      std::fill(free_ns_.begin(), free_ns_.end(), EndNs());
      round_ = round;
    }
    const auto first = free_ns_.begin() + block.first_rank;
    const auto last = first + block.degree;
    const int64_t end_ns = *std::max_element(first, last) + duration_ns;
    std::fill(first, last, end_ns);
    for (int i = 0; i < block.degree; ++i) {
      busy_ns_[block.first_rank + i] += duration_ns;
    }
  }
  int64_t EndNs() const {
    return *std::max_element(free_ns_.begin(), free_ns_.end());
  }
  std::vector<int64_t> TakeBusyNs() { return std::move(busy_ns_); }

 private:
  const SyncMode sync_;
  int round_ = 0;
  std::vector<int64_t> free_ns_;
  std::vector<int64_t> busy_ns_;
};

MicroBatch ToMicroBatch(const PlanRequest& request, const CostsByMode& costs,
                        Placement placement) {
  MicroBatch micro_batch;
  micro_batch.first_rank = placement.block.first_rank;
  micro_batch.degree = placement.block.degree;
  if (request.options.sync == SyncMode::kPerRound) {
    micro_batch.round = placement.round;
  }
  const SequenceSplit split = SplitFor(request.model, placement.block.degree);
  micro_batch.sp_mode = split.mode;
  micro_batch.ulysses_degree = split.ulysses_degree;
  micro_batch.recompute_layers = costs.LayersOf(placement);
  const BatchSize size =
      SizeOfBatch(request, placement.block.degree, placement.samples);
  micro_batch.padded_tokens = PaddedTokens(size.tokens, micro_batch.degree);
  micro_batch.predicted_ns = PredictNs(costs, placement, size);
  micro_batch.predicted_bytes =
      PredictBytes(request, micro_batch.recompute_layers, micro_batch.degree,
                   micro_batch.padded_tokens);
  micro_batch.samples = std::move(placement.samples);
  return micro_batch;
}

double Imbalance(const std::vector<int64_t>& busy_ns, int64_t step_ns) {
  if (step_ns == 0) return 0;
  const int64_t total_ns =
      std::accumulate(busy_ns.begin(), busy_ns.end(), int64_t{0});
  const double capacity_ns =
      static_cast<double>(step_ns) * static_cast<double>(busy_ns.size());
  return 1 - static_cast<double>(total_ns) / capacity_ns;
}

double PaddingRatio(const PlanRequest& request,
                    const std::vector<MicroBatch>& micro_batches) {
  int64_t padded_tokens = 0;
  int64_t real_tokens = 0;
  for (const auto& batch : micro_batches) padded_tokens += batch.padded_tokens;
  for (const auto& sample : request.samples) real_tokens += sample.length;
  return static_cast<double>(padded_tokens - real_tokens) /
         static_cast<double>(padded_tokens);
}

}  // namespace

BatchSize SizeOfBatch(const PlanRequest& request, int degree,
                      const std::vector<int>& samples) {
  const SequenceSplit split = SplitFor(request.model, degree);
  BatchSize size;
  for (int index : samples) {
    size += SizeOf(request.model, split, request.samples[index]);
  }
  return size;
}

int64_t PredictStepNs(const PlanRequest& request, const CostModel& costs,
                      const std::vector<Placement>& placements) {
  Timeline timeline(request);
  const CostsByMode costs_by_mode(request, costs);
  for (const Placement& placement : placements) {
    timeline.Run(placement.block, placement.round,
                 PredictNs(costs_by_mode, placement,
                           SizeOfBatch(request, placement.block.degree,
                                       placement.samples)));
  }
  return timeline.EndNs() + request.time.step_fixed_ns;
}

int MostGroupsPerRank(const PlanRequest& request,
                      const std::vector<Placement>& placements) {
  std::vector<Block> blocks;
  for (const Placement& placement : placements) {
    if (placement.block.degree > 1) blocks.push_back(placement.block);
  }
  auto key = [](const Block& b) { return std::pair(b.first_rank, b.degree); };
  std::sort(blocks.begin(), blocks.end(),
            [&](const Block& a, const Block& b) { return key(a) < key(b); });
  blocks.erase(std::unique(blocks.begin(), blocks.end()), blocks.end());
  std::vector<int> count(request.cluster.num_ranks(), 0);
  for (const Block& block : blocks) {
    for (int i = 0; i < block.degree; ++i) ++count[block.first_rank + i];
  }
  return *std::max_element(count.begin(), count.end());
}

Plan BuildPlan(const PlanRequest& request, const CostModel& costs,
               const LowerBound& bound, std::vector<Placement> placements) {
  Plan plan;
  Timeline timeline(request);
  const CostsByMode costs_by_mode(request, costs);
  plan.micro_batches.reserve(placements.size());
  for (Placement& placement : placements) {
    const Block block = placement.block;
    const int round = placement.round;
    plan.micro_batches.push_back(
        ToMicroBatch(request, costs_by_mode, std::move(placement)));
    timeline.Run(block, round, plan.micro_batches.back().predicted_ns);
  }
  for (const Sample& sample : request.samples) {
    plan.trained_tokens += sample.trained_tokens;
  }
  plan.predicted_step_ns = timeline.EndNs() + request.time.step_fixed_ns;
  plan.rank_busy_ns = timeline.TakeBusyNs();
  for (int64_t& busy_ns : plan.rank_busy_ns) {
    busy_ns += request.time.step_fixed_ns;
  }
  plan.predicted_imbalance =
      Imbalance(plan.rank_busy_ns, plan.predicted_step_ns);
  plan.padding_ratio = PaddingRatio(request, plan.micro_batches);
  plan.lower_bound_ns = bound.step_ns;
  plan.active_bound = bound.kind;
  plan.digest = PlanDigest(request.samples, plan.micro_batches);
  return plan;
}

}  // namespace evenstep::planner
