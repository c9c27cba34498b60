#include "client/cli/flags.h"

#include <map>

#include "CLI/CLI.hpp"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/parse_value.h"
#include "base/text.h"
#include "jobspec/presets.h"

namespace evenstep::cli {
namespace {

std::string CheckDuration(const std::string& text) {
  absl::Duration duration;
  return std::string(ParseValue(text, &duration).message());
}

std::string CheckSeed(const std::string& text) {
  uint64_t seed = 0;
  return std::string(ParseValue(text, &seed).message());
}

std::string CheckAddress(const std::string& text) {
  const size_t colon = text.rfind(':');
  int port = 0;
  if (colon != std::string::npos && colon > 0 &&
      text.find("://") == std::string::npos &&
      absl::SimpleAtoi(text.substr(colon + 1), &port) && port > 0 &&
      port <= 65535) {
    return "";
  }
  return absl::StrCat("'", text, "' is not HOST:PORT, such as 127.0.0.1:7070");
}

std::string CheckText(const std::string& text) {
  return std::string(CheckUtf8("the text", text).message());
}

}  // namespace

void AddGlobalFlags(CLI::App* app, GlobalOptions* global) {
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
              "How long to retry while no coordinator answers (10s)");
}

void AddJobId(CLI::App* app, std::string* job_id) {
  app->add_option("job", *job_id, "Id of the job")
      ->required()
      ->check(CLI::Validator(CheckText, ""))
      ->type_name("");
}

void AddJobFile(CLI::App* app, std::string* file) {
  app->add_option("file", *file, "Job file (YAML)")->type_name("");
}

void AddPreset(CLI::App* app, std::string* preset) {
  app->add_option("--preset", *preset,
                  absl::StrCat("A job that comes with the program: ",
                               absl::StrJoin(jobspec::PresetNames(), ", ")))
      ->type_name("NAME");
}

void AddSet(CLI::App* app, std::vector<std::string>* overrides) {
  app->add_option("--set", *overrides,
                  "Change a key of the job file, for example steps=500 or "
                  "data.max_length=4096; may be repeated")
      ->type_name("KEY=VALUE")
      ->take_all()
      ->expected(1)
      ->allow_extra_args(false);
}

void AddText(CLI::App* app, const std::string& name, std::string* target,
             const std::string& type, const std::string& help) {
  app->add_option(name, *target, help)
      ->check(CLI::Validator(CheckText, ""))
      ->type_name(type);
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

void AddSeed(CLI::App* app, uint64_t* seed, const std::string& help) {
  app->add_option("--seed", *seed, help)
      ->check(CLI::Validator(CheckSeed, ""))
      ->type_name("N");
}

}  // namespace evenstep::cli
