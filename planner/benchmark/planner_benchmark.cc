// Quality and CPU time of the planner, one row a case (rows.h):
//   planner_benchmark [--benchmark_filter=REGEX]
//                     [--benchmark_out=FILE --benchmark_out_format=json]
// bench/planner_tables.py makes the tables of docs/performance.md of the JSON.

#include <benchmark/benchmark.h>

#include "planner/benchmark/rows.h"

int main(int argc, char** argv) {
  namespace rows = evenstep::planner::benchmarks;
  rows::AddSharedRows();
  rows::AddFreshRows();
  rows::AddScalingRows();
  rows::AddWorldRows();
  rows::AddModelRows();
  rows::AddRobustnessRows();
  rows::AddRecomputeRows();
  rows::AddBruteForceRows();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
