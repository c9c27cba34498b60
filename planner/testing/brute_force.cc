#include "planner/testing/brute_force.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

#include "planner/costs/cost_model.h"
#include "planner/costs/degrees.h"
#include "planner/costs/memory_model.h"
#include "planner/costs/sample_size.h"
#include "planner/planner.h"

namespace evenstep::planner::testing {
namespace {

class BruteForce {
 public:
  BruteForce(const PlanRequest& request, int64_t below_ns)
      : request_(request),
        costs_(request, request.options.recompute_layers),
        below_ns_(below_ns) {
    const int num_ranks = request.cluster.num_ranks();
    for (int degree : LegalDegrees(request)) {
      for (const Block& block :
           BlocksOf(num_ranks, degree, request.options.blocks)) {
        blocks_.push_back(block);
      }
    }
    // Long samples first: hopeless beginnings show early.
    samples_ = request.samples;
    std::sort(
        samples_.begin(), samples_.end(),
        [](const Sample& a, const Sample& b) { return a.length > b.length; });
  }

  std::optional<int64_t> Solve() {
    PlaceFrom(0);
    return best_ns_;
  }

 private:
  struct Batch {
    Block block;
    int round = 0;
    BatchSize size;
  };

  void PlaceFrom(size_t sample) {
    // More samples never make a step faster.
    if (StepNs() >= below_ns_) return;
    if (sample == samples_.size()) {
      best_ns_ = below_ns_ = StepNs();
      return;
    }
    for (size_t k = 0; k < batches_.size(); ++k) TryIn(k, sample);
    const bool in_rounds = request_.options.sync == SyncMode::kPerRound;
    const int num_rounds = in_rounds ? NumRounds() + 1 : 1;
    for (const Block& block : blocks_) {
      for (int round = 0; round < num_rounds; ++round) {
        if (in_rounds && IsTaken(block, round)) continue;
        batches_.push_back({block, round, {}});
        TryIn(batches_.size() - 1, sample);
        batches_.pop_back();
      }
    }
  }

  int NumRounds() const {
    int num_rounds = 0;
    for (const Batch& batch : batches_) {
      num_rounds = std::max(num_rounds, batch.round + 1);
    }
    return num_rounds;
  }

  bool IsTaken(const Block& block, int round) const {
    for (const Batch& batch : batches_) {
      if (batch.round == round &&
          batch.block.first_rank < block.first_rank + block.degree &&
          block.first_rank < batch.block.first_rank + batch.block.degree) {
        return true;
      }
    }
    return false;
  }

  void TryIn(size_t k, size_t sample) {
    const int degree = batches_[k].block.degree;
    const SequenceSplit split = SplitFor(request_.model, degree);
    if (!CanShare(split, samples_[sample])) return;
    const BatchSize before = batches_[k].size;
    batches_[k].size += SizeOf(request_.model, split, samples_[sample]);
    if (BatchNs(batches_[k]) < INT64_MAX) PlaceFrom(sample + 1);
    batches_[k].size = before;
  }

  // In the fastest mode that holds its tokens; INT64_MAX if none does.
  int64_t BatchNs(const Batch& batch) const {
    const int degree = batch.block.degree;
    const int64_t padded = PaddedTokens(batch.size.tokens, degree);
    int64_t least_ns = INT64_MAX;
    for (const LayerCounts& mode : RecomputeModes(request_)) {
      if (padded / degree > TokensPerRank(request_, mode, degree)) continue;
      const int64_t ns =
          CostModel::AtSpeed(costs_.WithRecompute(mode).MicroBatchNs(
                                 costs_.ClassOf(batch.block), batch.size),
                             costs_.BlockSpeed(batch.block));
      least_ns = std::min(least_ns, ns);
    }
    return least_ns;
  }

  // per_step, aligned blocks: a rank is busy for the sum of its micro-batches
  // at least; with wide blocks first nobody waits, so that is also enough.
  int64_t BusiestNs() const {
    std::vector<int64_t> busy_ns(request_.cluster.num_ranks(), 0);
    for (const Batch& batch : batches_) {
      const int64_t ns = BatchNs(batch);
      for (int i = 0; i < batch.block.degree; ++i) {
        busy_ns[batch.block.first_rank + i] += ns;
      }
    }
    return *std::max_element(busy_ns.begin(), busy_ns.end());
  }

  int64_t RoundsNs() const {
    std::vector<int64_t> peaks_ns(NumRounds(), 0);
    for (const Batch& batch : batches_) {
      peaks_ns[batch.round] = std::max(peaks_ns[batch.round], BatchNs(batch));
    }
    return std::accumulate(peaks_ns.begin(), peaks_ns.end(), int64_t{0});
  }

  int64_t StepNs() const {
    return request_.time.step_fixed_ns +
           (request_.options.sync == SyncMode::kPerRound ? RoundsNs()
                                                         : BusiestNs());
  }

  const PlanRequest& request_;
  const CostModel costs_;
  int64_t below_ns_;
  std::vector<Block> blocks_;
  std::vector<Sample> samples_;
  std::vector<Batch> batches_;
  std::optional<int64_t> best_ns_;
};

}  // namespace

absl::StatusOr<int64_t> BruteForceStepNs(const PlanRequest& request) {
  const std::optional<int64_t> best_ns = BruteForce(request, INT64_MAX).Solve();
  if (best_ns.has_value()) return *best_ns;
  return absl::FailedPreconditionError("no plan exists");
}

bool FasterPlanExists(const PlanRequest& request, int64_t step_ns) {
  return BruteForce(request, step_ns).Solve().has_value();
}

}  // namespace evenstep::planner::testing
