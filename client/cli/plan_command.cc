#include "client/cli/plan_command.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/atomic_file.h"
#include "base/log.h"
#include "base/output_marker.h"
#include "base/status_macros.h"
#include "client/cli/output_file.h"
#include "client/cli/show/index_progress.h"
#include "client/cli/show/table.h"
#include "client/plan/plan_json.h"
#include "client/plan/plan_report.h"
#include "client/plan/plan_table.h"
#include "client/plan/policy_runs.h"

namespace evenstep::cli {
namespace {

using plan::Comparison;
using plan::PolicyRun;

absl::StatusOr<planner::Hardware> HardwareOf(
    const PlanCommand& command, const planner::PlanRequest& request) {
  const int num_ranks = request.cluster.num_ranks();
  planner::Hardware hardware = command.hardware;
  hardware.seed = command.lengths.seed;
  if (!command.slow_ranks.empty()) hardware.rank_slowdown.assign(num_ranks, 1);
  for (const auto& [rank, factor] : command.slow_ranks) {
    if (rank < 0 || rank >= num_ranks) {
      return absl::InvalidArgumentError(
          absl::StrCat("--simulate-slow names rank ", rank,
                       "; the ranks are 0 to ", num_ranks - 1));
    }
    hardware.rank_slowdown[rank] = factor;
  }
  if (!command.true_costs.empty()) {
    EVENSTEP_ASSIGN_OR_RETURN(const planner::PublishedCosts costs,
                              plan::LoadCosts(command.true_costs));
    if (costs.model.is_video() != request.model.is_video()) {
      auto kind = [](const planner::ModelShape& model) {
        return model.is_video() ? "video" : "text";
      };
      return absl::InvalidArgumentError(absl::StrCat(
          "--simulate-costs ", costs.name, " are of a ", kind(costs.model),
          " model; the step is planned for a ", kind(request.model), " model"));
    }
    hardware.true_time = costs.time;
  }
  if (command.cost_error != 0) {
    EVENSTEP_ASSIGN_OR_RETURN(
        hardware.true_time,
        planner::MisjudgedCosts(hardware.true_time.value_or(request.time),
                                command.cost_error, hardware.seed));
  }
  return hardware;
}

bool WantsSimulation(const PlanCommand& command) {
  return command.simulate || !command.slow_ranks.empty() ||
         !command.true_costs.empty();
}

// The planner speaks of the fields of its request; here people typed flags.
std::string InFlags(absl::string_view message) {
  return absl::StrReplaceAll(
      message, {{"hardware: layer_noise", "--simulate-noise"},
                {"hardware: rank_noise", "--simulate-rank-noise"},
                {"hardware: across_nodes.slowdown", "--simulate-slow-network"},
                {"hardware: rank_slowdown", "--simulate-slow"},
                {"hardware: cost error", "--simulate-cost-error"},
                {"memory.tokens_per_rank", "--tokens-per-gpu"},
                {"model.forced_degrees", "--degrees"},
                {"options.max_groups_per_rank", "--max-groups-per-rank"},
                {"options.recompute_layers", "--recompute-layers"},
                {"options.work_budget", "--work-budget"},
                {"run.max_length", "--max-length"},
                {"the run's max_length", "--max-length"},
                {"speed of rank", "--rank-speed of rank"}});
}

absl::Status InFlags(const absl::Status& status) {
  return status.ok() ? status
                     : absl::Status(status.code(), InFlags(status.message()));
}

struct Planned {
  Comparison comparison;
  plan::RequestNames names;
  std::vector<std::string> notes;  // some may be empty
};

absl::StatusOr<Planned> PlanAll(Environment& environment,
                                const GlobalOptions& global,
                                const PlanCommand& command) {
  plan::RunOptions options;
  EVENSTEP_ASSIGN_OR_RETURN(options.policies,
                            plan::PoliciesNamed(command.policy, command.batch));
  options.num_threads = command.num_threads;
  options.batch = command.batch;
  options.seed = command.lengths.seed;
  plan::LengthSource source = command.lengths;
  source.max_length = command.setup.max_length;
  source.input = environment.in;
  IndexProgressView progress(environment, global.quiet);
  source.progress = progress.Callback();
  const bool ends_at_once = environment.ends_at_once;
  absl::StatusOr<plan::StepLengths> read = plan::ReadStepLengths(source);
  progress.Finish();
  environment.ends_at_once = ends_at_once;
  EVENSTEP_ASSIGN_OR_RETURN(const plan::StepLengths lengths, std::move(read));
  EVENSTEP_ASSIGN_OR_RETURN(const planner::PublishedCosts costs,
                            plan::LoadCostsFor(command.setup, lengths));
  EVENSTEP_ASSIGN_OR_RETURN(
      const planner::PlanRequest request,
      plan::BuildRequest(command.setup, costs, lengths.samples));
  if (WantsSimulation(command)) {
    EVENSTEP_ASSIGN_OR_RETURN(options.simulate, HardwareOf(command, request));
  }
  Planned planned;
  planned.names = {lengths.origin, costs.name, costs.source,
                   SettingsGiven(*command.app)};
  planned.notes = {lengths.note, plan::NoteOn(request)};
  EVENSTEP_ASSIGN_OR_RETURN(planned.comparison,
                            plan::ComparePolicies(request, options));
  for (PolicyRun& run : planned.comparison.runs) {
    run.status = InFlags(run.status);
  }
  return planned;
}

std::string Format(const plan::TextRows& text, ColourMode mode) {
  std::vector<Row> rows;
  for (const auto& line : text) rows.emplace_back(line.begin(), line.end());
  for (Cell& cell : rows[0]) cell.colour = Colour::kBold;
  return FormatTable(rows, mode);
}

void ShowTables(Output& output, const Planned& planned, bool show_plan) {
  const Comparison& comparison = planned.comparison;
  output.Text(absl::StrCat(planned.names.lengths, ": ",
                           plan::DescribeRequest(comparison.request), "; ",
                           planned.names.costs, "\n"));
  const std::string settings = plan::DescribeSettings(planned.names);
  if (!settings.empty()) output.Text(settings + "\n");
  const std::string bound = plan::DescribeBound(comparison);
  if (!bound.empty()) output.Text(bound + "\n\n");
  if (comparison.AnyPlan()) {
    output.Text(Format(plan::ComparisonTable(comparison), output.colour()));
  }
  for (const std::string& line : plan::Failures(comparison)) {
    output.Text(line + "\n");
  }
  if (!show_plan) return;
  for (const PolicyRun& run : comparison.runs) {
    if (!run.status.ok()) continue;
    output.Text(absl::StrCat("\n", planner::PolicyName(run.policy), "\n"));
    output.Text(Format(plan::PlanRows(comparison.RequestOf(run), run.plan),
                       output.colour()));
  }
}

}  // namespace

ExitCode PlanStep(Environment& environment, const GlobalOptions& global,
                  const PlanCommand& command) {
  Output output(environment, global);
  // What the library would log of its data is said in the answer's own words.
  SetLogLevel(LogLevel::kError);
  const absl::Status report = CheckOutputFile("--report", command.report);
  if (!report.ok()) return output.FailHere(report);
  auto planned = PlanAll(environment, global, command);
  if (!planned.ok()) return output.FailHere(InFlags(planned.status()));
  for (const std::string& note : planned->notes) {
    if (!note.empty()) output.Message(note);
  }
  const Comparison& comparison = planned->comparison;
  if (output.structured()) {
    output.Document(plan::ToJson(comparison, planned->names));
  } else {
    ShowTables(output, *planned, command.show_plan);
  }
  if (!command.report.empty()) {
    const absl::Status written = WriteFileAtomically(
        command.report, plan::ReportHtml(comparison, planned->names));
    if (!written.ok()) {
      output.FailHere(written);
      return kExitOtherError;  // 5 says that there is no plan
    }
    MarkOutput(command.report).IgnoreError();
    output.Message(absl::StrCat("Report: ", command.report));
  }
  if (comparison.AnyPlan()) return kExitOk;
  return comparison.runs.empty() ? kExitOtherError
                                 : LocalExitCodeOf(comparison.runs[0].status);
}

}  // namespace evenstep::cli
