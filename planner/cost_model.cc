#include "planner/cost_model.h"

#include <algorithm>
#include <cmath>

namespace evenstep::planner {
namespace {

// Scaling by a power of two is exact, so only the final rounding counts.
int64_t ToFixedPoint(double value, int fraction_bits) {
  return std::llround(std::ldexp(value, fraction_bits));
}

// Rounded down; the 128-bit division is slow, and rarely needed.
int64_t DivideWork(int128 work, int64_t divisor) {
  if (work <= INT64_MAX) return static_cast<int64_t>(work) / divisor;
  return static_cast<int64_t>(work / divisor);
}

}  // namespace

CostModel::CostModel(const PlanRequest& request, int recompute_layers)
    : linear_(
          ToFixedPoint(request.time.linear_ns_per_token, kCostFractionBits)),
      quadratic_(ToFixedPoint(request.time.quadratic_ns_per_token2,
                              kCostFractionBits)),
      num_layers_(request.model.num_layers),
      recompute_layers_(recompute_layers),
      micro_batch_fixed_ns_(request.time.micro_batch_fixed_ns),
      collective_latency_ns_(request.time.collective_latency_ns) {
  for (const auto& entry : request.time.collective) {
    collective_.push_back(
        {entry.degree, ToFixedPoint(entry.ns_per_token, kCostFractionBits)});
  }
  rank_speed_.assign(request.cluster.num_ranks(),
                     int64_t{1} << kSpeedFractionBits);
  for (size_t rank = 0; rank < request.cluster.rank_speed.size(); ++rank) {
    rank_speed_[rank] =
        ToFixedPoint(request.cluster.rank_speed[rank], kSpeedFractionBits);
  }
}

int128 CostModel::Work(int64_t tokens, int128 squares) const {
  const int128 work = quadratic_ * squares + int128{linear_} * tokens;
  if (recompute_layers_ == 0) return work;
  return work * (3 * num_layers_ + recompute_layers_) / (3 * num_layers_);
}

int64_t CostModel::CollectiveCoefficient(int degree) const {
  if (degree == 1 || collective_.empty()) return 0;
  for (const Coefficient& entry : collective_) {
    if (entry.degree >= degree) return entry.per_token;
  }
  return collective_.back().per_token;
}

int64_t CostModel::CollectiveNs(int degree, int64_t tokens) const {
  const int64_t coefficient = CollectiveCoefficient(degree);
  if (coefficient == 0) return 0;
  const int128 scaled =
      int128{coefficient} * tokens * (2 * num_layers_ + recompute_layers_);
  return DivideWork(scaled, (2 * num_layers_ * degree) << kCostFractionBits);
}

int64_t CostModel::FixedNs(int degree) const {
  if (degree == 1) return micro_batch_fixed_ns_;
  return micro_batch_fixed_ns_ +
         (8 * num_layers_ + 4 * recompute_layers_) * collective_latency_ns_;
}

int64_t CostModel::SampleNs(int degree, int64_t length) const {
  return DivideWork(Work(length, int128{length} * length),
                    int64_t{degree} << kCostFractionBits) +
         CollectiveNs(degree, length);
}

int64_t CostModel::MicroBatchNs(int degree, int64_t padded_tokens,
                                int128 sum_squared_lengths) const {
  return FixedNs(degree) +
         DivideWork(Work(padded_tokens, sum_squared_lengths),
                    int64_t{degree} << kCostFractionBits) +
         CollectiveNs(degree, padded_tokens);
}

int64_t CostModel::BlockSpeed(const Block& block) const {
  const auto first = rank_speed_.begin() + block.first_rank;
  return *std::min_element(first, first + block.degree);
}

int64_t CostModel::TotalSpeed() const {
  int64_t total = 0;
  for (int64_t speed : rank_speed_) total += speed;
  return total;
}

int64_t CostModel::AtSpeed(int64_t nominal_ns, int64_t speed) {
  constexpr int64_t kNominal = int64_t{1} << kSpeedFractionBits;
  if (speed == kNominal) return nominal_ns;
  return static_cast<int64_t>((int128{nominal_ns} * kNominal + speed - 1) /
                              speed);
}

}  // namespace evenstep::planner
