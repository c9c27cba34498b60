// Recompute in the choice, and the fastest plan there is.

#include <algorithm>
#include <cstdint>
#include <string>

#include "planner/benchmark/rows.h"
#include "planner/planner.h"
#include "planner/policies.h"
#include "planner/testing/brute_force.h"
#include "planner/testing/measure.h"
#include "planner/testing/random_request.h"
#include "planner/testing/shared_batches.h"

namespace evenstep::planner::benchmarks {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace)

// `gain` is the best single mode's step time over that with the choice.
absl::Status PlanWithRecompute(benchmark::State& state,
                               const SharedBatch& batch, SyncMode sync) {
  auto fixed = LoadSharedBatch(batch, sync);
  if (!fixed.ok()) return fixed.status();
  const PlanRequest request = WithRecompute(*fixed);
  auto chosen = Measure(MakePlan, request, 3);
  if (!chosen.ok()) return chosen.status();
  int64_t single_ns = INT64_MAX;
  for (const LayerCounts& layers : request.options.recompute_choices) {
    PlanRequest single = request;
    single.options.recompute_choices.clear();
    single.options.recompute_layers = layers;
    auto plan = MakePlan(single);
    if (plan.ok()) single_ns = std::min(single_ns, plan->predicted_step_ns);
  }
  Report(state, RatioOf(chosen->plan), chosen->cpu_ms, {});
  const auto chosen_ns = static_cast<double>(chosen->plan.predicted_step_ns);
  state.counters["gain"] = static_cast<double>(single_ns) / chosen_ns;
  return absl::OkStatus();
}

// Every policy with recompute left to it: here dcp-intra and bucket-tuned are
// rules of their own.
void AddRuleWithRecompute(const Objective& objective, const SharedBatch& batch,
                          const PolicyRow& row) {
  AddRow("recompute_rules/" + objective.name + "/" + batch.name + "/" +
             std::string(row.name.data(), row.name.size()),
         [=](benchmark::State& state) -> absl::Status {
           auto fixed = LoadSharedBatch(batch, objective.sync);
           if (!fixed.ok()) return fixed.status();
           auto measured =
               Measure(PlannerOf(row.policy), WithRecompute(*fixed), 1);
           if (!measured.ok()) return measured.status();
           Report(state, RatioOf(measured->plan), measured->cpu_ms, {});
           state.counters["step_s"] = measured->plan.predicted_step_ns * 1e-9;
           return absl::OkStatus();
         });
}

absl::Status CompareWithBruteForce(benchmark::State& state, SyncMode sync) {
  int planned = 0, optimal = 0;
  for (uint64_t seed = 50000; planned < 1000; ++seed) {
    PlanRequest request = RandomRequest(seed, {4, 8});
    request.options.sync = sync;
    auto plan = MakePlan(request);
    if (!plan.ok()) continue;
    ++planned;
    if (!FasterPlanExists(request, plan->predicted_step_ns)) ++optimal;
  }
  state.counters["planned"] = planned;
  state.counters["optimal"] = optimal;
  state.SetLabel(optimal * 100 >= planned * 99 ? "met" : "missed");
  return absl::OkStatus();
}

}  // namespace

void AddRecomputeRows() {
  for (const Objective& objective : {Objectives()[0], Objectives()[2]}) {
    for (int k = 0; k < 3; ++k) {
      const SharedBatch& batch = SharedBatches()[k];
      AddRow("recompute/" + objective.name + "/" + batch.name,
             [=](benchmark::State& state) {
               return PlanWithRecompute(state, batch, objective.sync);
             });
      for (const PolicyRow& row : Policies()) {
        AddRuleWithRecompute(objective, batch, row);
      }
    }
  }
}

void AddBruteForceRows() {
  for (const Objective& objective : {Objectives()[0], Objectives()[2]}) {
    AddRow("brute_force/" + objective.name, [=](benchmark::State& state) {
      return CompareWithBruteForce(state, objective.sync);
    });
  }
}

}  // namespace evenstep::planner::benchmarks
