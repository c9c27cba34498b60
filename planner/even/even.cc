// `even`, per_step and aligned: load balancing on the tree of blocks
// (block_tree.h); everything else goes by rounds (even_rounds.h). Small steps
// are solved exactly; others are filled level by level for some target times,
// and the best fills improved. The other policies are candidates too, so `even`
// is never slower than they are.

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "planner/costs/degrees.h"
#include "planner/even/block_tree.h"
#include "planner/even/candidate_set.h"
#include "planner/even/exact.h"
#include "planner/even/level_fill.h"
#include "planner/even/local_search.h"
#include "planner/even/tree_packing.h"
#include "planner/planner.h"
#include "planner/policies.h"
#include "planner/rounds/even_rounds.h"

namespace evenstep::planner {
namespace {

// Target times, in thousandths above the bound.
constexpr std::array<int64_t, 12> kTargetsPerMille = {
    1, 3, 6, 10, 20, 35, 60, 90, 140, 200, 300, 450};
constexpr int kMaxTargetsMet = 3;  // later targets only waste
constexpr size_t kNumImproved = 3;
constexpr int64_t kGoodEnoughDivisor = 2000;  // within 0.05 % of the bound
// Fixed costs count as large from a 16th of a full micro-batch.
constexpr int64_t kFixedShareDivisor = 16;
// Rounds are tried under per_step from a 64th of the step.
constexpr int64_t kRoundsShareDivisor = 64;
constexpr size_t kNumImprovedWithBands = 8;
constexpr int kMaxSizeWithBands = 8192;  // nodes and samples
constexpr int64_t kNoTarget = INT64_MAX;

// Whether a micro-batch's fixed cost is a large part of what it does: then the
// cheapest degrees of single samples say little.
bool FixedCostsAreLarge(const CostTable& table) {
  int64_t work_ns = 0;
  int64_t tokens = 0;
  for (int i = 0; i < table.num_samples(); ++i) {
    work_ns += table.sample_ns(0, i);
    tokens += table.length(i);
  }
  const int64_t num_full =
      std::max<int64_t>(1, tokens / table.capacity_tokens(0));
  return table.fixed_ns(0) >= work_ns / num_full / kFixedShareDivisor;
}

// Whether every sample has its cheapest level of all within the target, so
// that later targets would fill alike.
bool TargetIsFree(const CostTable& table, int64_t target_ns) {
  for (int i = 0; i < table.num_samples(); ++i) {
    if (table.BestLevel(i, target_ns) != table.BestLevel(i, INT64_MAX)) {
      return false;
    }
  }
  return true;
}

using Fills = std::vector<Fill>;

void FillForTargets(const CostTable& table, int64_t bound_ns,
                    SlowBlocks slow_blocks, LevelFiller& filler, Fills& fills) {
  const int highest = table.num_degrees() - 1;
  int num_met = 0;
  for (int64_t per_mille : kTargetsPerMille) {
    const int64_t target_ns = bound_ns + bound_ns / 1000 * per_mille;
    fills.push_back(filler.FillFor({target_ns, 0, highest, slow_blocks}));
    if (fills.back().peak_ns > target_ns) continue;
    if (++num_met == kMaxTargetsMet || TargetIsFree(table, target_ns)) return;
  }
}

// Samples confined to bands of levels, with and without widening.
void FillBands(const CostTable& table, int64_t bound_ns, LevelFiller& filler,
               Fills& fills) {
  const int num_levels = table.num_degrees();
  for (int lowest = 0; lowest < num_levels; ++lowest) {
    for (int highest = lowest; highest < num_levels; ++highest) {
      for (int64_t target_ns : {bound_ns + bound_ns / 2, kNoTarget}) {
        fills.push_back(filler.FillFor({target_ns, lowest, highest}));
      }
    }
  }
}

// The best few, no two of the same peak.
void KeepBest(size_t count, Fills& fills) {
  std::stable_sort(
      fills.begin(), fills.end(),
      [](const Fill& a, const Fill& b) { return a.peak_ns < b.peak_ns; });
  const auto twins = std::unique(
      fills.begin(), fills.end(),
      [](const Fill& a, const Fill& b) { return a.peak_ns == b.peak_ns; });
  fills.erase(twins, fills.end());
  if (fills.size() > count) fills.erase(fills.begin() + count, fills.end());
}

TreePacking SearchFor(const PolicyInput& input, const BlockTree& tree,
                      int64_t bound_ns) {
  const int64_t stop_ns = bound_ns + bound_ns / kGoodEnoughDivisor;
  int64_t trials_left = input.request.options.work_budget;
  LevelFiller filler(tree, input.table);
  Fills fills;
  FillForTargets(input.table, bound_ns, SlowBlocks::kAlike, filler, fills);
  if (tree.HoldsRanksBack()) {
    FillForTargets(input.table, bound_ns, SlowBlocks::kLast, filler, fills);
  }
  const bool bands =
      tree.num_nodes() + input.table.num_samples() <= kMaxSizeWithBands &&
      FixedCostsAreLarge(input.table);
  if (bands) FillBands(input.table, bound_ns, filler, fills);
  KeepBest(bands ? kNumImprovedWithBands : kNumImproved, fills);
  std::optional<TreePacking> best;
  for (const Fill& fill : fills) {
    TreePacking packing(tree, input.table, fill);
    ImprovePacking(packing, stop_ns, trials_left);
    if (!best.has_value() || packing.PeakNs() < best->PeakNs()) {
      best = std::move(packing);
    }
  }
  if (input.table.num_samples() <= kMaxKickedSamples) {
    KickPacking(*best, stop_ns, trials_left);
  }
  return *std::move(best);
}

std::vector<Placement> PlaceOnTree(const PolicyInput& input) {
  const BlockTree tree(input.request, input.costs);
  if (ExactIsAffordable(input, tree)) return PlaceExactly(input, tree);
  const int64_t bound_ns =
      input.bound.step_ns - input.request.time.step_fixed_ns;
  return SearchFor(input, tree, bound_ns).ToPlacements();
}

std::vector<std::vector<Placement>> Place(const PolicyInput& input) {
  const Options& options = input.request.options;
  const bool on_tree = options.sync == SyncMode::kPerStep &&
                       options.blocks == BlockShape::kAligned;
  if (!on_tree) return PlaceEvenRounds(input);
  return {PlaceOnTree(input)};
}

// Aligned blocks of some degrees only. Nothing if they cannot hold the samples.
void OfferAligned(const PolicyInput& input, std::vector<int> degrees,
                  CandidateSet& candidates) {
  PlanRequest request = input.request;
  request.options.blocks = BlockShape::kAligned;
  request.options.degrees = std::move(degrees);
  if (!CheckSamplesFit(request).ok()) return;
  const CostTable table(request, input.costs);
  const LowerBound bound = ComputeLowerBound(request, input.costs, table);
  candidates.OfferEach(Place({request, input.costs, table, bound}));
}

// As many degrees as a rank may have groups: from the smallest that holds the
// longest sample downwards. Aligned blocks of one degree are one group a rank.
void OfferFewGroups(const PolicyInput& input, const std::vector<int>& aligned,
                    CandidateSet& candidates) {
  PlanRequest request = input.request;
  request.run.max_length = 0;
  request.options.blocks = BlockShape::kAligned;
  const auto widest = StaticDegree(request);
  if (!widest.ok()) return;
  std::vector<int> degrees;
  for (auto degree = aligned.rbegin(); degree != aligned.rend(); ++degree) {
    const bool room = static_cast<int>(degrees.size()) <
                      input.request.options.max_groups_per_rank;
    if (*degree > *widest || (*degree > 1 && !room)) continue;
    degrees.push_back(*degree);
  }
  OfferAligned(input, std::move(degrees), candidates);
}

absl::StatusOr<std::vector<Placement>> PlaceInOneMode(
    const PolicyInput& input) {
  const PlanRequest& request = input.request;
  const bool contiguous = request.options.blocks == BlockShape::kContiguous;
  const bool per_step = request.options.sync == SyncMode::kPerStep;
  PlanRequest on_aligned = request;
  on_aligned.options.blocks = BlockShape::kAligned;
  const std::vector<int> aligned = LegalDegrees(on_aligned);
  CandidateSet candidates(input);
  // Aligned blocks are contiguous too. Without a barrier they often do better,
  // because nobody waits between nested blocks; they need fewer groups; and a
  // search among few degrees goes deeper.
  if (contiguous) OfferAligned(input, aligned, candidates);
  if (!(contiguous && per_step && candidates.IsNearBound())) {
    candidates.OfferEach(Place(input));
  }
  AddBaselineCandidates(input, candidates);
  if (candidates.refused()) OfferFewGroups(input, aligned, candidates);
  std::vector<Placement> placements = candidates.Take();
  if (!placements.empty()) return placements;
  return absl::FailedPreconditionError(
      absl::StrCat("no plan was found in which every rank belongs to at most ",
                   request.options.max_groups_per_rank,
                   " groups (options.max_groups_per_rank); a limit of ",
                   aligned.size(), " or aligned blocks would allow one"));
}

// Rounds run without their barrier too, in their order. Their search takes
// several times as long as that on the tree, which is as good or better, with
// two exceptions: it is the one that mixes modes, which pays where memory is
// tight; and if fixed costs are a large part of the step, what counts is how
// few micro-batches a rank runs.
bool RoundsMayWin(const PolicyInput& input, const CandidateSet& candidates) {
  const int num_samples = input.table.num_samples();
  if (num_samples <= kMaxKickedSamples) return true;
  const int size = num_samples + 2 * input.request.cluster.num_ranks();
  if (size > kMaxSizeWithBands) return false;
  return candidates.Recomputes() ||
         input.table.fixed_ns(0) >= input.bound.step_ns / kRoundsShareDivisor;
}

// Every mode alone, each micro-batch then lowered as far as memory allows;
// under per_round also modes mixed in the search.
absl::StatusOr<std::vector<Placement>> PlaceWithRecompute(
    const PolicyInput& input) {
  CandidateSet candidates(input);
  const bool per_round = input.request.options.sync == SyncMode::kPerRound;
  std::vector<std::vector<Placement>> known;
  absl::Status last = absl::OkStatus();
  for (const LayerCounts& mode : RecomputeModes(input.request)) {
    PlanRequest request = input.request;
    request.options.recompute_choices.clear();
    request.options.recompute_layers = mode;
    last.Update(CheckSamplesFit(request));
    if (!CheckSamplesFit(request).ok()) continue;
    const CostModel costs = input.costs.WithRecompute(mode);
    const CostTable table(request, costs);
    const LowerBound bound = ComputeLowerBound(request, costs, table);
    auto placements = PlaceInOneMode({request, costs, table, bound});
    last.Update(placements.status());
    if (!placements.ok()) continue;
    for (Placement& placement : *placements) placement.recompute_layers = mode;
    if (per_round) known.push_back(*placements);
    candidates.Offer(*std::move(placements));
  }
  AddBaselineCandidates(input, candidates);
  if (per_round ||
      (!candidates.IsNearBound() && RoundsMayWin(input, candidates))) {
    candidates.OfferEach(PlaceEvenRounds(input, known));
  }
  std::vector<Placement> placements = candidates.Take();
  if (placements.empty()) return last;
  return placements;
}

}  // namespace

absl::StatusOr<std::vector<Placement>> PlaceEven(const PolicyInput& input) {
  if (input.table.num_modes() > 1) return PlaceWithRecompute(input);
  return PlaceInOneMode(input);
}

}  // namespace evenstep::planner
