#include "client/cli/job_flags.h"

#include "CLI/CLI.hpp"
#include "client/cli/flags.h"

namespace evenstep::cli {

void AddSubmitFlags(CLI::App* app, SubmitCommand* command) {
  AddJobFile(app, &command->file);
  AddPreset(app, &command->preset);
  AddSet(app, &command->overrides);
  AddText(app, "--name", &command->name, "NAME", "Name of the job");
  app->add_option("--id", command->job_id,
                  "Id of the job; the same id again is the same job")
      ->type_name("ID");
  app->add_flag("--no-wait", command->no_wait,
                "Print the id and do not wait for the end");
}

void AddListFlags(CLI::App* app, ListCommand* command) {
  app->add_option("--state", command->states,
                  "Only jobs in this state; may be repeated")
      ->type_name("STATE")
      ->take_all();
  app->add_option("--limit", command->limit,
                  "Show at most this many jobs (100)")
      ->check(CLI::Range(1, 1000000).description(""));
}

void AddLogsFlags(CLI::App* app, LogsCommand* command) {
  AddJobId(app, &command->job_id);
  app->add_flag("-f,--follow", command->follow,
                "Print new lines until the job ends");
  app->add_option("--rank", command->rank, "Only this rank; -1: the agents");
}

void AddEventsFlags(CLI::App* app, EventsCommand* command) {
  AddJobId(app, &command->job_id);
  app->add_flag("-f,--follow", command->follow,
                "Print new events until the job ends");
}

void AddCancelFlags(CLI::App* app, CancelCommand* command) {
  AddJobId(app, &command->job_id);
  AddText(app, "--message", &command->message, "TEXT",
          "Reason; stored with the job's events");
}

void AddWaitFlags(CLI::App* app, WaitCommand* command) {
  AddJobId(app, &command->job_id);
  AddDuration(app, "--timeout", &command->timeout,
              "Give up after this long, for example 90s or 2h");
}

void AddVersionFlags(CLI::App* app, VersionCommand* command) {
  app->add_flag("--server", command->server,
                "Also show the coordinator's version");
}

}  // namespace evenstep::cli
