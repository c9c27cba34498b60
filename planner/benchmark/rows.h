#ifndef EVENSTEP_PLANNER_BENCHMARK_ROWS_H_
#define EVENSTEP_PLANNER_BENCHMARK_ROWS_H_

// A row of planner_benchmark: one case, one iteration, figures as counters.
// Counters: `ratio` is step time over lower bound (a mean where a row stands
// for several plans, then with `worst_ratio`), `cpu_ms` planning time on one
// core (p99 of several); `max_ratio` and `max_ms` are what is aimed at, and the
// label says whether it was reached. A row that cannot be planned is an error
// with the reason. Called by planner_benchmark.cc before it runs; one thread.

#include <benchmark/benchmark.h>

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "planner/testing/fresh_batches.h"
#include "planner/testing/measure.h"

namespace evenstep::planner::benchmarks {

inline constexpr int kNumFreshSeeds = 20;
// Held out: nobody looked at these while choosing a constant of the planner.
// fresh_batches_test's, which were looked at, are 1000 and on.
inline constexpr uint64_t kFirstSeed = 900000;

struct Target {
  double max_ratio = 0;  // 0: none
  double max_ms = 0;
};

struct Law {
  std::string name;
  testing::LengthLaw law;
};

// lognormal, wikipedia, lognormal8.
const std::vector<Law>& Laws();

void AddRow(const std::string& name,
            std::function<absl::Status(benchmark::State&)> function);

// MakePlan by this policy.
testing::Planner PlannerOf(Policy policy);

void Report(benchmark::State& state, double ratio, double cpu_ms,
            const Target& target);
absl::Status Summarize(benchmark::State& state, const testing::Summary& summary,
                       const Target& target);

// Every file's rows.
void AddSharedRows();
void AddFreshRows();
void AddScalingRows();
void AddWorldRows();
void AddModelRows();
void AddRobustnessRows();
void AddRecomputeRows();
void AddBruteForceRows();

}  // namespace evenstep::planner::benchmarks

#endif  // EVENSTEP_PLANNER_BENCHMARK_ROWS_H_
