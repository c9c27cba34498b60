#include "client/cli/commands.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "base/version.h"
#include "client/cli/follow_job.h"
#include "client/cli/job_source.h"
#include "client/submission.h"
#include "jobspec/input_check.h"
#include "jobspec/job_spec.h"

namespace evenstep::cli {
namespace {

using client::Job;
using client::JobState;

// Most jobs that one page may hold.
constexpr int kPageSize = 1000;

client::StreamOptions UntilInterrupted(Environment& environment) {
  client::StreamOptions stream;
  stream.stop = environment.interrupted;
  return stream;
}

// A stream that ended early: Ctrl-C detaches, everything else is an error.
ExitCode EndOfStream(Environment& environment, Output& output,
                     const std::string& job_id, const absl::Status& status) {
  if (!environment.interrupted.stop_requested()) return output.Fail(status);
  output.Message(
      absl::StrCat("Detached: job ", job_id,
                   " keeps running. Follow it with `evenstep logs -f ", job_id,
                   "`, stop it with `evenstep cancel ", job_id, "`."));
  return kExitInterrupted;
}

ExitCode ShowOutcome(Output& output, const Job& job) {
  if (output.structured()) output.StreamDocument(ToJson(job));
  output.Message(absl::StrCat("Job ", job.id, " ", FormatOutcome(job)));
  if (job.data) output.Message(FormatDataAndWarnings(*job.data));
  const std::string weights = FormatWeights(job);
  if (!weights.empty()) output.Message(absl::StrCat("Weights: ", weights));
  return ExitCodeOf(job);
}

ExitCode FollowToEnd(Environment& environment, const GlobalOptions& global,
                     client::Client& client, const Job& job) {
  Output output(environment, global);
  FollowOptions options;
  options.stream = UntilInterrupted(environment);
  ProgressPrinter printer(environment, global, job.num_steps);
  options.on_item = [&, told = false](const client::WatchItem& item) mutable {
    if (!std::holds_alternative<client::StepSummary>(item) ||
        std::exchange(told, true)) {
      return;
    }
    const absl::StatusOr<Job> now = client.Get(job.id);
    if (!now.ok() || !now->data || now->data->warnings.empty()) return;
    printer.Say(FormatDataAndWarnings(*now->data));
  };
  auto ended = FollowJob(client, job, options, printer);
  if (!ended.ok()) {
    return EndOfStream(environment, output, job.id, ended.status());
  }
  return ShowOutcome(output, *ended);
}

// What a cancel that finds the job running means, with the job's own time-out.
std::string StopsSoon(const Job& job) {
  std::string text =
      absl::StrCat("Job ", job.id, " stops after the step that runs now");
  const auto spec = jobspec::ParseJobFile(job.job_yaml, {});
  if (!spec.ok()) return text + ".";
  return absl::StrCat(text, "; if it has not stopped after ",
                      absl::FormatDuration(spec->timeouts.stop),
                      " (timeouts.stop), its processes are ended.");
}

absl::Status CheckRank(client::Client& client, const LogsCommand& command) {
  if (command.rank == kAllRanks) return absl::OkStatus();
  EVENSTEP_ASSIGN_OR_RETURN(const Job job, client.Get(command.job_id));
  if (command.rank >= -1 && command.rank < job.ranks) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--rank ", command.rank, ": job ", job.id, " has the ranks 0 to ",
      job.ranks - 1, ", and -1 stands for the agents"));
}

// Without an answer nobody knows whether the job is stored.
ExitCode FailSubmit(Output& output, const std::string& job_id,
                    const absl::Status& status) {
  const ExitCode code = output.Fail(status);
  if (client::NeverSent(status)) {
    output.Message("Nothing was stored.");
  } else if (code == kExitUnreachable || code == kExitInterrupted) {
    output.Warning(absl::StrCat("evenstep: job ", job_id,
                                " may have been stored; say it again with "
                                "--id ",
                                job_id));
  }
  return code;
}

// What is wrong with a file that the job names, if this machine has it.
absl::Status CheckVisibleInputs(const jobspec::JobSpec& spec) {
  absl::Status sound = jobspec::CheckInputs(
      spec,
      {jobspec::InputDepth::kHeaders, jobspec::InputPlace::kMayBeElsewhere});
  if (sound.ok()) return sound;
  return absl::InvalidArgumentError(sound.message());
}

