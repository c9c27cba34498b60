// Quality and CPU time of every policy on the shared batches, in both sync
// modes and block shapes (batch/sync/blocks/policy):
//   planner_benchmark [--benchmark_out=FILE --benchmark_out_format=json]
// Counters: ratio (step over lower bound), step_s, bound_s.

#include <benchmark/benchmark.h>

#include <string>

#include "planner/planner.h"
#include "planner/testing/shared_batches.h"

namespace evenstep::planner {
namespace {

struct Objective {
  std::string name;
  SyncMode sync;
  BlockShape blocks;
};

void PlanBatch(benchmark::State& state, const testing::SharedBatch& batch,
               const Objective& objective, Policy policy) {
  auto request =
      testing::LoadSharedBatch(batch, objective.sync, objective.blocks);
  if (!request.ok()) {
    state.SkipWithError(request.status().ToString().c_str());
    return;
  }
  request->options.policy = policy;
  Plan plan;
  for (auto _ : state) plan = *MakePlan(*request);
  state.counters["step_s"] = plan.predicted_step_ns * 1e-9;
  state.counters["bound_s"] = plan.lower_bound_ns * 1e-9;
  state.counters["ratio"] = static_cast<double>(plan.predicted_step_ns) /
                            static_cast<double>(plan.lower_bound_ns);
}

void RegisterAll() {
  const Objective objectives[] = {
      {"per_step/aligned", SyncMode::kPerStep, BlockShape::kAligned},
      {"per_round/aligned", SyncMode::kPerRound, BlockShape::kAligned},
      {"per_round/contiguous", SyncMode::kPerRound, BlockShape::kContiguous}};
  const Policy policies[] = {Policy::kStatic,   Policy::kBalanced,
                             Policy::kPacked,   Policy::kBucket,
                             Policy::kDcpInter, Policy::kEven};
  for (const Objective& objective : objectives) {
    for (const auto& batch : testing::SharedBatches()) {
      for (Policy policy : policies) {
        const auto policy_name = PolicyName(policy);
        const std::string name =
            batch.name + "/" + objective.name + "/" +
            std::string(policy_name.data(), policy_name.size());
        benchmark::RegisterBenchmark(name.c_str(), PlanBatch, batch, objective,
                                     policy)
            ->Unit(benchmark::kMillisecond);
      }
    }
  }
}

}  // namespace
}  // namespace evenstep::planner

int main(int argc, char** argv) {
  evenstep::planner::RegisterAll();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
