#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/parse_value.h"
#include "client/cli/flags.h"
#include "client/cli/plan_command.h"
#include "data/latents/latents_dataset.h"

namespace evenstep::cli {
namespace {

using plan::PlanSetup;

// Reads "R=NUMBER" into a map; CLI11 shows the message of the exception.
void ReadRankNumbers(const std::string& flag,
                     const std::vector<std::string>& texts,
                     std::map<int, double>* numbers) {
  for (const std::string& text : texts) {
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(text, absl::MaxSplits('=', 1));
    int rank = 0;
    double number = 0;
    if (!ParseValue(parts.first, &rank).ok() ||
        !ParseValue(parts.second, &number).ok()) {
      throw CLI::ValidationError(flag, "'" + text + "' is not RANK=NUMBER");
    }
    if (!numbers->emplace(rank, number).second) {
      throw CLI::ValidationError(flag,
                                 "rank " + parts.first + " is named twice");
    }
  }
}

// Reads "N,N"; an empty place is not a number.
void ReadNumbers(const std::string& flag, const std::vector<std::string>& texts,
                 std::vector<int>* numbers) {
  for (const std::string& text : texts) {
    for (const absl::string_view part : absl::StrSplit(text, ',')) {
      int number = 0;
      if (!ParseValue(part, &number).ok()) {
        throw CLI::ValidationError(
            flag, "'" + text + "' is not whole numbers with commas between");
      }
      numbers->push_back(number);
    }
  }
}

void AddNumbers(CLI::App* app, const std::string& name,
                std::vector<int>* target, const std::string& help) {
  app->add_option_function<std::vector<std::string>>(
         name,
         [name, target](const std::vector<std::string>& texts) {
           ReadNumbers(name, texts, target);
         },
         help)
      ->type_name("N,...")
      ->take_all()
      ->expected(1)
      ->allow_extra_args(false);
}

void AddRankNumbers(CLI::App* app, const std::string& name,
                    std::map<int, double>* target, const std::string& help) {
  app->add_option_function<std::vector<std::string>>(
         name,
         [name, target](const std::vector<std::string>& texts) {
           ReadRankNumbers(name, texts, target);
         },
         help)
      ->type_name("RANK=NUMBER")
      ->take_all()
      ->expected(1)
      ->allow_extra_args(false);
}

template <typename T>
void AddChoice(CLI::App* app, const std::string& name, T* target,
               const std::map<std::string, T>& values,
               const std::string& help) {
  app->add_option_function<std::string>(
         name,
         [target, values](const std::string& text) {
           *target = values.at(text);
         },
         help)
      ->check(CLI::IsMember(values))
      ->type_name("NAME");
}

// 0 stands for "not said" in the structs, so nobody may say it.
CLI::Validator AtLeastOne(const std::string& what) {
  auto check = [what](std::string& text) -> std::string {
    int64_t number = 0;
    const absl::Status parsed = ParseValue(text, &number);
    if (!parsed.ok()) return std::string(parsed.message());
    if (number >= 1) return "";
    return text + " " + what + "; at least 1";
  };
  return CLI::Validator(check, "");
}

void AddLengthFlags(CLI::App* app, PlanCommand* command) {
  app->add_option("--lengths", command->lengths.lengths,
                  "Sample lengths of the step: a file (one per line), - for "
                  "stdin, or a distribution: short, balanced, long, wikipedia, "
                  "lognormal(mean,sigma,min,max)")
      ->type_name("FILE|LAW");
  app->add_option("--data", command->lengths.data,
                  "Or a data set, as in a job file; plans its first step")
      ->type_name("SPEC");
  app->add_option(
         "--patch", command->lengths.patch,
         "For latents: data: height and width of a token in latent pixels (1)")
      ->check(CLI::Range(1, data::kMaxPatch).description(""))
      ->type_name("N");
  app->add_option("--samples", command->lengths.num_samples,
                  "Number of samples in the step (all of a file, else 512)")
      ->check(AtLeastOne("samples"))
      ->type_name("N");
  AddSeed(app, &command->lengths.seed,
          "Seed of random lengths and of the simulation (1)");
}

void AddClusterFlags(CLI::App* app, PlanSetup* setup) {
  app->add_option("--gpus", setup->num_gpus, "Total number of GPUs (one node)")
      ->check(AtLeastOne("GPUs"))
      ->type_name("N");
  AddNumbers(app, "--gpus-per-node", &setup->gpus_per_node,
             "One number, or one per node, such as 7,8 (8)");
  AddRankNumbers(app, "--rank-speed", &setup->rank_speed,
                 "Relative speed of a rank, known to the planner, such as "
                 "5=0.8; may be repeated");
}

void AddModelFlags(CLI::App* app, PlanSetup* setup) {
  app->add_option("--costs", setup->costs,
                  "A built-in cost model or a cost file (" +
                      std::string(plan::kDefaultCosts) + "; for clips " +
                      plan::kDefaultVideoCosts + ")")
      ->type_name("NAME|FILE");
  app->add_option("--tokens-per-gpu", setup->tokens_per_gpu,
                  "Tokens that fit on a GPU without recompute, instead of the "
                  "value in the costs; recompute makes room for more")
      ->check(AtLeastOne("tokens per GPU"))
      ->type_name("N");
  app->add_option("--micro-batch-fixed-ms", setup->micro_batch_fixed_ms,
                  "Fixed time of a micro-batch (of a round, with per_round), "
                  "instead of the value in the costs")
      ->check(CLI::NonNegativeNumber.description(""))
      ->type_name("MS");
  AddNumbers(app, "--degrees", &setup->degrees,
             "Allowed degrees besides 1, regardless of the model's heads");
  app->add_option("--max-length", setup->max_length,
                  "Longest length in the run (in the step); longer documents "
                  "of --data are skipped")
      ->check(AtLeastOne("tokens"))
      ->type_name("N");
}

void AddChoiceFlags(CLI::App* app, PlanCommand* command) {
  PlanSetup* setup = &command->setup;
  app->add_option("--policy", command->policy, "One policy, or all (all)")
      ->type_name("NAME");
  AddChoice<plan::BatchKind>(
      app, "--batch", &command->batch,
      {{"fixed", plan::BatchKind::kFixed},
       {"elastic", plan::BatchKind::kElastic}},
      "fixed: the step is all samples; elastic: they are a pool, of which "
      "bucket, packed and dcp-* draw a step (fixed)");
  AddChoice<planner::SyncMode>(
      app, "--sync", &setup->sync,
      {{"per_step", planner::SyncMode::kPerStep},
       {"per_round", planner::SyncMode::kPerRound}},
      "per_step: one reduction a step; per_round: all ranks wait after every "
      "micro-batch, as FSDP does (per_step)");
  AddChoice<planner::BlockShape>(
      app, "--blocks", &setup->blocks,
      {{"aligned", planner::BlockShape::kAligned},
       {"contiguous", planner::BlockShape::kContiguous}},
      "aligned: powers of two; contiguous: any degree, anywhere (aligned)");
  AddChoice<plan::RecomputeChoice>(
      app, "--recompute", &setup->recompute,
      {{"fixed", plan::RecomputeChoice::kFixed},
       {"plan", plan::RecomputeChoice::kPlan}},
      "fixed: --recompute-layers everywhere; plan: chosen (plan)");
  app->add_option_function<int>(
         "--recompute-layers",
         [setup](const int& layers) { setup->recompute_layers = layers; },
         "With --recompute fixed: layers recomputed, of each kind (0)")
      ->type_name("N");
  app->add_option(
         "--max-groups-per-rank", setup->max_groups_per_rank,
         "Most groups of two or more ranks that one rank may join (no limit)")
      ->check(AtLeastOne("groups"))
      ->type_name("N");
  app->add_option("--work-budget", setup->work_budget,
                  "Number of trials of the planner's search (its default)")
      ->check(AtLeastOne("trials"))
      ->type_name("N");
}

// Numbers of the simulation; giving one asks for it, 0 too.
void AddSimulated(CLI::App* app, PlanCommand* command, const std::string& name,
                  double* target, const std::string& type,
                  const std::string& help) {
  app->add_option(name, *target, help + "; implies --simulate")
      ->each([command](const std::string&) { command->simulate = true; })
      ->type_name(type);
}

void AddSimulationFlags(CLI::App* app, PlanCommand* command) {
  planner::Hardware* hardware = &command->hardware;
  app->add_flag("--simulate", command->simulate,
                "Also run every plan in the simulator");
  AddSimulated(app, command, "--simulate-noise", &hardware->layer_noise,
               "SIGMA", "Random noise per rank and layer: 0.02 is 2 %");
  AddSimulated(app, command, "--simulate-rank-noise", &hardware->rank_noise,
               "SIGMA", "Random noise per rank over the whole step");
  AddRankNumbers(app, "--simulate-slow", &command->slow_ranks,
                 "A slowdown that the planner does not know, such as 5=1.25; "
                 "may be repeated; implies --simulate");
  AddSimulated(app, command, "--simulate-cost-error", &command->cost_error,
               "SHARE",
               "Real costs differ from the planned ones by up to this share");
  app->add_option("--simulate-costs", command->true_costs,
                  "Costs of the simulated machine, if they differ from "
                  "--costs; implies --simulate")
      ->type_name("NAME|FILE");
  AddSimulated(app, command, "--simulate-slow-network",
               &hardware->across_nodes.slowdown, "FACTOR",
               "Real time of collectives across nodes, as a multiple of "
               "the planned one");
}

// What the first line of the answer does not say by itself.
constexpr absl::string_view kShownElsewhere[] = {
    "lengths", "data", "samples", "gpus",   "gpus-per-node",
    "costs",   "sync", "blocks",  "policy", "show-plan",
    "report",  "help", "threads", "seed"};

}  // namespace

std::vector<std::pair<std::string, std::string>> SettingsGiven(
    const CLI::App& app) {
  std::vector<std::pair<std::string, std::string>> settings;
  for (const CLI::Option* option : app.get_options()) {
    if (option->count() == 0 || option->get_lnames().empty()) continue;
    const std::string name = option->get_lnames()[0];
    const auto* found =
        std::find(std::begin(kShownElsewhere), std::end(kShownElsewhere),
                  absl::string_view(name));
    if (found != std::end(kShownElsewhere)) continue;
    const bool is_flag = option->get_items_expected_max() == 0;
    settings.push_back(
        {name, is_flag ? "" : absl::StrJoin(option->results(), ",")});
  }
  return settings;
}

void AddPlanFlags(CLI::App* app, PlanCommand* command) {
  command->app = app;
  AddLengthFlags(app, command);
  AddClusterFlags(app, &command->setup);
  AddModelFlags(app, &command->setup);
  AddChoiceFlags(app, command);
  AddSimulationFlags(app, command);
  app->add_flag("--show-plan", command->show_plan,
                "Also list every micro-batch");
  app->add_option("--report", command->report,
                  "Write an HTML report with charts to this file")
      ->type_name("FILE");
  app->add_option("--threads", command->num_threads,
                  "Number of policies planned in parallel; plans do not depend "
                  "on it (1)")
      ->type_name("N");
}

}  // namespace evenstep::cli
