// Shared batches under every rule, and fresh batches of the same laws.

#include <string>

#include "planner/benchmark/rows.h"
#include "planner/planner.h"
#include "planner/policies.h"
#include "planner/policies/reference_rules.h"
#include "planner/testing/fresh_batches.h"
#include "planner/testing/measure.h"
#include "planner/testing/shared_batches.h"

namespace evenstep::planner::benchmarks {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace)

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

}  // namespace

void AddSharedRows() {
  for (const Objective& objective : Objectives()) {
    for (const auto& batch : SharedBatches()) {
      for (const PolicyRow& row : Policies()) {
        AddSharedRow(objective, batch, {row.name.data(), row.name.size()},
                     PlannerOf(row.policy));
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

void AddFreshRows() {
  for (const Objective& objective : Objectives()) {
    for (const Law& law : Laws()) {
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

}  // namespace evenstep::planner::benchmarks
