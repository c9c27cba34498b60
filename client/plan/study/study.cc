#include "client/plan/study/study.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/plan/plan_setup.h"
#include "client/plan/policy_runs.h"
#include "data/length_law.h"
#include "planner/costs/cost_model.h"
#include "planner/costs/cost_table.h"
#include "planner/planner.h"
#include "planner/policies/elastic.h"

namespace evenstep::plan {
namespace {

// What one policy did on one seed.
struct Outcome {
  double speedup = 0;
  double idle = 0;
  double recompute = 0;
  double degree = 0;
};

double MeanDegree(const planner::Plan& plan) {
  double weighted = 0;
  double all_ns = 0;
  for (const planner::MicroBatch& batch : plan.micro_batches) {
    const double rank_ns =
        static_cast<double>(batch.predicted_ns) * batch.degree;
    weighted += rank_ns * batch.degree;
    all_ns += rank_ns;
  }
  return all_ns > 0 ? weighted / all_ns : 0;
}

planner::Hardware HardwareOf(const StudyConstants& constants, uint64_t seed) {
  planner::Hardware hardware;
  hardware.seed = seed;
  hardware.layer_noise = constants.layer_noise;
  hardware.rank_noise = constants.rank_noise;
  return hardware;
}

// Samples of the law; of video, those of more than one frame.
std::vector<data::LengthDraw> DrawSamples(const data::LengthLaw& law,
                                          bool video, size_t count,
                                          uint64_t seed) {
  std::vector<data::LengthDraw> drawn;
  for (int64_t tried = 2 * static_cast<int64_t>(count); drawn.size() < count;
       tried *= 2) {
    drawn = data::DrawLengths(law, tried, seed);
    if (video) {
      std::erase_if(drawn, [](const auto& draw) { return draw.frames < 2; });
    }
  }
  drawn.resize(count);
  return drawn;
}

absl::StatusOr<planner::PlanRequest> RequestOf(const StudyConstants& constants,
                                               const std::string& model,
                                               const std::string& law_name,
                                               int num_samples, uint64_t seed) {
  PlanSetup setup;
  setup.num_gpus = constants.num_gpus;
  setup.gpus_per_node = {constants.gpus_per_node};
  setup.costs = model;
  setup.max_length = data::ClipSizes().back().length;
  EVENSTEP_ASSIGN_OR_RETURN(const planner::PublishedCosts costs,
                            LoadCosts(model));
  EVENSTEP_ASSIGN_OR_RETURN(const data::LengthLaw law,
                            data::ParseLengthLaw(law_name));
  EVENSTEP_ASSIGN_OR_RETURN(
      planner::PlanRequest request,
      BuildRequest(
          setup, costs,
          DrawSamples(law, costs.model.is_video(), num_samples, seed)));
  std::vector<int64_t>& bounds = request.run.bucket_bounds;
  for (const data::LengthDraw& size : data::ClipSizes()) {
    if (bounds.empty() || size.length > bounds.back()) {
      bounds.push_back(size.length);
    }
  }
  return request;
}

absl::StatusOr<Comparison> RunSeed(const StudyConstants& constants,
                                   const std::string& model,
                                   const std::string& law, uint64_t seed,
                                   const std::vector<std::string>& policies) {
  EVENSTEP_ASSIGN_OR_RETURN(
      const planner::PlanRequest request,
      RequestOf(constants, model, law, constants.samples_per_step, seed));
  RunOptions options;
  for (const std::string& name : policies) {
    EVENSTEP_ASSIGN_OR_RETURN(const auto named, PoliciesNamed(name));
    options.policies.push_back(named[0]);
  }
  options.simulate = HardwareOf(constants, seed);
  EVENSTEP_ASSIGN_OR_RETURN(Comparison comparison,
                            ComparePolicies(request, options));
  for (const PolicyRun& run : comparison.runs) {
    EVENSTEP_RETURN_IF_ERROR(run.status);
  }
  return comparison;
}

Interval IntervalOver(const std::vector<Outcome>& outcomes,
                      double Outcome::*member) {
  std::vector<double> values;
  values.reserve(outcomes.size());
  for (const Outcome& outcome : outcomes) values.push_back(outcome.*member);
  return IntervalOf(values);
}

double Predicted(const Comparison& comparison, planner::Policy policy) {
  for (const PolicyRun& run : comparison.runs) {
    if (run.policy == policy) {
      return static_cast<double>(run.plan.predicted_step_ns);
    }
  }
  return 0;
}

// What the seeds of one row gave.
struct RowOutcomes {
  std::vector<std::vector<Outcome>> of_policy;
  std::vector<double> over_intra;
  std::vector<double> over_bound;
  std::vector<double> kept;  // empty where no plan was drawn
};

StudyRow RowOf(const StudyTable& table, const RowOutcomes& outcomes) {
  StudyRow row;
  for (size_t i = 0; i < table.policies.size(); ++i) {
    const std::vector<Outcome>& seeds = outcomes.of_policy[i];
    row.cells.push_back({table.policies[i],
                         IntervalOver(seeds, &Outcome::speedup),
                         IntervalOver(seeds, &Outcome::idle),
                         IntervalOver(seeds, &Outcome::recompute),
                         IntervalOver(seeds, &Outcome::degree)});
  }
  row.even_over_intra = IntervalOf(outcomes.over_intra);
  row.worst_even_over_intra =
      *std::min_element(outcomes.over_intra.begin(), outcomes.over_intra.end());
  row.even_over_bound = IntervalOf(outcomes.over_bound);
  if (!outcomes.kept.empty()) row.drawn_kept = IntervalOf(outcomes.kept);
  return row;
}

absl::StatusOr<StudyRow> RunEqualRow(const StudyConstants& constants,
                                     const StudyTable& table,
                                     const std::string& model,
                                     const std::string& law) {
  RowOutcomes outcomes;
  outcomes.of_policy.resize(table.policies.size());
  for (int seed = 1; seed <= constants.num_seeds; ++seed) {
    EVENSTEP_ASSIGN_OR_RETURN(
        const Comparison comparison,
        RunSeed(constants, model, law, seed, table.policies));
    const auto baseline_ns =
        static_cast<double>(comparison.runs[0].simulated->step_ns);
    for (size_t i = 0; i < comparison.runs.size(); ++i) {
      const PolicyRun& run = comparison.runs[i];
      outcomes.of_policy[i].push_back(
          {baseline_ns / static_cast<double>(run.simulated->step_ns),
           run.simulated->idle_share,
           RecomputeRatio(comparison.request, run.plan), MeanDegree(run.plan)});
    }
    outcomes.over_intra.push_back(
        Predicted(comparison, planner::Policy::kDcpIntra) /
        Predicted(comparison, planner::Policy::kEven));
    outcomes.over_bound.push_back(RatioToBound(comparison.runs.back().plan));
  }
  return RowOf(table, outcomes);
}

// Sums over the steps that one policy drew.
struct Run {
  double work_ns = 0;
  double simulated_ns = 0;
  double predicted_ns = 0;
  double bound_ns = 0;
  double waiting_ns = 0;  // of all ranks
  double recompute = 0;   // weighted by time
  double degree = 0;      // weighted by time
};

// Rank-time of the samples at their cheapest degrees, nothing else considered.
double WorkNs(const planner::PlanRequest& request) {
  const planner::CostModel costs(request, request.options.recompute_layers);
  const planner::CostTable table(request, costs);
  double work_ns = 0;
  for (int i = 0; i < table.num_samples(); ++i) {
    work_ns +=
        static_cast<double>(table.rank_ns(table.BestLevel(i, INT64_MAX), i));
  }
  return work_ns;
}

absl::Status AddStep(const planner::PlanRequest& request,
                     const planner::Plan& plan, double work_ns,
                     const planner::Hardware& hardware, Run* run) {
  EVENSTEP_RETURN_IF_ERROR(planner::CheckPlan(request, plan));
  EVENSTEP_ASSIGN_OR_RETURN(const planner::SimulatedStep step,
                            planner::Simulate(request, plan, hardware));
  const auto step_ns = static_cast<double>(step.step_ns);
  run->work_ns += work_ns;
  run->simulated_ns += step_ns;
  run->predicted_ns += static_cast<double>(plan.predicted_step_ns);
  run->bound_ns += static_cast<double>(plan.lower_bound_ns);
  run->waiting_ns += step.idle_share * step_ns;
  run->recompute += RecomputeRatio(request, plan) * step_ns;
  run->degree += MeanDegree(plan) * step_ns;
  return absl::OkStatus();
}

Outcome OutcomeOf(const Run& run, const Run& baseline) {
  const double throughput = run.work_ns / run.simulated_ns;
  return {throughput / (baseline.work_ns / baseline.simulated_ns),
          run.waiting_ns / run.simulated_ns, run.recompute / run.simulated_ns,
          run.degree / run.simulated_ns};
}

// The pool of a policy, before its first step: only dcp-intra and even choose
// what is recomputed.
planner::PlanRequest PoolFor(planner::PlanRequest pool,
                             planner::Policy policy) {
  pool.options.policy = policy;
  if (policy == planner::Policy::kDcpIntra) return pool;
  pool.options.recompute_choices.clear();
  pool.options.recompute_layers = pool.model.layers();
  return pool;
}

// What `even` makes of steps that dcp-intra has drawn. The drawn plan is one of
// its candidates: the groups were drawn to fill the ranks in their best shapes,
// which no policy does for samples that it is given.
struct EvenRun {
  Run run;
  double own_predicted_ns = 0;  // of its own plans alone
  int kept = 0;                 // steps in which the drawn plan is faster
};

absl::Status AddEvenStep(const planner::PlanRequest& request,
                         const planner::Plan& drawn, double work_ns,
                         const planner::Hardware& hardware, EvenRun* even) {
  EVENSTEP_ASSIGN_OR_RETURN(const planner::Plan own,
                            planner::MakePlan(request));
  even->own_predicted_ns += static_cast<double>(own.predicted_step_ns);
  const bool keep = drawn.predicted_step_ns < own.predicted_step_ns;
  even->kept += keep ? 1 : 0;
  return AddStep(request, keep ? drawn : own, work_ns, hardware, &even->run);
}

// Steps of one policy; `even`, if given, plans what each has drawn.
absl::StatusOr<Run> RunElastic(const StudyConstants& constants,
                               const planner::PlanRequest& request,
                               planner::Policy policy, uint64_t seed,
                               EvenRun* even) {
  planner::PlanRequest pool = request;
  pool.samples.resize(constants.pool_samples);
  size_t next = pool.samples.size();
  Run run;
  for (int k = 0; k < constants.elastic_steps; ++k) {
    planner::ElasticOptions options;
    options.seed = seed;
    options.step = k;
    if (policy == planner::Policy::kBucket) {
      options.accumulation = planner::Accumulation::kNone;
    }
    EVENSTEP_ASSIGN_OR_RETURN(
        planner::ElasticStep step,
        planner::DrawElasticStep(PoolFor(pool, policy), options));
    planner::PlanRequest free = step.request;  // may choose its recompute
    free.options = request.options;
    const double work_ns = WorkNs(free);
    const planner::Hardware hardware = HardwareOf(constants, seed * 1000 + k);
    EVENSTEP_RETURN_IF_ERROR(
        AddStep(step.request, step.plan, work_ns, hardware, &run));
    if (even != nullptr) {
      free.options.policy = planner::Policy::kEven;
      EVENSTEP_RETURN_IF_ERROR(
          AddEvenStep(free, step.plan, work_ns, hardware, even));
    }
    pool.samples = std::move(step.carried_over);
    while (static_cast<int>(pool.samples.size()) < constants.pool_samples &&
           next < request.samples.size()) {
      pool.samples.push_back(request.samples[next++]);
    }
  }
  return run;
}

absl::StatusOr<StudyRow> RunPublishedRow(const StudyConstants& constants,
                                         const StudyTable& table,
                                         const std::string& model,
                                         const std::string& law) {
  RowOutcomes outcomes;
  outcomes.of_policy.resize(table.policies.size());
  const int num_samples =
      constants.pool_samples * (constants.elastic_steps + 1);
  for (int seed = 1; seed <= constants.num_seeds; ++seed) {
    EVENSTEP_ASSIGN_OR_RETURN(
        const planner::PlanRequest request,
        RequestOf(constants, model, law, num_samples, seed));
    std::vector<Run> runs;
    EvenRun even;
    for (size_t i = 0; i + 1 < table.policies.size(); ++i) {
      EVENSTEP_ASSIGN_OR_RETURN(const planner::Policy policy,
                                planner::ParsePolicy(table.policies[i]));
      const bool intra = policy == planner::Policy::kDcpIntra;
      EVENSTEP_ASSIGN_OR_RETURN(Run run,
                                RunElastic(constants, request, policy, seed,
                                           intra ? &even : nullptr));
      runs.push_back(run);
    }
    outcomes.over_intra.push_back(runs.back().predicted_ns /
                                  even.own_predicted_ns);
    outcomes.over_bound.push_back(even.run.predicted_ns / even.run.bound_ns);
    outcomes.kept.push_back(static_cast<double>(even.kept) /
                            constants.elastic_steps);
    runs.push_back(even.run);  // the last policy
    for (size_t i = 0; i < runs.size(); ++i) {
      outcomes.of_policy[i].push_back(OutcomeOf(runs[i], runs[0]));
    }
  }
  return RowOf(table, outcomes);
}

using RowFunction = absl::StatusOr<StudyRow> (*)(const StudyConstants&,
                                                 const StudyTable&,
                                                 const std::string& model,
                                                 const std::string& law);

void FillTable(const StudyConstants& constants, RowFunction run_row,
               const std::function<void(const std::string&)>& say,
               StudyTable* table) {
  for (const std::string& model : constants.models) {
    for (const std::string& law : constants.laws) {
      say(absl::StrCat(table->title, ": ", model, ", ", law));
      auto row = run_row(constants, *table, model, law);
      StudyRow& added = table->rows.emplace_back();
      if (row.ok()) {
        added = *std::move(row);
      } else {
        added.error = std::string(row.status().message());
      }
      added.model = model;
      added.law = law;
    }
  }
}

}  // namespace

StudyTable RunAsPublished(const StudyConstants& constants,
                          const std::function<void(const std::string&)>& say) {
  StudyTable table;
  table.title = "As published: the batch floats";
  table.baseline = "bucket";
  table.policies = {"bucket", "packed", "dcp-inter", "dcp-intra", "even"};
  FillTable(constants, RunPublishedRow, say, &table);
  return table;
}

StudyTable RunEqualSamples(const StudyConstants& constants,
                           const std::function<void(const std::string&)>& say) {
  StudyTable table;
  table.title = absl::StrCat("Equal samples: ", constants.samples_per_step,
                             " a step, the same for all rows");
  table.baseline = "bucket-tuned";
  table.policies = {"bucket-tuned", "packed", "dcp-inter", "dcp-intra", "even"};
  FillTable(constants, RunEqualRow, say, &table);
  return table;
}

}  // namespace evenstep::plan
