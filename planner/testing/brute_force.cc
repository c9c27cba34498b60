#include "planner/testing/brute_force.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "planner/cost_model.h"
#include "planner/degrees.h"
#include "planner/planner.h"

namespace evenstep::planner::testing {
namespace {

class BruteForce {
 public:
  explicit BruteForce(const PlanRequest& request)
      : request_(request), costs_(request, request.options.recompute_layers) {
    const int num_ranks = request.cluster.num_ranks();
    for (int degree : LegalDegrees(request)) {
      for (const Block& block : AlignedBlocks(num_ranks, degree)) {
        blocks_.push_back(block);
      }
    }
  }

  std::optional<int64_t> Solve() {
    PlaceFrom(0);
    return best_ns_;
  }

 private:
  struct Batch {
    Block block;
    int64_t tokens = 0;
    int128 squares = 0;
  };

  void PlaceFrom(size_t sample) {
    if (sample == request_.samples.size()) return Judge();
    const int64_t length = request_.samples[sample].length;
    for (size_t k = 0; k < batches_.size(); ++k) {
      TryIn(batches_[k], length, sample);
    }
    for (const Block& block : blocks_) {
      batches_.push_back({block});
      TryIn(batches_.back(), length, sample);
      batches_.pop_back();
    }
  }

  // `batch` may move in memory while deeper samples open others.
  void TryIn(Batch& batch, int64_t length, size_t sample) {
    const size_t k = static_cast<size_t>(&batch - batches_.data());
    const int64_t padded =
        PaddedTokens(batch.tokens + length, batch.block.degree);
    if (padded / batch.block.degree > request_.memory.tokens_per_rank) return;
    batches_[k].tokens += length;
    batches_[k].squares += int128{length} * length;
    PlaceFrom(sample + 1);
    batches_[k].tokens -= length;
    batches_[k].squares -= int128{length} * length;
  }

  // A rank is busy for the sum of its micro-batches at least; with wide blocks
  // first nobody waits, so that is also enough.
  void Judge() {
    std::vector<int64_t> busy_ns(request_.cluster.num_ranks(),
                                 request_.time.step_fixed_ns);
    for (const Batch& batch : batches_) {
      const int degree = batch.block.degree;
      const int64_t ns = CostModel::AtSpeed(
          costs_.MicroBatchNs(degree, PaddedTokens(batch.tokens, degree),
                              batch.squares),
          costs_.BlockSpeed(batch.block));
      for (int i = 0; i < degree; ++i)
        busy_ns[batch.block.first_rank + i] += ns;
    }
    const int64_t step_ns = *std::max_element(busy_ns.begin(), busy_ns.end());
    if (!best_ns_.has_value() || step_ns < *best_ns_) best_ns_ = step_ns;
  }

  const PlanRequest& request_;
  const CostModel costs_;
  std::vector<Block> blocks_;
  std::vector<Batch> batches_;
  std::optional<int64_t> best_ns_;
};

}  // namespace

absl::StatusOr<int64_t> BruteForceStepNs(const PlanRequest& request) {
  const std::optional<int64_t> best_ns = BruteForce(request).Solve();
  if (best_ns.has_value()) return *best_ns;
  return absl::FailedPreconditionError("no plan exists");
}

}  // namespace evenstep::planner::testing