absl::StatusOr<std::vector<JobState>> ParseStates(
    const std::vector<std::string>& names) {
  std::vector<std::string> known;
  for (int i = static_cast<int>(JobState::kQueued);
       i <= static_cast<int>(JobState::kCancelled); ++i) {
    known.emplace_back(client::JobStateName(static_cast<JobState>(i)));
  }
  std::vector<JobState> states;
  for (const std::string& name : names) {
    const auto state = client::ParseJobState(name);
    if (!state) {
      return absl::InvalidArgumentError(absl::StrCat(
          "no job state '", name, "'", KnownNamesHint(name, known)));
    }
    states.push_back(*state);
  }
  return states;
}

// 1,234,567
std::string WithCommas(int64_t number) {
  const std::string digits = absl::StrCat(number);
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text.push_back(',');
    text.push_back(digits[i]);
  }
  return text;
}

// The newest `limit` as one page.
absl::StatusOr<client::JobPage> ListUpTo(client::Client& client,
                                         client::ListOptions options,
                                         size_t limit) {
  client::JobPage all;
  do {
    options.page_size =
        static_cast<int>(std::min<size_t>(kPageSize, limit - all.jobs.size()));
    EVENSTEP_ASSIGN_OR_RETURN(client::JobPage page, client.List(options));
    for (Job& job : page.jobs) all.jobs.push_back(std::move(job));
    all.num_jobs = page.num_jobs;
    options.page_token = page.next_page_token;
  } while (!options.page_token.empty() && all.jobs.size() < limit);
  return all;
}

}  // namespace

std::unique_ptr<client::Client> ConnectFor(Environment& environment,
                                           const GlobalOptions& global) {
  client::ClientOptions options;
  options.coordinator = global.coordinator;
  options.retry_budget = global.retry_for;
  options.stop = environment.interrupted;
  options.on_retry = [&environment, global,
                      said = false](const absl::Status&) mutable {
    if (!std::exchange(said, true)) {
      Output(environment, global)
          .Message(absl::StrCat("evenstep: no answer from the coordinator at ",
                                global.coordinator, "; trying again"));
    }
  };
  return environment.connect(options);
}

ExitCode Submit(Environment& environment, const GlobalOptions& global,
                const SubmitCommand& command) {
  Output output(environment, global);
  auto options = ReadJob(command.file, command.preset);
  if (!options.ok()) return output.FailHere(options.status());
  const absl::Status has_data =
      CheckPresetData(command.preset, command.overrides);
  if (!has_data.ok()) return output.FailHere(has_data);
  options->job_id = command.job_id;
  options->overrides = command.overrides;
  if (!command.name.empty()) {
    options->overrides.push_back("name=" + command.name);
    options->override_names.resize(options->overrides.size());
    options->override_names.back() = "--name";
  }
  auto submission = client::MakeSubmission(*options);
  if (!submission.ok()) return output.FailHere(submission.status());
  options->job_id = submission->job_id;
  const absl::Status sound = CheckVisibleInputs(submission->spec);
  if (!sound.ok()) return output.FailHere(sound);
  auto client = ConnectFor(environment, global);
  auto submitted = client->Submit(*options);
  if (!submitted.ok()) {
    return FailSubmit(output, options->job_id, submitted.status());
  }
  const Job& job = submitted->job;
  if (output.structured()) {
    output.StreamDocument({{"id", job.id}, {"created", submitted->created}});
  } else {
    output.Text(job.id + "\n");
  }
  if (output.follow() == client::Follow::kStop) {
    output.Message(absl::StrCat("Job ", job.id, " is stored."));
  }
  if (!submitted->created) {
    output.Message(absl::StrCat("Job ", job.id,
                                " had been submitted before; this is the same "
                                "job."));
  }
  if (command.no_wait) return kExitOk;
  return FollowToEnd(environment, global, *client, job);
}

ExitCode List(Environment& environment, const GlobalOptions& global,
              const ListCommand& command) {
  Output output(environment, global);
  client::ListOptions options;
  auto states = ParseStates(command.states);
  if (!states.ok()) return output.Fail(states.status());
  options.states = *states;
  auto client = ConnectFor(environment, global);
  auto page = ListUpTo(*client, options, static_cast<size_t>(command.limit));
  if (!page.ok()) return output.Fail(page.status());
  const auto num_shown = static_cast<int64_t>(page->jobs.size());
  // A coordinator of an older version does not say how many there are.
  const int64_t num_jobs = std::max(page->num_jobs, num_shown);
  if (output.structured()) {
    Json list = Json::array();
    for (const Job& job : page->jobs) list.push_back(ToJson(job));
    output.Document({{"jobs", list}, {"num_jobs", num_jobs}});
    return kExitOk;
  }
  if (page->jobs.empty()) output.Message("No jobs.");
  output.Text(FormatJobList(page->jobs, output.detail(),
                            environment.clock->Wall(), output.colour()));
  if (num_shown < num_jobs) {
    output.Message(absl::StrCat(WithCommas(num_shown), " of ",
                                WithCommas(num_jobs),
                                " jobs, the newest; --limit shows more"));
  }
  return kExitOk;
}

