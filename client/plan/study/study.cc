#include "client/plan/study/study.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "client/plan/plan_setup.h"
#include "client/plan/policy_runs.h"
#include "data/length_law.h"

namespace evenstep::plan {
namespace {

// Two-sided 95 % of Student's t, by degrees of freedom from 1; the normal law
// above.
constexpr double kStudent[] = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365,
                               2.306,  2.262, 2.228, 2.201, 2.179, 2.160, 2.145,
                               2.131,  2.120, 2.110, 2.101, 2.093, 2.086};

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

absl::StatusOr<Comparison> RunSeed(const StudyConstants& constants,
                                   const std::string& model,
                                   const std::string& law_name, uint64_t seed,
                                   const std::vector<std::string>& policies) {
  PlanSetup setup;
  setup.num_gpus = constants.num_gpus;
  setup.gpus_per_node = {constants.gpus_per_node};
  setup.costs = model;
  EVENSTEP_ASSIGN_OR_RETURN(const planner::PublishedCosts costs,
                            LoadCosts(model));
  EVENSTEP_ASSIGN_OR_RETURN(const data::LengthLaw law,
                            data::ParseLengthLaw(law_name));
  EVENSTEP_ASSIGN_OR_RETURN(
      const planner::PlanRequest request,
      BuildRequest(setup, costs,
                   data::DrawLengths(law, constants.samples_per_step, seed)));
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

absl::StatusOr<StudyRow> RunRow(const StudyConstants& constants,
                                const StudyTable& table,
                                const std::string& model,
                                const std::string& law) {
  std::vector<std::vector<Outcome>> outcomes(table.policies.size());
  std::vector<double> over_intra;
  std::vector<double> over_bound;
  for (int seed = 1; seed <= constants.num_seeds; ++seed) {
    EVENSTEP_ASSIGN_OR_RETURN(
        const Comparison comparison,
        RunSeed(constants, model, law, seed, table.policies));
    const auto baseline_ns =
        static_cast<double>(comparison.runs[0].simulated->step_ns);
    for (size_t i = 0; i < comparison.runs.size(); ++i) {
      const PolicyRun& run = comparison.runs[i];
      outcomes[i].push_back(
          {baseline_ns / static_cast<double>(run.simulated->step_ns),
           run.simulated->idle_share,
           RecomputeRatio(comparison.request, run.plan), MeanDegree(run.plan)});
    }
    const double even_ns = Predicted(comparison, planner::Policy::kEven);
    over_intra.push_back(Predicted(comparison, planner::Policy::kDcpIntra) /
                         even_ns);
    over_bound.push_back(RatioToBound(comparison.runs.back().plan));
  }
  StudyRow row;
  row.model = model;
  row.law = law;
  for (size_t i = 0; i < table.policies.size(); ++i) {
    row.cells.push_back({table.policies[i],
                         IntervalOver(outcomes[i], &Outcome::speedup),
                         IntervalOver(outcomes[i], &Outcome::idle),
                         IntervalOver(outcomes[i], &Outcome::recompute),
                         IntervalOver(outcomes[i], &Outcome::degree)});
  }
  row.even_over_intra = IntervalOf(over_intra);
  row.worst_even_over_intra =
      *std::min_element(over_intra.begin(), over_intra.end());
  row.even_over_bound = IntervalOf(over_bound);
  return row;
}

std::string Format(const Interval& interval, int digits) {
  return absl::StrFormat("%.*f +- %.*f", digits, interval.mean, digits,
                         interval.half_width);
}

std::string Percent(const Interval& interval) {
  return absl::StrFormat("%.0f%%", interval.mean * 100);
}

}  // namespace

Interval IntervalOf(const std::vector<double>& values) {
  const auto count = static_cast<double>(values.size());
  Interval interval;
  interval.mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  if (values.size() < 2) return interval;
  double squares = 0;
  for (double value : values) {
    squares += (value - interval.mean) * (value - interval.mean);
  }
  const size_t freedom = values.size() - 1;
  const double t =
      freedom <= std::size(kStudent) ? kStudent[freedom - 1] : 1.96;
  interval.half_width = t * std::sqrt(squares / (count - 1) / count);
  return interval;
}

StudyTable RunEqualSamples(const StudyConstants& constants,
                           const std::function<void(const std::string&)>& say) {
  StudyTable table;
  table.title = absl::StrCat("Equal samples: ", constants.samples_per_step,
                             " a step, the same for all rows");
  table.baseline = "bucket-tuned";
  table.policies = {"bucket-tuned", "packed", "dcp-inter", "dcp-intra", "even"};
  for (const std::string& model : constants.models) {
    for (const std::string& law : constants.laws) {
      say(absl::StrCat("equal samples: ", model, ", ", law));
      auto row = RunRow(constants, table, model, law);
      table.rows.emplace_back();
      if (row.ok()) {
        table.rows.back() = *std::move(row);
      } else {
        table.rows.back().model = model;
        table.rows.back().law = law;
        table.rows.back().error = std::string(row.status().message());
      }
    }
  }
  return table;
}

std::string ToMarkdown(const StudyTable& table) {
  std::string text = absl::StrCat("### ", table.title, "\n\n");
  absl::StrAppend(&text, "Throughput over `", table.baseline, "`'s.\n\n");
  absl::StrAppend(&text, "| model | law |");
  for (const std::string& policy : table.policies) {
    if (policy != table.baseline) absl::StrAppend(&text, " `", policy, "` |");
  }
  absl::StrAppend(&text,
                  " `even` over `dcp-intra` (least) | `even` over bound |\n");
  absl::StrAppend(&text, "|---|---|");
  for (size_t i = 0; i < table.policies.size() + 1; ++i) text += "---|";
  text += "\n";
  for (const StudyRow& row : table.rows) {
    absl::StrAppend(&text, "| ", row.model, " | ", row.law, " |");
    if (!row.error.empty()) {
      absl::StrAppend(&text, " no plan: ", row.error, " |\n");
      continue;
    }
    for (const StudyRow::Cell& cell : row.cells) {
      if (cell.policy == table.baseline) continue;
      absl::StrAppend(&text, " ", Format(cell.speedup, 2), " |");
    }
    absl::StrAppend(&text, " ",
                    absl::StrFormat("%.3f (%.3f)", row.even_over_intra.mean,
                                    row.worst_even_over_intra),
                    " | ", absl::StrFormat("%.3f", row.even_over_bound.mean),
                    " |\n");
  }
  absl::StrAppend(&text,
                  "\nIdle share of the ranks, layers recomputed, mean degree "
                  "by rank-time:\n\n| model | law |");
  for (const std::string& policy : table.policies) {
    absl::StrAppend(&text, " `", policy, "` |");
  }
  absl::StrAppend(&text, "\n|---|---|");
  for (size_t i = 0; i < table.policies.size(); ++i) text += "---|";
  text += "\n";
  for (const StudyRow& row : table.rows) {
    if (!row.error.empty()) continue;
    absl::StrAppend(&text, "| ", row.model, " | ", row.law, " |");
    for (const StudyRow::Cell& cell : row.cells) {
      absl::StrAppend(&text, " ", Percent(cell.idle), ", ",
                      Percent(cell.recompute), ", ",
                      absl::StrFormat("%.1f", cell.degree.mean), " |");
    }
    text += "\n";
  }
  return text;
}

}  // namespace evenstep::plan
