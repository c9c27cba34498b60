#include "planner/testing/corruptions.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "planner/costs/degrees.h"
#include "planner/costs/fits.h"
#include "planner/costs/sample_size.h"
#include "planner/digest.h"
#include "planner/evaluate.h"
#include "planner/planner.h"

namespace evenstep::planner::testing {
namespace {

using Placements = std::vector<Placement>;

// Makes every number of the plan agree with its changed placements.
bool Reseal(const PlanRequest& request, Plan& plan, Placements placements) {
  const CostModel costs(request, request.options.recompute_layers);
  const LowerBound bound{request.time.step_fixed_ns, plan.active_bound};
  plan = BuildPlan(request, costs, bound, std::move(placements));
  return true;
}

Placements PlacementsOf(const Plan& plan) {
  Placements placements;
  for (const MicroBatch& batch : plan.micro_batches) {
    placements.push_back({{batch.first_rank, batch.degree},
                          batch.samples,
                          batch.round,
                          batch.recompute_layers});
  }
  return placements;
}

bool SampleIsDropped(const PlanRequest& request, Plan& plan) {
  Placements placements = PlacementsOf(plan);
  for (Placement& placement : placements) {
    if (placement.samples.size() < 2) continue;
    placement.samples.pop_back();
    return Reseal(request, plan, std::move(placements));
  }
  if (placements.size() < 2) return false;
  placements.pop_back();
  return Reseal(request, plan, std::move(placements));
}

bool SampleRunsTwice(const PlanRequest& request, Plan& plan) {
  Placements placements = PlacementsOf(plan);
  placements.push_back({placements[0].block, {placements[0].samples[0]}});
  return Reseal(request, plan, std::move(placements));
}

bool SampleTakesAnothersPlace(const PlanRequest& request, Plan& plan) {
  Placements placements = PlacementsOf(plan);
  if (request.samples.size() < 2) return false;
  int& index = placements.back().samples.back();
  index = (index + 1) % static_cast<int>(request.samples.size());
  return Reseal(request, plan, std::move(placements));
}

bool MemoryIsExceeded(const PlanRequest& request, Plan& plan) {
  Placement all{{0, 1}, std::vector<int>(request.samples.size())};
  std::iota(all.samples.begin(), all.samples.end(), 0);
  int64_t tokens = 0;
  for (const Sample& sample : request.samples) tokens += sample.length;
  if (tokens <= MostTokensPerRank(request)) return false;
  return Reseal(request, plan, {all});
}

bool BlockIsMisaligned(const PlanRequest& request, Plan& plan) {
  if (request.options.blocks == BlockShape::kContiguous) return false;
  Placements placements = PlacementsOf(plan);
  const int world = request.cluster.num_ranks();
  for (Placement& placement : placements) {
    Block& block = placement.block;
    if (block.degree == 1 || block.first_rank + block.degree >= world) continue;
    ++block.first_rank;
    return Reseal(request, plan, std::move(placements));
  }
  return false;
}

// Recompute that memory needs is left out.
bool RecomputeIsMissing(const PlanRequest& request, Plan& plan) {
  Placements placements = PlacementsOf(plan);
  for (Placement& placement : placements) {
    const LayerCounts least = RecomputeModes(request).front();
    if (Fits(request, placement.block.degree, least, placement.samples)) {
      continue;
    }
    placement.recompute_layers = least;
    return Reseal(request, plan, std::move(placements));
  }
  return false;
}

// The round of the first micro-batch takes in those of the next.
bool RoundsOverlap(const PlanRequest& request, Plan& plan) {
  if (request.options.sync != SyncMode::kPerRound) return false;
  Placements placements = PlacementsOf(plan);
  if (placements.back().round == 0) return false;
  for (Placement& placement : placements) {
    placement.round = std::max(0, placement.round - 1);
  }
  return Reseal(request, plan, std::move(placements));
}

bool ARoundIsSkipped(const PlanRequest& request, Plan& plan) {
  if (request.options.sync != SyncMode::kPerRound) return false;
  Placements placements = PlacementsOf(plan);
  for (Placement& placement : placements) ++placement.round;
  return Reseal(request, plan, std::move(placements));
}

bool DegreeIsIllegal(const PlanRequest& request, Plan& plan) {
  const std::vector<int> legal = LegalDegrees(request);
  Placements placements = PlacementsOf(plan);
  for (int degree = 2; degree <= request.cluster.num_ranks(); ++degree) {
    if (std::find(legal.begin(), legal.end(), degree) != legal.end()) continue;
    for (Placement& placement : placements) {
      if (placement.block.degree > degree) continue;
      placement.block = {0, degree};
      return Reseal(request, plan, std::move(placements));
    }
  }
  return false;
}

// A clip is shared by more ranks than it has frames or patches.
bool ClipIsSharedTooWidely(const PlanRequest& request, Plan& plan) {
  Placements placements = PlacementsOf(plan);
  for (int degree : LegalDegrees(request)) {
    const SequenceSplit split = SplitFor(request.model, degree);
    for (Placement& placement : placements) {
      if (CanShare(split, request.samples[placement.samples[0]])) continue;
      placement.block = {0, degree};
      return Reseal(request, plan, std::move(placements));
    }
  }
  return false;
}

bool IdsAreSwappedUnderTheDigest(const PlanRequest& request, Plan& plan) {
  for (MicroBatch& batch : plan.micro_batches) {
    if (batch.samples.size() < 2) continue;
    std::swap(batch.samples[0], batch.samples[1]);
    return true;
  }
  return false;
}

bool OrderChangesUnderTheDigest(const PlanRequest& request, Plan& plan) {
  auto& batches = plan.micro_batches;
  if (batches.size() < 2) return false;
  std::swap(batches.front(), batches.back());
  return true;
}

// A change of one number or list of the first micro-batch, or of the plan.
using Edit = std::function<void(Plan&)>;

Corruption Plain(std::string name, Edit edit) {
  return {std::move(name),
          [edit = std::move(edit)](const PlanRequest&, Plan& plan) {
            edit(plan);
            return true;
          }};
}

std::vector<Corruption> MakeAll() {
  return {
      {"a sample is dropped", SampleIsDropped},
      {"a sample runs twice", SampleRunsTwice},
      {"a sample takes another's place", SampleTakesAnothersPlace},
      {"memory is exceeded", MemoryIsExceeded},
      {"a block is misaligned", BlockIsMisaligned},
      {"a degree is illegal", DegreeIsIllegal},
      {"recompute is missing", RecomputeIsMissing},
      {"a clip is shared too widely", ClipIsSharedTooWidely},
      {"rounds overlap", RoundsOverlap},
      {"a round is skipped", ARoundIsSkipped},
      {"ids are swapped under the digest", IdsAreSwappedUnderTheDigest},
      {"order changes under the digest", OrderChangesUnderTheDigest},
      Plain("no micro-batches", [](Plan& p) { p.micro_batches.clear(); }),
      Plain("a micro-batch is empty",
            [](Plan& p) { p.micro_batches.emplace_back(); }),
      Plain("an index is negative",
            [](Plan& p) { p.micro_batches[0].samples[0] = -1; }),
      Plain("an index is past the end",
            [](Plan& p) { p.micro_batches[0].samples[0] = 1 << 30; }),
      Plain("a block begins below 0",
            [](Plan& p) { p.micro_batches[0].first_rank = -1; }),
      Plain("a block ends past the world",
            [](Plan& p) { p.micro_batches[0].first_rank = 1 << 20; }),
      {"a block ends one past the world",
       [](const PlanRequest& request, Plan& plan) {
         MicroBatch& batch = plan.micro_batches[0];
         batch.first_rank = request.cluster.num_ranks() - batch.degree + 1;
         return true;
       }},
      Plain("a block overflows",
            [](Plan& p) { p.micro_batches[0].first_rank = INT32_MAX; }),
      Plain("a degree is 0", [](Plan& p) { p.micro_batches[0].degree = 0; }),
      Plain("a round is off",
            [](Plan& p) { p.micro_batches.back().round += 2; }),
      Plain("padded tokens are off",
            [](Plan& p) { ++p.micro_batches[0].padded_tokens; }),
      Plain("recompute is not what was asked",
            [](Plan& p) { p.micro_batches[0].recompute_layers = 1000; }),
      Plain("recompute of the other kind of layer is not what was asked",
            [](Plan& p) { ++p.micro_batches[0].recompute_layers.of_kind[1]; }),
      Plain("sequences are shared in another mode",
            [](Plan& p) {
              SpMode& mode = p.micro_batches[0].sp_mode;
              mode = mode == SpMode::kBoth ? SpMode::kSwitch : SpMode::kBoth;
            }),
      Plain("the ulysses degree is off",
            [](Plan& p) { p.micro_batches[0].ulysses_degree += 1; }),
      Plain("predicted bytes are off",
            [](Plan& p) { p.micro_batches[0].predicted_bytes -= 1; }),
      Plain("a predicted time is off",
            [](Plan& p) { ++p.micro_batches[0].predicted_ns; }),
      Plain("the step time is off", [](Plan& p) { ++p.predicted_step_ns; }),
      Plain("a busy time is off", [](Plan& p) { ++p.rank_busy_ns.back(); }),
      Plain("a rank has no busy time",
            [](Plan& p) { p.rank_busy_ns.pop_back(); }),
      Plain("imbalance is off", [](Plan& p) { p.predicted_imbalance += 1e-6; }),
      Plain("imbalance is NaN",
            [](Plan& p) { p.predicted_imbalance = std::nan(""); }),
      Plain("padding ratio is off", [](Plan& p) { p.padding_ratio += 1e-6; }),
      Plain("the divisor is off", [](Plan& p) { --p.trained_tokens; }),
      Plain("the bound is above the plan",
            [](Plan& p) { p.lower_bound_ns = p.predicted_step_ns + 1; }),
      Plain("the bound is negative", [](Plan& p) { p.lower_bound_ns = -1; }),
      {"the bound is below the step's fixed time",
       [](const PlanRequest& request, Plan& plan) {
         plan.lower_bound_ns = request.time.step_fixed_ns - 1;
         return true;
       }},
      Plain("the active bound is none",
            [](Plan& p) { p.active_bound = static_cast<BoundKind>(4); }),
      Plain("the digest is off by a bit", [](Plan& p) { p.digest ^= 4; }),
  };
}

}  // namespace

const std::vector<Corruption>& AllCorruptions() {
  static const auto* const kAll = new std::vector<Corruption>(MakeAll());
  return *kAll;
}

}  // namespace evenstep::planner::testing
