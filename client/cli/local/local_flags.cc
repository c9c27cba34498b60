#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/flags.h"
#include "client/cli/local/local_command.h"
#include "client/cli/rank_limit.h"
#include "planner/planner.h"

namespace evenstep::cli {

void AddLocalFlags(CLI::App* app, LocalCommand* command) {
  AddJobFile(app, &command->file);
  app->add_option("--data", command->data,
                  "Training data: text (a folder, a glob or a file), or "
                  "another source, as in a job file")
      ->type_name("KIND:PATH");
  AddPreset(app, &command->preset);
  AddSet(app, &command->overrides);
  app->add_option("--ranks", command->ranks,
                  "Number of ranks, one process and one thread each (the "
                  "number of cores, at most 4)");
  app->add_flag(
      "--oversubscribe", command->oversubscribe,
      absl::StrCat("Allow more than ", kMostRanksPerCore, " ranks per core"));
  app->add_option("--steps", command->num_steps, "Steps to train");
  app->add_option("--policy", command->policy,
                  absl::StrCat("Planning policy: ",
                               absl::StrJoin(planner::PolicyNames(), ", ")))
      ->type_name("NAME");
  app->add_option("--costs", command->costs,
                  "Cost file or profile to plan with, instead of measuring; "
                  "profile: the stored one of this model")
      ->type_name("FILE");
  app->add_option("--trainer", command->trainer,
                  "Trainer binary, such as one with your own model "
                  "(the evenstep-trainer beside this program)")
      ->envname("EVENSTEP_TRAINER")
      ->type_name("PATH");
  app->add_option("--output", command->output,
                  "Folder for the results (evenstep-out/JOB)")
      ->type_name("DIR");
  app->add_option("--json-summary", command->json_summary,
                  "Write summary.json here as well")
      ->type_name("FILE");
  app->add_flag("--keep", command->keep,
                "Keep the private folder: store, index and sockets");
}

}  // namespace evenstep::cli
