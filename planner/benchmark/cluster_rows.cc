// Sizes, odd worlds and unequal nodes, the built-in models.

#include <algorithm>
#include <string>
#include <vector>

#include "data/length_law.h"
#include "planner/benchmark/rows.h"
#include "planner/models/published_costs.h"
#include "planner/planner.h"
#include "planner/testing/fresh_batches.h"
#include "planner/testing/measure.h"

namespace evenstep::planner::benchmarks {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace)

std::vector<int> NodesOf8(int num_ranks) {
  std::vector<int> nodes(num_ranks / 8, 8);
  if (num_ranks % 8 != 0) nodes.push_back(num_ranks % 8);
  return nodes;
}

// Several seeds of a law, eight samples a rank, none longer than the ranks can
// hold together.
absl::StatusOr<Summary> PlanSeveral(const Law& law,
                                    const std::vector<int>& nodes,
                                    SyncMode sync, int num_seeds) {
  constexpr int64_t kTokensPerRank = 6449;
  Summary summary;
  int num_ranks = 0;
  for (int node : nodes) num_ranks += node;
  for (int i = 0; i < num_seeds; ++i) {
    auto lengths = DrawLengths(law.law, 8 * num_ranks, kFirstSeed + i);
    if (!lengths.ok()) return lengths.status();
    for (int64_t& length : *lengths) {
      length = std::min(length, kTokensPerRank * num_ranks / 128 * 128);
    }
    // Plans that take long are measured once.
    const bool takes_long = sync == SyncMode::kPerRound && num_ranks > 256;
    auto measured =
        Measure(MakePlan, RequestFor(*lengths, nodes, kTokensPerRank, sync),
                takes_long ? 1 : 3);
    if (!measured.ok()) return measured.status();
    summary.Add(*measured);
  }
  return summary;
}

void AddSeveral(const std::string& name, const Law& law,
                const std::vector<int>& nodes, SyncMode sync, int num_seeds,
                const Target& target) {
  AddRow(name, [=](benchmark::State& state) -> absl::Status {
    auto summary = PlanSeveral(law, nodes, sync, num_seeds);
    if (!summary.ok()) return summary.status();
    return Summarize(state, *summary, target);
  });
}

// Of the law with the released benchmark's own mix.
constexpr char kClipLaw[] = "short";
constexpr int kNumClips = 512;

// Clips in place of the request's samples.
absl::Status DrawClips(uint64_t seed, PlanRequest& request) {
  auto law = data::ParseLengthLaw(kClipLaw);
  if (!law.ok()) return law.status();
  request.samples.clear();
  for (const auto& draw : data::DrawLengths(*law, kNumClips, seed)) {
    const auto id = static_cast<int64_t>(request.samples.size());
    request.samples.push_back(
        {id, draw.length, draw.length, draw.frames, draw.height, draw.width});
  }
  return absl::OkStatus();
}

// The model's own memory and fixed costs.
absl::Status PlanUnderModel(benchmark::State& state, const std::string& name,
                            SyncMode sync) {
  auto costs = FindPublishedCosts({name.data(), name.size()});
  if (!costs.ok()) return costs.status();
  Summary summary;
  for (int i = 0; i < 5; ++i) {
    auto request = FreshBatch(LengthLaw::kLognormal, kFirstSeed + i, sync);
    if (!request.ok()) return request.status();
    // Any power of two up to 64, as FlexSP has it, whatever the heads.
    const std::vector<int> degrees = request->model.forced_degrees;
    request->model = costs->model;
    request->model.forced_degrees = degrees;
    request->time = costs->time;
    request->memory = costs->memory;
    if (costs->model.is_video()) {
      absl::Status drawn = DrawClips(kFirstSeed + i, *request);
      if (!drawn.ok()) return drawn;
    }
    auto measured = Measure(MakePlan, *request, 3);
    if (!measured.ok()) return measured.status();
    summary.Add(*measured);
  }
  return Summarize(state, summary, {});
}

}  // namespace

void AddScalingRows() {
  for (int num_ranks : {16, 64, 128, 256, 512, 1024, 2048}) {
    for (int law = 0; law < 2; ++law) {
      Target target;
      if (num_ranks == 512) target = {1.015, 10};
      if (num_ranks == 2048) target = {1.015, 40};
      const std::string size = std::to_string(8 * num_ranks) + "_" +
                               std::to_string(num_ranks) + "/" +
                               Laws()[law].name;
      AddSeveral("scale/per_step/" + size, Laws()[law], NodesOf8(num_ranks),
                 SyncMode::kPerStep, 5, target);
      AddSeveral("scale/per_round/" + size, Laws()[law], NodesOf8(num_ranks),
                 SyncMode::kPerRound, 3, {});
    }
  }
}

void AddWorldRows() {
  for (int law = 0; law < 2; ++law) {
    for (int world : {3, 5, 6, 7, 12, 24, 48, 96}) {
      AddSeveral("world/" + std::to_string(world) + "/" + Laws()[law].name,
                 Laws()[law], NodesOf8(world), SyncMode::kPerStep, 10,
                 {1.03, 5});
    }
    AddSeveral("world/7+8/" + Laws()[law].name, Laws()[law], {7, 8},
               SyncMode::kPerStep, 10, {1.03, 5});
  }
}

void AddModelRows() {
  for (const std::string& name : PublishedCostNames()) {
    for (SyncMode sync : {SyncMode::kPerStep, SyncMode::kPerRound}) {
      const std::string row =
          sync == SyncMode::kPerStep ? "model/per_step/" : "model/per_round/";
      AddRow(row + name, [=](benchmark::State& state) {
        return PlanUnderModel(state, name, sync);
      });
    }
  }
}

}  // namespace evenstep::planner::benchmarks
