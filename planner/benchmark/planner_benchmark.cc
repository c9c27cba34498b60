// Quality and CPU time of the planner, one row a case:
//   planner_benchmark [--benchmark_filter=REGEX]
//                     [--benchmark_out=FILE --benchmark_out_format=json]
// Counters: `ratio` is step time over lower bound (a mean where a row stands
// for several plans), `cpu_ms` planning time on one core (p99 of several);
// `max_ratio` and `max_ms` are what is aimed at, and the label says whether it
// was reached. Batches of the shared data are skipped where it is absent.
// bench/planner_tables.py makes the tables of docs/performance.md of the JSON.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <string>
#include <utility>

#include "planner/planner.h"
#include "planner/published_costs.h"
#include "planner/reference_rules.h"
#include "planner/testing/brute_force.h"
#include "planner/testing/fresh_batches.h"
#include "planner/testing/measure.h"
#include "planner/testing/random_request.h"
#include "planner/testing/shared_batches.h"

namespace evenstep::planner {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace)

constexpr int kNumFreshSeeds = 20;
constexpr uint64_t kFirstSeed = 1000;

struct Target {
  double max_ratio = 0;  // 0: none
  double max_ms = 0;
};

struct Law {
  std::string name;
  LengthLaw law;
};

const Law kLaws[] = {{"lognormal", LengthLaw::kLognormal},
                     {"wikipedia", LengthLaw::kWikipedia},
                     {"lognormal8", LengthLaw::kLognormal8}};

void Report(benchmark::State& state, double ratio, double cpu_ms,
            const Target& target) {
  state.counters["ratio"] = ratio;
  state.counters["cpu_ms"] = cpu_ms;
  if (target.max_ratio == 0) return;
  state.counters["max_ratio"] = target.max_ratio;
  std::string label = ratio <= target.max_ratio ? "met" : "ratio missed";
  if (target.max_ms > 0) {
    state.counters["max_ms"] = target.max_ms;
    if (cpu_ms > target.max_ms) label += ", time missed";
  }
  state.SetLabel(label);
}

// One iteration is the whole row; the times that count are counters.
template <typename Function>
void AddRow(const std::string& name, Function function) {
  benchmark::RegisterBenchmark(
      name.c_str(),
      [function](auto& state) {
        for (auto _ : state) {
          const absl::Status status = function(state);
          if (!status.ok()) state.SkipWithError(status.ToString().c_str());
        }
      })
      ->Iterations(1)
      ->Unit(benchmark::kMillisecond);
}

absl::Status Summarize(benchmark::State& state, const Summary& summary,
                       const Target& target) {
  Report(state, summary.MeanRatio(), summary.P99Ms(), target);
  state.counters["worst_ratio"] = summary.WorstRatio();
  return absl::OkStatus();
}

// --- Shared batches, every row -----------------------------------------------

Target SharedTarget(const std::string& objective, const std::string& batch) {
  struct Row {
    const char* objective;
    const char* batch;
    Target target;
  };
  static constexpr Row kRows[] = {
      {"per_step/aligned", "ln64", {1.006, 2}},
      {"per_step/aligned", "wiki64", {1.008, 2}},
      {"per_step/aligned", "wiki64b", {1.012, 2}},
      {"per_step/aligned", "ln8", {1.003, 2}},
      {"per_step/aligned", "ln8s", {1.006, 2}},
      {"per_round/aligned", "ln64", {1.045, 50}},
      {"per_round/aligned", "wiki64", {1.105, 50}},
      {"per_round/aligned", "wiki64b", {1.145, 50}},
      {"per_round/aligned", "ln8", {1.015, 50}},
      {"per_round/aligned", "ln8s", {1.004, 50}},
      {"per_round/contiguous", "ln64", {1.025, 60}},
      {"per_round/contiguous", "wiki64", {1.105, 60}},
      {"per_round/contiguous", "wiki64b", {1.08, 60}}};
  for (const Row& row : kRows) {
    if (row.objective == objective && row.batch == batch) return row.target;
  }
  return {};
}

void AddSharedRow(const Objective& objective, const SharedBatch& batch,
                  const std::string& rule, const Planner& planner) {
  const Target target =
      rule == "even" ? SharedTarget(objective.name, batch.name) : Target();
  AddRow("shared/" + objective.name + "/" + batch.name + "/" + rule,
         [=](benchmark::State& state) -> absl::Status {
           auto request =
               LoadSharedBatch(batch, objective.sync, objective.blocks);
           if (!request.ok()) return request.status();
           auto measured = Measure(planner, *request, 5);
           if (!measured.ok()) return measured.status();
           Report(state, RatioOf(measured->plan), measured->cpu_ms, target);
           state.counters["step_s"] = measured->plan.predicted_step_ns * 1e-9;
           return absl::OkStatus();
         });
}

