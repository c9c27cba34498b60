// The published policies that plan from a profile of length buckets: `bucket`
// keeps one degree for the run, `dcp-inter` gives every bucket its own, and
// `dcp-intra` its own recompute as well. Restated for fixed samples and exact
// memory, with the defects fixed that docs/adr/0009 names.

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "planner/costs/degrees.h"
#include "planner/costs/fits.h"
#include "planner/planner.h"
#include "planner/policies.h"
#include "planner/policies/buckets.h"

namespace evenstep::planner {
namespace {

struct Work {
  BucketShape shape;
  std::vector<std::vector<int>> micro_batches;
};

std::vector<std::vector<int>> CutIntoBatches(const std::vector<int>& samples,
                                             int64_t batch) {
  std::vector<std::vector<int>> micro_batches;
  for (size_t i = 0; i < samples.size(); ++i) {
    if (i % static_cast<size_t>(batch) == 0) micro_batches.emplace_back();
    micro_batches.back().push_back(samples[i]);
  }
  return micro_batches;
}

// Without a barrier: widest buckets first, every micro-batch to the group of
// its bucket's degree that is free first. Accumulation counts follow from the
// groups' loads, so all end about together, in GPUs times time.
std::vector<Placement> PlaceFreely(std::vector<Work> works, int num_ranks) {
  using Entry = std::pair<int64_t, int>;  // free from, first rank
  std::vector<int64_t> free_ns(num_ranks, 0);
  std::vector<Placement> placements;
  for (Work& work : works) {
    const int degree = work.shape.degree;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> groups;
    for (const Block& block : AlignedBlocks(num_ranks, degree)) {
      const auto first = free_ns.begin() + block.first_rank;
      groups.push({*std::max_element(first, first + degree), block.first_rank});
    }
    for (auto& samples : work.micro_batches) {
      auto [start_ns, first_rank] = groups.top();
      groups.pop();
      groups.push({start_ns + work.shape.ns, first_rank});
      const auto first = free_ns.begin() + first_rank;
      std::fill(first, first + degree, start_ns + work.shape.ns);
      placements.push_back({{first_rank, degree},
                            std::move(samples),
                            0,
                            work.shape.recompute_layers});
    }
  }
  return placements;
}

// In rounds: slowest first, groups are drawn until the ranks are full.
std::vector<Placement> PlaceInRounds(std::vector<Work> works, int num_ranks) {
  std::stable_sort(
      works.begin(), works.end(),
      [](const Work& a, const Work& b) { return a.shape.ns > b.shape.ns; });
  std::vector<std::vector<Placement>> rounds;
  std::vector<int> free_ranks;
  size_t first_open = 0;
  for (Work& work : works) {
    const int degree = work.shape.degree;
    size_t round = first_open;
    for (auto& samples : work.micro_batches) {
      while (round < rounds.size() && free_ranks[round] < degree) ++round;
      if (round == rounds.size()) {
        rounds.emplace_back();
        free_ranks.push_back(num_ranks);
      }
      free_ranks[round] -= degree;
      rounds[round].push_back({{0, degree},
                               std::move(samples),
                               static_cast<int>(round),
                               work.shape.recompute_layers});
      while (first_open < rounds.size() && free_ranks[first_open] == 0) {
        ++first_open;
      }
    }
  }
  std::vector<Placement> placements;
  for (auto& round : rounds) {
    std::stable_sort(round.begin(), round.end(),
                     [](const Placement& a, const Placement& b) {
                       return a.block.degree > b.block.degree;
                     });
    int first_rank = 0;
    for (Placement& placement : round) {
      placement.block.first_rank = first_rank;
      first_rank += placement.block.degree;
      placements.push_back(std::move(placement));
    }
  }
  return placements;
}

// The legal degrees of `request` only.
std::vector<Placement> PlaceAtDegreesOf(const PlanRequest& request,
                                        const PolicyInput& input,
                                        const std::vector<Bucket>& buckets,
                                        const std::vector<LayerCounts>& modes) {
  std::vector<Work> works;
  for (const Bucket& bucket : buckets) {
    const BucketShape shape =
        BestShape(request, input.costs, bucket, modes,
                  static_cast<int64_t>(bucket.samples.size()));
    works.push_back({shape, CutIntoBatches(bucket.samples, shape.batch)});
  }
  std::stable_sort(works.begin(), works.end(),
                   [](const Work& a, const Work& b) {
                     return a.shape.degree > b.shape.degree;
                   });
  const int num_ranks = input.request.cluster.num_ranks();
  if (input.request.options.sync == SyncMode::kPerRound) {
    return PlaceInRounds(std::move(works), num_ranks);
  }
  return PlaceFreely(std::move(works), num_ranks);
}

bool HoldAll(const PlanRequest& request, const std::vector<Bucket>& buckets,
             const std::vector<LayerCounts>& modes) {
  return std::all_of(buckets.begin(), buckets.end(), [&](const Bucket& bucket) {
    return std::any_of(modes.begin(), modes.end(), [&](const auto& mode) {
      return FitsSomeDegree(request, mode, bucket.profiled);
    });
  });
}

// Groups of any degree overlap those of other degrees and wait for them. A run
// with contiguous blocks may keep to aligned ones, and does where that is
// faster.
std::vector<Placement> PlaceByBucket(const PolicyInput& input,
                                     const std::vector<Bucket>& buckets,
                                     const std::vector<LayerCounts>& modes) {
  std::vector<Placement> any =
      PlaceAtDegreesOf(input.request, input, buckets, modes);
  if (input.request.options.blocks == BlockShape::kAligned) return any;
  PlanRequest request = input.request;
  request.options.blocks = BlockShape::kAligned;
  if (!HoldAll(request, buckets, modes)) return any;
  std::vector<Placement> aligned =
      PlaceAtDegreesOf(request, input, buckets, modes);
  return PredictStepNs(input.request, input.costs, aligned) <
                 PredictStepNs(input.request, input.costs, any)
             ? aligned
             : any;
}

// One degree for the run; batches of the buckets as long as the longest sample.
absl::StatusOr<std::vector<Placement>> PlaceAtOneDegree(
    const PolicyInput& input, const LayerCounts& layers) {
  PlanRequest request = input.request;
  request.options.recompute_layers = layers;
  EVENSTEP_ASSIGN_OR_RETURN(const int degree, StaticDegree(request));
  const std::vector<Bucket> buckets = DivideIntoBuckets(input.request);
  const std::vector<BucketShape> shapes =
      EvenShapes(input.request, input.costs, buckets, degree, layers);
  const int num_replicas = request.cluster.num_ranks() / degree;
  std::vector<Placement> placements;
  for (size_t k = 0; k < buckets.size(); ++k) {
    for (auto& samples : CutIntoBatches(buckets[k].samples, shapes[k].batch)) {
      const int order = static_cast<int>(placements.size());
      const int first_rank = order % num_replicas * degree;
      placements.push_back({{first_rank, degree},
                            std::move(samples),
                            order / num_replicas,
                            layers});
    }
  }
  return placements;
}

}  // namespace

absl::StatusOr<std::vector<Placement>> PlaceBucket(const PolicyInput& input) {
  return PlaceAtOneDegree(input, RecomputeModes(input.request).back());
}

absl::StatusOr<std::vector<Placement>> PlaceBucketTuned(
    const PolicyInput& input) {
  absl::StatusOr<std::vector<Placement>> best =
      absl::FailedPreconditionError("no mode");
  int64_t best_ns = INT64_MAX;
  for (const LayerCounts& layers : RecomputeModes(input.request)) {
    auto placements = PlaceAtOneDegree(input, layers);
    if (!placements.ok()) {
      if (!best.ok()) best = placements.status();
      continue;
    }
    const int64_t ns = PredictStepNs(input.request, input.costs, *placements);
    if (ns >= best_ns) continue;
    best_ns = ns;
    best = std::move(placements);
  }
  return best;
}

absl::StatusOr<std::vector<Placement>> PlaceDcpInter(const PolicyInput& input) {
  const std::vector<Bucket> buckets = DivideIntoBuckets(input.request);
  return PlaceByBucket(input, buckets,
                       {LeastModeThatHolds(input.request, buckets)});
}

absl::StatusOr<std::vector<Placement>> PlaceDcpIntra(const PolicyInput& input) {
  return PlaceByBucket(input, DivideIntoBuckets(input.request),
                       RecomputeModes(input.request));
}

}  // namespace evenstep::planner
