#include "client/cli/app.h"

#include <functional>
#include <map>
#include <memory>

#include "CLI/CLI.hpp"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/nearest_name.h"
#include "base/parse_value.h"
#include "base/utf8.h"
#include "base/version.h"
#include "client/cli/commands.h"
#include "client/cli/data_command.h"
#include "client/cli/examples.h"
#include "client/cli/generate_command.h"
#include "client/cli/latents_command.h"
#include "client/cli/local/local_command.h"
#include "client/cli/plan_command.h"
#include "client/cli/profile_command.h"
#include "jobspec/presets.h"
#include "planner/policy_names.h"

namespace evenstep::cli {
namespace {

using Runner = std::function<ExitCode()>;

std::string CheckDuration(const std::string& text) {
  absl::Duration duration;
  return std::string(ParseValue(text, &duration).message());
}

std::string CheckAddress(const std::string& text) {
  const size_t colon = text.rfind(':');
  int port = 0;
  if (colon != std::string::npos && colon > 0 &&
      absl::SimpleAtoi(text.substr(colon + 1), &port) && port > 0 &&
      port <= 65535) {
    return "";
  }
  return absl::StrCat("'", text, "' is not HOST:PORT, such as 127.0.0.1:7070");
}

std::string CheckText(const std::string& text) {
  return std::string(CheckUtf8("the text", text).message());
}

void AddDuration(CLI::App* app, const std::string& name, absl::Duration* target,
                 const std::string& help) {
  app->add_option_function<std::string>(
         name,
         [target](const std::string& text) {
           ParseValue(text, target).IgnoreError();  // checked before
         },
         help)
      ->check(CLI::Validator(CheckDuration, "DURATION"));
}

void AddJob(CLI::App* app, std::string* job_id) {
  app->add_option("job", *job_id, "Id of the job")
      ->required()
      ->check(CLI::Validator(CheckText, ""))
      ->type_name("");
}

void AddGlobal(CLI::App* app, GlobalOptions* global) {
  static const std::map<std::string, OutputFormat> kFormats = {
      {"table", OutputFormat::kTable},
      {"wide", OutputFormat::kWide},
      {"json", OutputFormat::kJson},
      {"yaml", OutputFormat::kYaml}};
  app->add_option("--coordinator", global->coordinator,
                  "Address of the coordinator")
      ->check(CLI::Validator(CheckAddress, ""))
      ->envname("EVENSTEP_COORDINATOR")
      ->type_name("HOST:PORT")
      ->capture_default_str();
  app->add_option_function<std::string>(
         "-o,--format",
         [global](const std::string& name) {
           global->format = kFormats.at(name);
         },
         "Format of stdout: table, wide, json or yaml")
      ->check(CLI::IsMember(kFormats))
      ->type_name("FORMAT");
  app->add_flag("-q,--quiet", global->quiet, "No progress and no messages");
  AddDuration(app, "--retry-for", &global->retry_for,
              "How long to try again when no coordinator answers (10s)");
}

// The command line: one object, because CLI11 keeps addresses of what it fills.
class CommandLine {
 public:
  explicit CommandLine(Environment& environment) : environment_(environment) {
    app_.footer(kExamples);
    app_.require_subcommand(0, 1);
    app_.fallthrough();
    app_.set_help_flag("-h,--help", "What can be said, with examples");
    app_.set_version_flag("--version", "", "Show the version");
    AddGlobal(&app_, &global_);
    AddSubmit();
    AddLocal();
    AddPlan();
    AddProfile();
    AddData();
    AddGenerate();
    AddReaders();
    AddStreams();
    AddControls();
    AddServer();
  }

  int Run(const std::vector<std::string>& arguments) {
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
    try {
      app_.parse(reversed);
    } catch (const CLI::CallForHelp&) {
      WriteOut(environment_, Help());
      return CheckOutput(environment_, kExitOk);
    } catch (const CLI::CallForVersion&) {
      return CheckOutput(environment_,
                         PrintVersion(environment_, global_, VersionCommand()));
    } catch (const CLI::ExtrasError&) {
      return UsageError(ExplainExtra());
    } catch (const CLI::ParseError& error) {
      return UsageError(error.what());
    }
    const auto chosen = app_.get_subcommands();
    if (chosen.empty()) {
      environment_.err << Help();
      return kExitUsage;
    }
    return CheckOutput(environment_, runners_.at(chosen[0]->get_name())());
  }

