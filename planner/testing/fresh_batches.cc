#include "planner/testing/fresh_batches.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "base/status_macros.h"
#include "data/length_law.h"
#include "planner/models/published_costs.h"

namespace evenstep::planner::testing {
namespace {

constexpr int64_t kUnitTokens = 128;
constexpr double kPi = 3.14159265358979323846;

// <random>'s engines are portable, its distributions are not.
class Dice {
 public:
  explicit Dice(uint64_t seed) : engine_(seed) {}

  // In (0, 1).
  double Fraction() {
    return (static_cast<double>(engine_() >> 11) + 0.5) / 9007199254740992.0;
  }
  double Normal() {
    const double radius = std::sqrt(-2 * std::log(Fraction()));
    return radius * std::cos(2 * kPi * Fraction());
  }

 private:
  std::mt19937_64 engine_;
};

int64_t ToUnits(double tokens, int64_t most) {
  const int64_t units = std::max<int64_t>(
      1, static_cast<int64_t>(std::ceil(tokens / kUnitTokens)));
  return std::min(units * kUnitTokens, most);
}

std::vector<int64_t> DrawLognormal(double median, double sigma, int64_t most,
                                   int num_samples, Dice& dice) {
  std::vector<int64_t> lengths;
  for (int i = 0; i < num_samples; ++i) {
    const double tokens = median * std::exp(sigma * dice.Normal());
    lengths.push_back(ToUnits(tokens, most));
  }
  return lengths;
}

}  // namespace

absl::StatusOr<std::vector<int64_t>> DrawLengths(LengthLaw law, int num_samples,
                                                 uint64_t seed) {
  Dice dice(seed);
  if (law == LengthLaw::kLognormal) {
    return DrawLognormal(1500, 1.4, 115072, num_samples, dice);
  }
  if (law == LengthLaw::kLognormal8) {
    return DrawLognormal(800, 1.2, 102400, num_samples, dice);
  }
  EVENSTEP_ASSIGN_OR_RETURN(const data::LengthLaw wikipedia,
                            data::ParseLengthLaw("wikipedia"));
  std::vector<int64_t> lengths;
  lengths.reserve(num_samples);
  for (const auto& draw : data::DrawLengths(wikipedia, num_samples, seed)) {
    lengths.push_back(ToUnits(static_cast<double>(draw.length), INT64_MAX));
  }
  return lengths;
}

PlanRequest RequestFor(const std::vector<int64_t>& lengths,
                       const std::vector<int>& ranks_per_node,
                       int64_t tokens_per_rank, SyncMode sync,
                       BlockShape blocks) {
  const PublishedCosts costs = *FindPublishedCosts("flexsp-7b-a100");
  PlanRequest request;
  for (size_t i = 0; i < lengths.size(); ++i) {
    request.samples.push_back(
        {static_cast<int64_t>(i), lengths[i], lengths[i]});
  }
  request.cluster.ranks_per_node = ranks_per_node;
  request.model = costs.model;
  const int num_ranks = request.cluster.num_ranks();
  for (int degree = 1; degree <= num_ranks; ++degree) {
    const bool power_of_two = (degree & (degree - 1)) == 0;
    // All that aligned blocks can have.
    if (blocks == BlockShape::kAligned && !power_of_two && degree < num_ranks) {
      continue;
    }
    request.model.forced_degrees.push_back(degree);
  }
  request.time = costs.time;
  if (sync == SyncMode::kPerStep) {
    request.time.micro_batch_fixed_ns = 20'000'000;
  }
  request.memory.tokens_per_rank = tokens_per_rank;
  request.options.sync = sync;
  request.options.blocks = blocks;
  return request;
}

absl::StatusOr<PlanRequest> FreshBatch(LengthLaw law, uint64_t seed,
                                       SyncMode sync, BlockShape blocks) {
  constexpr int kNumSamples = 512;
  EVENSTEP_ASSIGN_OR_RETURN(std::vector<int64_t> lengths,
                            DrawLengths(law, kNumSamples, seed));
  const bool one_node = law == LengthLaw::kLognormal8;
  return RequestFor(lengths, std::vector<int>(one_node ? 1 : 8, 8),
                    one_node ? 12935 : 6449, sync, blocks);
}

}  // namespace evenstep::planner::testing
