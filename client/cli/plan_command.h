#ifndef EVENSTEP_CLIENT_CLI_PLAN_COMMAND_H_
#define EVENSTEP_CLIENT_CLI_PLAN_COMMAND_H_

// `evenstep plan`: how a step would run, by every policy, without a cluster.
// The flags, and what is done with them; the work itself is in client/plan.
// Runs on the main thread, and on as many more as asked for.

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "client/cli/environment.h"
#include "client/cli/exit_code.h"
#include "client/cli/show/output.h"
#include "client/plan/length_source.h"
#include "client/plan/plan_setup.h"
#include "client/plan/policy_runs.h"
#include "planner/simulator.h"

namespace CLI {
class App;
}

namespace evenstep::cli {

struct PlanCommand {
  plan::LengthSource lengths;
  plan::PlanSetup setup;
  std::string policy = "all";
  plan::BatchKind batch = plan::BatchKind::kFixed;
  int num_threads = 1;
  bool show_plan = false;
  std::string report;  // file

  // The simulation; it runs if any of these is set.
  planner::Hardware hardware;
  std::map<int, double> slow_ranks;
  double cost_error = 0;
  std::string true_costs;
  bool simulate = false;

  const CLI::App* app = nullptr;  // that parsed it; outlives the command
};

void AddPlanFlags(CLI::App* app, PlanCommand* command);
// Flags that were given, and what was typed, but for those that the answer
// shows in its first line.
std::vector<std::pair<std::string, std::string>> SettingsGiven(
    const CLI::App& app);

ExitCode PlanStep(Environment& environment, const GlobalOptions& global,
                  const PlanCommand& command);

}  // namespace evenstep::cli

#endif  // EVENSTEP_CLIENT_CLI_PLAN_COMMAND_H_