 private:
  CLI::App* Add(const std::string& name, const std::string& help, Runner runner,
                const char* footer = "") {
    CLI::App* command = app_.add_subcommand(name, help);
    command->footer(footer);
    runners_[name] = std::move(runner);
    return command;
  }

  void AddSubmit() {
    CLI::App* command = Add(
        "submit", "Submit a job, and wait for its end",
        [this] { return Submit(environment_, global_, submit_); },
        kSubmitExamples);
    command->add_option("file", submit_.file, "Job file (YAML)")->type_name("");
    AddPreset(command, &submit_.preset);
    AddSet(command, &submit_.overrides);
    command->add_option("--name", submit_.name, "Name of the job")
        ->check(CLI::Validator(CheckText, ""))
        ->type_name("NAME");
    command
        ->add_option("--id", submit_.job_id,
                     "Id of the job; the same id again is the same job")
        ->type_name("ID");
    command->add_flag("--no-wait", submit_.no_wait,
                      "Print the id and do not wait for the end");
  }

  void AddPreset(CLI::App* command, std::string* target) {
    command
        ->add_option("--preset", *target,
                     absl::StrCat("A job that comes with the program: ",
                                  absl::StrJoin(jobspec::PresetNames(), ", ")))
        ->type_name("NAME");
  }

  void AddSet(CLI::App* command, std::vector<std::string>* target) {
    command
        ->add_option("--set", *target,
                     "Change a key of the job file, for example steps=500 or "
                     "data.max_length=4096; may be repeated")
        ->type_name("KEY=VALUE")
        ->take_all()
        ->expected(1)
        ->allow_extra_args(false);
  }

  void AddLocal() {
    CLI::App* command = Add(
        "local", "Train on this machine: nothing to set up",
        [this] { return Local(environment_, global_, local_); },
        kLocalExamples);
    command->add_option("file", local_.file, "Job file (YAML)")->type_name("");
    command
        ->add_option("--data", local_.data,
                     "What to train on: text (a folder, a glob or a file), or "
                     "another source, as in a job file")
        ->type_name("KIND:PATH");
    AddPreset(command, &local_.preset);
    AddSet(command, &local_.overrides);
    command->add_option("--ranks", local_.ranks,
                        "Ranks, one process and one thread each (as many as "
                        "cores, at most 4)");
    command->add_option("--steps", local_.num_steps, "Steps to train");
    command
        ->add_option("--policy", local_.policy,
                     absl::StrCat("Planning policy: ",
                                  absl::StrJoin(planner::PolicyNames(), ", ")))
        ->type_name("NAME");
    command
        ->add_option("--costs", local_.costs,
                     "Cost file or profile to plan with, instead of measuring; "
                     "profile: the stored one of this model")
        ->type_name("FILE");
    command
        ->add_option("--output", local_.output,
                     "Folder for the results (evenstep-out/JOB)")
        ->type_name("DIR");
    command
        ->add_option("--json-summary", local_.json_summary,
                     "Write summary.json here as well")
        ->type_name("FILE");
    command->add_flag("--keep", local_.keep,
                      "Keep the private folder: store, index and sockets");
  }

  void AddPlan() {
    AddPlanFlags(
        Add(
            "plan", "Compare how policies would run a step; needs no cluster",
            [this] { return PlanStep(environment_, global_, plan_); },
            kPlanExamples),
        &plan_);
  }