Planner PlannerOf(Policy policy) {
  return [policy](PlanRequest request) {
    request.options.policy = policy;
    return MakePlan(request);
  };
}

void AddSharedRows() {
  constexpr Policy kPolicies[] = {Policy::kEven,     Policy::kStatic,
                                  Policy::kBalanced, Policy::kPacked,
                                  Policy::kBucket,   Policy::kDcpInter};
  for (const Objective& objective : Objectives()) {
    for (const auto& batch : SharedBatches()) {
      for (Policy policy : kPolicies) {
        const absl::string_view name = PolicyName(policy);
        AddSharedRow(objective, batch, {name.data(), name.size()},
                     PlannerOf(policy));
      }
      for (const ReferenceRow& row : ReferenceRules()) {
        AddSharedRow(objective, batch, {row.name.data(), row.name.size()},
                     [rule = row.rule](const PlanRequest& request) {
                       return MakeReferencePlan(request, rule);
                     });
      }
    }
  }
}

// --- Fresh batches
// -------------------------------------------------------------

Target FreshTarget(const Objective& objective, LengthLaw law) {
  if (objective.blocks == BlockShape::kContiguous) return {};
  const bool per_step = objective.sync == SyncMode::kPerStep;
  switch (law) {
    case LengthLaw::kLognormal:
      return per_step ? Target{1.006, 2} : Target{1.075, 50};
    case LengthLaw::kWikipedia:
      return per_step ? Target{1.013, 2} : Target{1.042, 50};
    case LengthLaw::kLognormal8:
      return per_step ? Target{1.002, 2} : Target{1.018, 50};
  }
  return {};
}

void AddFreshRows() {
  for (const Objective& objective : Objectives()) {
    for (const Law& law : kLaws) {
      AddRow("fresh/" + objective.name + "/" + law.name,
             [=](benchmark::State& state) -> absl::Status {
               Summary summary;
               for (int i = 0; i < kNumFreshSeeds; ++i) {
                 auto request = FreshBatch(law.law, kFirstSeed + i,
                                           objective.sync, objective.blocks);
                 if (!request.ok()) return request.status();
                 auto measured = Measure(MakePlan, *request, 3);
                 if (!measured.ok()) return measured.status();
                 summary.Add(*measured);
               }
               return Summarize(state, summary,
                                FreshTarget(objective, law.law));
             });
    }
  }
}

// --- Scaling, odd worlds, other cost models
// --------------------------------------

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

void AddScalingRows() {
  for (int num_ranks : {16, 64, 128, 256, 512, 1024, 2048}) {
    for (int law = 0; law < 2; ++law) {
      Target target;
      if (num_ranks == 512) target = {1.015, 10};
      if (num_ranks == 2048) target = {1.015, 40};
      const std::string size = std::to_string(8 * num_ranks) + "_" +
                               std::to_string(num_ranks) + "/" +
                               kLaws[law].name;
      AddSeveral("scale/per_step/" + size, kLaws[law], NodesOf8(num_ranks),
                 SyncMode::kPerStep, 5, target);
      AddSeveral("scale/per_round/" + size, kLaws[law], NodesOf8(num_ranks),
                 SyncMode::kPerRound, 3, {});
    }
  }
}

void AddWorldRows() {
  for (int law = 0; law < 2; ++law) {
    for (int world : {3, 5, 6, 7, 12, 24, 48, 96}) {
      AddSeveral("world/" + std::to_string(world) + "/" + kLaws[law].name,
                 kLaws[law], NodesOf8(world), SyncMode::kPerStep, 10,
                 {1.03, 5});
    }
    AddSeveral("world/7+8/" + kLaws[law].name, kLaws[law], {7, 8},
               SyncMode::kPerStep, 10, {1.03, 5});
  }
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
    auto measured = Measure(MakePlan, *request, 3);
    if (!measured.ok()) return measured.status();
    summary.Add(*measured);
  }
  return Summarize(state, summary, {});
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

// --- Slow ranks and wrong costs
// ---------------------------------------------------

absl::StatusOr<PlanRequest> RequestOf(const std::string& batch, uint64_t seed,
                                      SyncMode sync) {
  if (batch == "ln64") return LoadSharedBatch(SharedBatches()[0], sync);
  const LengthLaw law =
      batch == "wikipedia" ? LengthLaw::kWikipedia : LengthLaw::kLognormal;
  return FreshBatch(law, kFirstSeed + seed, sync);
}

