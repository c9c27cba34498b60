#include "client/cli/plan_command.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/status_macros.h"
#include "client/cli/table.h"
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
  const planner::Hardware& hardware = command.hardware;
  return command.simulate || hardware.layer_noise != 0 ||
         hardware.rank_noise != 0 || command.cost_error != 0 ||
         hardware.across_nodes.slowdown != 1 || !command.slow_ranks.empty() ||
         !command.true_costs.empty();
}

struct Planned {
  Comparison comparison;
  plan::RequestNames names;
  std::string note;
};

absl::StatusOr<Planned> PlanAll(Environment& environment,
                                const PlanCommand& command) {
  plan::RunOptions options;
  EVENSTEP_ASSIGN_OR_RETURN(options.policies,
                            plan::PoliciesNamed(command.policy));
  options.num_threads = command.num_threads;
  EVENSTEP_ASSIGN_OR_RETURN(const planner::PublishedCosts costs,
                            plan::LoadCosts(command.setup.costs));
  plan::LengthSource source = command.lengths;
  source.max_length = command.setup.max_length;
  source.input = environment.in;
  EVENSTEP_ASSIGN_OR_RETURN(const plan::StepLengths lengths,
                            plan::ReadStepLengths(source));
  EVENSTEP_ASSIGN_OR_RETURN(
      const planner::PlanRequest request,
      plan::BuildRequest(command.setup, costs, lengths.samples));
  if (WantsSimulation(command)) {
    EVENSTEP_ASSIGN_OR_RETURN(options.simulate, HardwareOf(command, request));
  }
  Planned planned;
  planned.names = {lengths.origin, costs.name, costs.source};
  planned.note = lengths.note;
  EVENSTEP_ASSIGN_OR_RETURN(planned.comparison,
                            plan::ComparePolicies(request, options));
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
    output.Text(
        Format(plan::PlanRows(comparison.request, run.plan), output.colour()));
  }
}

}  // namespace

ExitCode PlanStep(Environment& environment, const GlobalOptions& global,
                  const PlanCommand& command) {
  Output output(environment, global);
  auto planned = PlanAll(environment, command);
  if (!planned.ok()) return output.Fail(planned.status());
  if (!planned->note.empty()) output.Message(planned->note);
  const Comparison& comparison = planned->comparison;
  if (output.structured()) {
    output.Document(plan::ToJson(comparison, planned->names));
  } else {
    ShowTables(output, *planned, command.show_plan);
  }
  if (!command.report.empty()) {
    const absl::Status written = WriteFileAtomically(
        command.report, plan::ReportHtml(comparison, planned->names));
    if (!written.ok()) return output.Fail(written);
    output.Message(absl::StrCat("Report: ", command.report));
  }
  if (comparison.AnyPlan()) return kExitOk;
  return comparison.runs.empty() ? kExitOtherError
                                 : ExitCodeOf(comparison.runs[0].status);
}

}  // namespace evenstep::cli