  void AddProfile() {
    CLI::App* command = Add(
        "profile", "Measure what a job's model costs on this machine",
        [this] { return Profile(environment_, global_, profile_); },
        kProfileExamples);
    command->add_option("file", profile_.file, "Job file (YAML)")
        ->type_name("");
    AddPreset(command, &profile_.preset);
    AddSet(command, &profile_.overrides);
    command->add_option("--ranks", profile_.ranks,
                        "Ranks to measure with, a core each (those of the job, "
                        "at most the cores)");
    command
        ->add_option("--repeats", profile_.repeats,
                     "How often each point is timed")
        ->capture_default_str();
    command
        ->add_option("--out", profile_.out,
                     "Folder of profiles, or a file that ends in .yaml "
                     "($EVENSTEP_PROFILE_DIR, ~/.cache/evenstep/profiles)")
        ->type_name("PATH");
    command
        ->add_option("--trainer", profile_.trainer,
                     "Trainer to measure with, as the worker's --trainer; "
                     "evenstep-trainer-cuda measures on GPUs (the "
                     "evenstep-trainer beside this program)")
        ->envname("EVENSTEP_TRAINER")
        ->type_name("PATH");
  }

  void AddData() {
    CLI::App* command = Add(
        "data",
        "Look at data, turn text into Megatron's files, or make up latents",
        [this] { return RunData(); }, kDataExamples);
    command->require_subcommand(1);
    CLI::App* inspect = command->add_subcommand(
        "inspect", "Show counts, lengths and what a job would leave out");
    AddInspectDataFlags(inspect, &inspect_);
    CLI::App* tokenize = command->add_subcommand(
        "tokenize", "Write text as tokens: PREFIX.bin and PREFIX.idx");
    AddTokenizeDataFlags(tokenize, &tokenize_);
    CLI::App* latents = command->add_subcommand(
        "make-latents", "Make up video latents: moving discs, mixed sizes");
    AddMakeLatentsFlags(latents, &latents_);
    for (CLI::App* one : {inspect, tokenize, latents}) one->fallthrough();
  }

  ExitCode RunData() {
    const CLI::App* const data = app_.get_subcommand("data");
    if (data->got_subcommand("make-latents")) {
      return MakeLatents(environment_, global_, latents_);
    }
    return data->got_subcommand("inspect")
               ? InspectData(environment_, global_, inspect_)
               : TokenizeData(environment_, global_, tokenize_);
  }

  void AddGenerate() {
    CLI::App* command = Add(
        "generate", "Sample a clip from a video model that was trained",
        [this] { return Generate(environment_, global_, generate_); },
        kGenerateExamples);
    command
        ->add_option("weights", generate_.weights,
                     "model.safetensors of a video job")
        ->required()
        ->type_name("");
    command
        ->add_option("--out", generate_.out, "Animated picture (GIF) to write")
        ->capture_default_str()
        ->type_name("PATH");
    command->add_option("--frames", generate_.frames, "Frames of the clip")
        ->capture_default_str();
    command
        ->add_option("--height", generate_.height,
                     "Its height in latent pixels")
        ->capture_default_str();
    command
        ->add_option("--width", generate_.width, "Its width in latent pixels")
        ->capture_default_str();
    command
        ->add_option("--steps", generate_.steps, "Steps from noise to the clip")
        ->capture_default_str();
    command->add_option("--seed", generate_.seed, "Seed of the noise")
        ->capture_default_str();
    command->add_flag("--untrained", generate_.untrained,
                      "Take the values that the job began with, to compare");
  }

  void AddReaders() {
    CLI::App* list = Add("list", "List jobs, newest first",
                         [this] { return List(environment_, global_, list_); });
    list->add_option("--state", list_.states,
                     "Only jobs in this state; may be repeated")
        ->type_name("STATE")
        ->take_all();
    list->add_option("--limit", list_.limit, "At most this many jobs (100)")
        ->check(CLI::Range(1, 1000000).description(""));
    AddJob(Add("describe", "Show all about one job",
               [this] { return Describe(environment_, global_, job_id_); }),
           &job_id_);
  }

  void AddStreams() {
    CLI::App* logs = Add(
        "logs", "Show what the ranks of a job wrote",
        [this] { return Logs(environment_, global_, logs_); }, kLogsExamples);
    AddJob(logs, &logs_.job_id);
    logs->add_flag("-f,--follow", logs_.follow,
                   "Go on with new lines until the job has ended");
    logs->add_option("--rank", logs_.rank, "Only this rank; -1: the agents");
    CLI::App* events = Add("events", "Show what happened to a job", [this] {
      return Events(environment_, global_, events_);
    });
    AddJob(events, &events_.job_id);
    events->add_flag("-f,--follow", events_.follow,
                     "Go on with new events until the job has ended");
  }