// Against the lower bound with the slow rank, which is the ideal.
absl::Status PlanWithSlowRank(benchmark::State& state, const std::string& batch,
                              SyncMode sync, bool known) {
  Summary summary;
  for (int i = 0; i < kNumFreshSeeds; ++i) {
    auto request = RequestOf(batch, i, sync);
    if (!request.ok()) return request.status();
    const PlanRequest truth = WithSlowRank(*request, i);
    auto ideal = Measure(MakePlan, truth, 1);
    if (!ideal.ok()) return ideal.status();
    auto measured = Measure(MakePlan, known ? truth : *request, 1);
    if (!measured.ok()) return measured.status();
    measured->plan.predicted_step_ns = StepNsUnder(truth, measured->plan);
    measured->plan.lower_bound_ns = ideal->plan.lower_bound_ns;
    summary.Add(*measured);
  }
  const bool has_target = known && sync == SyncMode::kPerStep;
  return Summarize(state, summary, has_target ? Target{1.06, 0} : Target());
}

enum class Error { kCoefficients, kMicroBatches };

// Either every coefficient of the costs is off by up to 10 %, against the plan
// for the true costs; or every micro-batch's time, against the same plan where
// none is: that, no planner can know.
absl::Status PlanWithWrongCosts(benchmark::State& state,
                                const std::string& batch, SyncMode sync,
                                Error error) {
  Summary summary;
  for (int i = 0; i < kNumFreshSeeds; ++i) {
    auto request = RequestOf(batch, i, sync);
    if (!request.ok()) return request.status();
    auto measured = Measure(MakePlan, *request, 1);
    if (!measured.ok()) return measured.status();
    Plan& plan = measured->plan;
    plan.lower_bound_ns = plan.predicted_step_ns;
    if (error == Error::kMicroBatches) {
      plan.predicted_step_ns = StepNsWithNoise(*request, plan, i);
    } else {
      const PlanRequest truth = WithOtherCosts(*request, i);
      auto ideal = Measure(MakePlan, truth, 1);
      if (!ideal.ok()) return ideal.status();
      plan.lower_bound_ns = ideal->plan.predicted_step_ns;
      plan.predicted_step_ns = StepNsUnder(truth, plan);
    }
    summary.Add(*measured);
  }
  const bool has_target = error == Error::kCoefficients;
  return Summarize(state, summary, has_target ? Target{1.065, 0} : Target());
}

void AddRobustnessRows() {
  for (const Objective& objective : {Objectives()[0], Objectives()[2]}) {
    for (const std::string batch : {"ln64", "wikipedia", "lognormal"}) {
      for (bool known : {true, false}) {
        AddRow("slow_rank/" + objective.name + "/" + batch +
                   (known ? "/known" : "/unknown"),
               [=](benchmark::State& state) {
                 return PlanWithSlowRank(state, batch, objective.sync, known);
               });
      }
      AddRow("wrong_costs/" + objective.name + "/" + batch,
             [=](benchmark::State& state) {
               return PlanWithWrongCosts(state, batch, objective.sync,
                                         Error::kCoefficients);
             });
      AddRow("noise/" + objective.name + "/" + batch,
             [=](benchmark::State& state) {
               return PlanWithWrongCosts(state, batch, objective.sync,
                                         Error::kMicroBatches);
             });
    }
  }
}

// --- Recompute, brute force
// ------------------------------------------------------

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

void AddRecomputeRows() {
  for (const Objective& objective : {Objectives()[0], Objectives()[2]}) {
    for (int k = 0; k < 3; ++k) {
      const SharedBatch& batch = SharedBatches()[k];
      AddRow("recompute/" + objective.name + "/" + batch.name,
             [=](benchmark::State& state) {
               return PlanWithRecompute(state, batch, objective.sync);
             });
    }
  }
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

void AddBruteForceRows() {
  for (const Objective& objective : {Objectives()[0], Objectives()[2]}) {
    AddRow("brute_force/" + objective.name, [=](benchmark::State& state) {
      return CompareWithBruteForce(state, objective.sync);
    });
  }
}

}  // namespace
}  // namespace evenstep::planner

int main(int argc, char** argv) {
  using namespace evenstep::planner;  // NOLINT(google-build-using-namespace)
  AddSharedRows();
  AddFreshRows();
  AddScalingRows();
  AddWorldRows();
  AddModelRows();
  AddRobustnessRows();
  AddRecomputeRows();
  AddBruteForceRows();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
