#include "planner/benchmark/rows.h"

#include <utility>

#include "planner/planner.h"

namespace evenstep::planner::benchmarks {

using testing::LengthLaw;

const std::vector<Law>& Laws() {
  static const auto* const kLaws =
      new std::vector<Law>{{"lognormal", LengthLaw::kLognormal},
                           {"wikipedia", LengthLaw::kWikipedia},
                           {"lognormal8", LengthLaw::kLognormal8}};
  return *kLaws;
}

void AddRow(const std::string& name,
            std::function<absl::Status(benchmark::State&)> function) {
  benchmark::RegisterBenchmark(
      name.c_str(),
      [function = std::move(function)](benchmark::State& state) {
        for (auto _ : state) {
          const absl::Status status = function(state);
          if (!status.ok()) state.SkipWithError(status.ToString().c_str());
        }
      })
      ->Iterations(1)
      ->Unit(benchmark::kMillisecond);
}

testing::Planner PlannerOf(Policy policy) {
  return [policy](PlanRequest request) {
    request.options.policy = policy;
    return MakePlan(request);
  };
}

void Report(benchmark::State& state, double ratio, double cpu_ms,
            const Target& target) {
  state.counters["ratio"] = ratio;
  state.counters["cpu_ms"] = cpu_ms;
  if (target.max_ratio == 0) return;
  state.counters["max_ratio"] = target.max_ratio;
  std::string label = ratio <= target.max_ratio ? "met" : "ratio missed";
  if (target.max_ms > 0) {
    state.counters["max_ms"] = target.max_ms;
    if (cpu_ms > target.max_ms) {
      label = label == "met" ? "time missed" : label + ", time missed";
    }
  }
  state.SetLabel(label);
}

absl::Status Summarize(benchmark::State& state, const testing::Summary& summary,
                       const Target& target) {
  Report(state, summary.MeanRatio(), summary.P99Ms(), target);
  state.counters["worst_ratio"] = summary.WorstRatio();
  return absl::OkStatus();
}

}  // namespace evenstep::planner::benchmarks