  void AddControls() {
    CLI::App* cancel =
        Add("cancel", "Stop a job after its present step",
            [this] { return Cancel(environment_, global_, cancel_); });
    AddJob(cancel, &cancel_.job_id);
    cancel
        ->add_option("--message", cancel_.message,
                     "Why; stored with the job's events")
        ->check(CLI::Validator(CheckText, ""))
        ->type_name("TEXT");
    CLI::App* wait = Add(
        "wait", "Wait for a job's end; exit code 0 if it succeeded",
        [this] { return Wait(environment_, global_, wait_); }, kWaitExamples);
    AddJob(wait, &wait_.job_id);
    AddDuration(wait, "--timeout", &wait_.timeout,
                "Give up after this long, for example 90s or 2h");
  }

  void AddServer() {
    Add("health", "Ask whether the coordinator serves",
        [this] { return Health(environment_, global_); });
    CLI::App* version = Add("version", "Show the version", [this] {
      return PrintVersion(environment_, global_, version_);
    });
    version->add_flag("--server", version_.server,
                      "Ask the coordinator for its version, too");
  }

  std::string Help() {
    std::string help = app_.help();
    if (!app_.get_subcommands().empty()) {
      help +=
          "\nFor all commands: --coordinator, -o, --quiet, --retry-for; see "
          "`evenstep --help`.\n";
    }
    return help;
  }

  int UsageError(const std::string& message) {
    const auto chosen = app_.get_subcommands();
    environment_.err << "evenstep: " << message << "\nSee `evenstep "
                     << (chosen.empty() ? "" : chosen[0]->get_name() + " ")
                     << "--help`." << std::endl;
    return kExitUsage;
  }

  // Names of the commands, or of the options of the chosen one.
  std::vector<std::string> KnownOptions() {
    std::vector<std::string> names;
    std::vector<const CLI::App*> apps = {&app_};
    for (const CLI::App* command : app_.get_subcommands()) {
      apps.push_back(command);
      for (const CLI::App* one : command->get_subcommands())
        apps.push_back(one);
    }
    for (const CLI::App* app : apps) {
      for (const CLI::Option* option : app->get_options()) {
        for (const std::string& name : option->get_lnames()) {
          names.push_back("--" + name);
        }
      }
    }
    return names;
  }

  std::string ExplainExtra() {
    const std::vector<std::string> extra = app_.remaining(true);
    const std::string word = extra.empty() ? std::string() : extra[0];
    if (absl::StartsWith(word, "-")) {
      return Explain("option", word, KnownOptions());
    }
    if (!app_.get_subcommands().empty()) {
      return absl::StrCat("unexpected word '", word, "'");
    }
    std::vector<std::string> names;
    for (const auto& [name, runner] : runners_) names.push_back(name);
    return Explain("command", word, names);
  }

  static std::string Explain(const char* what, const std::string& word,
                             const std::vector<std::string>& known) {
    const std::string name = word.substr(0, word.find('='));
    const std::string nearest = NearestName(name, known);
    return absl::StrCat("unknown ", what, " '", name, "'",
                        nearest.empty()
                            ? std::string()
                            : absl::StrCat("; did you mean '", nearest, "'?"));
  }

  Environment& environment_;
  CLI::App app_{"Evenstep: even steps for training on data of mixed lengths.",
                "evenstep"};
  std::map<std::string, Runner> runners_;
  GlobalOptions global_;
  SubmitCommand submit_;
  ListCommand list_;
  LogsCommand logs_;
  EventsCommand events_;
  CancelCommand cancel_;
  WaitCommand wait_;
  VersionCommand version_;
  LocalCommand local_;
  PlanCommand plan_;
  ProfileCommand profile_;
  InspectDataCommand inspect_;
  TokenizeDataCommand tokenize_;
  MakeLatentsCommand latents_;
  GenerateCommand generate_;
  std::string job_id_;
};

}  // namespace

int RunCli(const std::vector<std::string>& arguments,
           Environment& environment) {
  return CommandLine(environment).Run(arguments);
}

}  // namespace evenstep::cli