ExitCode Describe(Environment& environment, const GlobalOptions& global,
                  const std::string& job_id) {
  Output output(environment, global);
  auto client = ConnectFor(environment, global);
  auto job = client->Get(job_id);
  if (!job.ok()) return output.Fail(job.status());
  if (output.structured()) {
    output.Document(ToJson(*job));
  } else {
    output.Text(FormatJob(*job, output.detail(), environment.clock->Wall(),
                          output.colour()));
  }
  return kExitOk;
}

ExitCode Logs(Environment& environment, const GlobalOptions& global,
              const LogsCommand& command) {
  Output output(environment, global);
  auto client = ConnectFor(environment, global);
  const absl::Status known = CheckRank(*client, command);
  if (!known.ok()) return output.Fail(known);
  client::LogOptions options;
  if (command.follow) options.mode = client::LogMode::kFollow;
  options.on_dropped = [&](int64_t dropped) {
    output.Message(absl::StrCat("evenstep: ", dropped,
                                " older lines are no longer stored"));
  };
  client::LogCursor from_start;
  const absl::Status status = client->Logs(
      command.job_id, &from_start, options, UntilInterrupted(environment),
      [&](const client::LogLine& line) {
        if (command.rank != kAllRanks && line.rank != command.rank) {
          return client::Follow::kContinue;
        }
        if (output.structured()) {
          output.StreamDocument(ToJson(line));
        } else {
          output.Text(FormatLogLine(line, output.detail()) + "\n");
        }
        return output.follow();
      });
  if (status.ok()) return kExitOk;
  return EndOfStream(environment, output, command.job_id, status);
}

ExitCode Cancel(Environment& environment, const GlobalOptions& global,
                const CancelCommand& command) {
  Output output(environment, global);
  auto client = ConnectFor(environment, global);
  auto job = client->Cancel(command.job_id, command.message);
  if (!job.ok()) return output.Fail(job.status());
  if (output.structured()) {
    output.Document(ToJson(*job));
  } else if (client::IsFinal(job->state)) {
    output.Message(absl::StrCat("Job ", job->id, " ", FormatOutcome(*job)));
  } else {
    output.Message(StopsSoon(*job));
  }
  return kExitOk;
}

ExitCode Wait(Environment& environment, const GlobalOptions& global,
              const WaitCommand& command) {
  Output output(environment, global);
  auto client = ConnectFor(environment, global);
  auto job = client->Get(command.job_id);
  if (!job.ok()) return output.Fail(job.status());
  FollowOptions options;
  options.stream = UntilInterrupted(environment);
  options.stream.deadline = absl::Now() + command.timeout;
  ProgressPrinter printer(environment, global, job->num_steps);
  auto ended = FollowJob(*client, *job, options, printer);
  if (ended.ok()) return ShowOutcome(output, *ended);
  if (absl::IsDeadlineExceeded(ended.status()) &&
      absl::Now() >= options.stream.deadline) {
    output.Message(absl::StrCat("Job ", job->id, " has not ended within ",
                                absl::FormatDuration(command.timeout)));
    return kExitTimedOut;
  }
  return EndOfStream(environment, output, job->id, ended.status());
}

ExitCode Health(Environment& environment, const GlobalOptions& global) {
  Output output(environment, global);
  auto client = ConnectFor(environment, global);
  const absl::Status status = client->Health();
  if (!status.ok()) return output.Fail(status);
  if (output.structured()) {
    output.Document(
        {{"coordinator", global.coordinator}, {"status", "SERVING"}});
  } else {
    output.Text(absl::StrCat(global.coordinator, "  SERVING\n"));
  }
  return kExitOk;
}

ExitCode PrintVersion(Environment& environment, const GlobalOptions& global,
                      const VersionCommand& command) {
  Output output(environment, global);
  Json json = {{"version", std::string(Version())},
               {"commit", std::string(GitCommit())}};
  if (command.server) {
    auto version = ConnectFor(environment, global)->ServerVersion();
    if (!version.ok()) return output.Fail(version.status());
    json["coordinator_version"] = *version;
  }
  if (output.structured()) {
    output.Document(json);
    return kExitOk;
  }
  output.Text(absl::StrCat("evenstep ", Version(), " (", GitCommit(), ")\n"));
  if (command.server) {
    output.Text(absl::StrCat(
        "coordinator ", json["coordinator_version"].get<std::string>(), "\n"));
  }
  return kExitOk;
}

}  // namespace evenstep::cli
