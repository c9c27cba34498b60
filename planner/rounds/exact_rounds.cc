#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "planner/costs/degrees.h"
#include "planner/planner.h"
#include "planner/rounds/round_search.h"

namespace evenstep::planner {
namespace {

constexpr int kMaxSamples = 8;
constexpr double kMaxWork = 2e6;  // blocks times pairs of nested subsets
constexpr int64_t kImpossible = INT64_MAX / 4;

using Subset = unsigned;  // bit i: the request's sample i

int64_t NumBlocks(const PlanRequest& request) {
  const int num_ranks = request.cluster.num_ranks();
  int64_t num_blocks = 0;
  for (int degree : LegalDegrees(request)) {
    num_blocks += request.options.blocks == BlockShape::kAligned
                      ? num_ranks / degree
                      : num_ranks - degree + 1;
  }
  return num_blocks;
}

class ExactRounds {
 public:
  explicit ExactRounds(const PolicyInput& input)
      : input_(input),
        num_ranks_(input.request.cluster.num_ranks()),
        num_subsets_(1u << input.request.samples.size()),
        starting_(num_ranks_),
        from_((num_ranks_ + 1) * num_subsets_) {
    for (int k = 0; k < input.table.num_degrees(); ++k) AddDegree(k);
    for (Subset set = 0; set < num_subsets_; ++set) {
      At(num_ranks_, set).peak_ns = set == 0 ? 0 : kImpossible;
    }
    for (int rank = num_ranks_ - 1; rank >= 0; --rank) SolveFrom(rank);
  }

  std::vector<Placement> Place() {
    std::vector<int64_t> best_ns(num_subsets_, kImpossible);
    std::vector<Subset> round_of(num_subsets_, 0);
    best_ns[0] = 0;
    for (Subset all = 1; all < num_subsets_; ++all) {
      const Subset first = all & -all;
      for (Subset set = all; set != 0; set = (set - 1) & all) {
        if ((set & first) == 0) continue;
        const int64_t ns = At(0, set).peak_ns + best_ns[all & ~set];
        if (ns >= best_ns[all]) continue;
        best_ns[all] = ns;
        round_of[all] = set;
      }
    }
    std::vector<Placement> placements;
    int round = 0;
    for (Subset left = num_subsets_ - 1; left != 0; ++round) {
      AddRound(round_of[left], round, placements);
      left &= ~round_of[left];
    }
    return placements;
  }

 private:
  // The best way to run a subset on the ranks from some rank on: the subset
  // `head` on the block of `level` that starts there, or nothing.
  struct Cell {
    int64_t peak_ns = kImpossible;
    Subset head = 0;
    int level = 0;
  };
  struct Start {
    int level;
    int64_t speed;
  };

  Cell& At(int rank, Subset set) { return from_[rank * num_subsets_ + set]; }

  void AddDegree(int level) {
    nominal_ns_.emplace_back(num_subsets_, kImpossible);
    layers_.emplace_back(num_subsets_, LayerCounts());
    for (Subset set = 1; set < num_subsets_; ++set) {
      for (int mode = 0; mode < input_.table.num_modes(); ++mode) {
        TryMode(level, mode, set);
      }
    }
    for (const Block& block :
         BlocksOfClass(input_.request, input_.table.block_class(level))) {
      starting_[block.first_rank].push_back(
          {level, input_.costs.BlockSpeed(block)});
    }
  }

  // The fastest mode that holds a subset.
  void TryMode(int level, int mode, Subset set) {
    const CostTable& table = input_.table;
    const int in_mode = level + mode * table.num_degrees();
    const BlockClass& block_class = table.block_class(level);
    BatchSize size;
    for (Subset rest = set; rest != 0; rest &= rest - 1) {
      const Sample& sample = input_.request.samples[std::countr_zero(rest)];
      const auto split = SplitFor(input_.request.model, block_class.degree);
      if (!CanShare(split, sample)) return;
      size += SizeOf(input_.request.model, split, sample);
    }
    if (size.tokens > table.capacity_tokens(in_mode)) return;
    const LayerCounts& layers = table.recompute_layers(in_mode);
    const int64_t ns =
        input_.costs.WithRecompute(layers).MicroBatchNs(block_class, size);
    if (ns >= nominal_ns_[level][set]) return;
    nominal_ns_[level][set] = ns;
    layers_[level][set] = layers;
  }

  void SolveFrom(int rank) {
    for (Subset all = 0; all < num_subsets_; ++all) {
      At(rank, all).peak_ns = At(rank + 1, all).peak_ns;
    }
    for (const Start& start : starting_[rank]) {
      const int next_rank = rank + input_.table.degree(start.level);
      for (Subset head = 1; head < num_subsets_; ++head) {
        const int64_t nominal_ns = nominal_ns_[start.level][head];
        if (nominal_ns == kImpossible) continue;
        const int64_t head_ns = CostModel::AtSpeed(nominal_ns, start.speed);
        const Subset others = (num_subsets_ - 1) & ~head;
        for (Subset rest = others;; rest = (rest - 1) & others) {
          const int64_t ns = std::max(head_ns, At(next_rank, rest).peak_ns);
          Cell& cell = At(rank, head | rest);
          if (ns < cell.peak_ns) cell = {ns, head, start.level};
          if (rest == 0) break;
        }
      }
    }
  }

  void AddRound(Subset set, int round, std::vector<Placement>& placements) {
    for (int rank = 0; set != 0;) {
      const Cell& cell = At(rank, set);
      if (cell.head == 0) {
        ++rank;
        continue;
      }
      const int degree = input_.table.degree(cell.level);
      std::vector<int> samples;
      for (Subset rest = cell.head; rest != 0; rest &= rest - 1) {
        samples.push_back(std::countr_zero(rest));
      }
      placements.push_back({{rank, degree},
                            std::move(samples),
                            round,
                            layers_[cell.level][cell.head]});
      set &= ~cell.head;
      rank += degree;
    }
  }

  const PolicyInput& input_;
  const int num_ranks_;
  const Subset num_subsets_;
  std::vector<std::vector<int64_t>> nominal_ns_;  // by level and subset
  std::vector<std::vector<LayerCounts>> layers_;  // that it recomputes
  std::vector<std::vector<Start>> starting_;      // by first rank
  std::vector<Cell> from_;                        // by rank and subset
};

}  // namespace

bool ExactRoundsAreAffordable(const PolicyInput& input) {
  const int num_samples = input.table.num_samples();
  return num_samples <= kMaxSamples &&
         static_cast<double>(NumBlocks(input.request)) *
                 std::pow(3.0, num_samples) <=
             kMaxWork;
}

std::vector<Placement> PlaceRoundsExactly(const PolicyInput& input) {
  return ExactRounds(input).Place();
}

}  // namespace evenstep::planner
