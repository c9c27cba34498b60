#include "client/cli/app.h"

#include <functional>
#include <map>
#include <memory>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "client/cli/commands.h"
#include "client/cli/data_command.h"
#include "client/cli/examples.h"
#include "client/cli/exit_code.h"
#include "client/cli/flags.h"
#include "client/cli/generate_command.h"
#include "client/cli/job_flags.h"
#include "client/cli/latents_command.h"
#include "client/cli/local/local_command.h"
#include "client/cli/plan_command.h"
#include "client/cli/profile_command.h"
#include "client/cli/usage_error.h"

namespace evenstep::cli {
namespace {

using Runner = std::function<ExitCode()>;

// The command line: one object, because CLI11 keeps addresses of what it fills.
class CommandLine {
 public:
  explicit CommandLine(Environment& environment) : environment_(environment) {
    app_.footer(absl::StrCat(kExamples, "\n\n", ExitCodeHelp()));
    app_.require_subcommand(0, 1);
    app_.fallthrough();
    app_.set_help_flag("-h,--help", "Show this help, with examples");
    app_.set_version_flag("--version", "", "Show the version");
    AddGlobalFlags(&app_, &global_);
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
    } catch (const CLI::ParseError& error) {
      return UsageError(ExplainUsage(app_, error, CommandNames()));
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
    AddSubmitFlags(
        Add(
            "submit", "Submit a job, and wait for its end",
            [this] { return Submit(environment_, global_, submit_); },
            kSubmitExamples),
        &submit_);
  }

  void AddLocal() {
    AddLocalFlags(Add(
                      "local", "Train on this machine, without any setup",
                      [this] { return Local(environment_, global_, local_); },
                      kLocalExamples),
                  &local_);
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
    AddProfileFlags(
        Add(
            "profile", "Measure the costs of a job's model on this machine",
            [this] { return Profile(environment_, global_, profile_); },
            kProfileExamples),
        &profile_);
  }

  void AddData() {
    CLI::App* command = Add(
        "data",
        "Inspect data, convert text to Megatron's files, or generate latents",
        [this] { return RunData(); }, kDataExamples);
    command->require_subcommand(1);
    CLI::App* inspect = command->add_subcommand(
        "inspect", "Show counts, lengths, and samples that a job would skip");
    AddInspectDataFlags(inspect, &inspect_);
    CLI::App* tokenize = command->add_subcommand(
        "tokenize", "Write text as tokens: PREFIX.bin and PREFIX.idx");
    AddTokenizeDataFlags(tokenize, &tokenize_);
    CLI::App* latents = command->add_subcommand(
        "make-latents", "Generate video latents: moving discs, mixed sizes");
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
    AddGenerateFlags(
        Add(
            "generate", "Generate text or a clip with a trained model",
            [this] { return Generate(environment_, global_, generate_); },
            kGenerateExamples),
        &generate_);
  }

  void AddReaders() {
    AddListFlags(Add("list", "List jobs, newest first",
                     [this] { return List(environment_, global_, list_); }),
                 &list_);
    AddJobId(Add("describe", "Show details of a job",
                 [this] { return Describe(environment_, global_, job_id_); }),
             &job_id_);
  }

  void AddStreams() {
    AddLogsFlags(Add(
                     "logs", "Show the output of a job's ranks",
                     [this] { return Logs(environment_, global_, logs_); },
                     kLogsExamples),
                 &logs_);
    AddEventsFlags(
        Add("events", "Show the events of a job",
            [this] { return Events(environment_, global_, events_); }),
        &events_);
  }

  void AddControls() {
    AddCancelFlags(
        Add("cancel", "Stop a job after its current step, and keep its weights",
            [this] { return Cancel(environment_, global_, cancel_); }),
        &cancel_);
    AddWaitFlags(
        Add(
            "wait", "Wait for a job's end; exit code 0 if it succeeded",
            [this] { return Wait(environment_, global_, wait_); },
            kWaitExamples),
        &wait_);
  }

  void AddServer() {
    Add("health", "Ask whether the coordinator is serving",
        [this] { return Health(environment_, global_); });
    AddVersionFlags(
        Add("version", "Show the version",
            [this] { return PrintVersion(environment_, global_, version_); }),
        &version_);
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
    std::string words;
    for (const CLI::App* app = &app_; !app->get_subcommands().empty();) {
      app = app->get_subcommands()[0];
      words += app->get_name() + " ";
    }
    environment_.err << "evenstep: " << message << "\nSee `evenstep " << words
                     << "--help`." << std::endl;
    return kExitUsage;
  }

  std::vector<std::string> CommandNames() const {
    std::vector<std::string> names;
    for (const auto& [name, runner] : runners_) names.push_back(name);
    return names;
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
