#include "client/cli/usage_error.h"

#include <filesystem>
#include <system_error>

#include "CLI/CLI.hpp"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/text.h"

namespace evenstep::cli {
namespace {

std::string Unknown(const char* what, const std::string& word,
                    const std::vector<std::string>& known) {
  const std::string name = word.substr(0, word.find('='));
  const std::string nearest = NearestName(name, known);
  return absl::StrCat(
      "unknown ", what, " '", name, "'",
      nearest.empty() ? "" : absl::StrCat("; did you mean '", nearest, "'?"));
}

// The app, the command that was chosen, and its own command.
std::vector<const CLI::App*> Chosen(const CLI::App& app) {
  std::vector<const CLI::App*> chosen = {&app};
  for (size_t i = 0; i < chosen.size(); ++i) {
    for (const CLI::App* command : chosen[i]->get_subcommands()) {
      chosen.push_back(command);
    }
  }
  return chosen;
}

std::vector<std::string> OptionNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : Chosen(app)) {
    for (const CLI::Option* option : command->get_options()) {
      for (const std::string& name : option->get_lnames()) {
        names.push_back("--" + name);
      }
    }
  }
  return names;
}

std::string ExplainExtra(const CLI::App& app,
                         const std::vector<std::string>& commands) {
  const std::vector<std::string> extra = app.remaining(true);
  const std::string word = extra.empty() ? std::string() : extra[0];
  if (absl::StartsWith(word, "-")) {
    return Unknown("option", word, OptionNames(app));
  }
  if (!app.get_subcommands().empty()) {
    // A shell has put the names of files in the place of a pattern.
    std::error_code error;
    const bool is_file = std::filesystem::exists(word, error);
    return absl::StrCat(
        "unexpected word '", word, "'",
        is_file ? "; a pattern of files is quoted: 'notes/*.txt'" : "");
  }
  return Unknown("command", word, commands);
}

// "A subcommand is required", or "weights is required".
std::string ExplainMissing(const CLI::App& app, absl::string_view message) {
  if (!absl::ConsumeSuffix(&message, " is required")) {
    return std::string(message);
  }
  if (message != "A subcommand") {
    const bool is_flag = absl::StartsWith(message, "-");
    return is_flag ? absl::StrCat(message, " is missing")
                   : absl::StrCat("the argument '", message, "' is missing");
  }
  std::vector<std::string> names;
  const auto all = [](const CLI::App*) { return true; };
  for (const CLI::App* command : Chosen(app).back()->get_subcommands(all)) {
    names.push_back(command->get_name());
  }
  return absl::StrCat("say what to do: ", absl::StrJoin(names, ", "));
}

// "Could not convert: --gpus = many": only numbers are converted.
std::string ExplainConversion(absl::string_view message) {
  if (!absl::ConsumePrefix(&message, "Could not convert: ")) {
    return std::string(message);
  }
  const size_t equals = message.find(" = ");
  if (equals == absl::string_view::npos) return std::string(message);
  return absl::StrCat(message.substr(0, equals), ": '",
                      message.substr(equals + 3),
                      "' is not a number that fits here");
}

// "--gpus: 1 required N missing", or "--gpus: At Most 1 required but ...".
std::string ExplainCount(absl::string_view message) {
  const size_t colon = message.find(": ");
  if (colon == absl::string_view::npos) return std::string(message);
  const absl::string_view name = message.substr(0, colon);
  if (absl::EndsWith(message, " missing")) {
    return absl::StrCat(name, ": its value is missing");
  }
  if (absl::StartsWith(message.substr(colon), ": At Most 1 ")) {
    return absl::StrCat(name, " is said more than once");
  }
  return std::string(message);
}

}  // namespace

std::string ExplainUsage(const CLI::App& app, const CLI::ParseError& error,
                         const std::vector<std::string>& commands) {
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    return ExplainExtra(app, commands);
  }
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
    return ExplainMissing(app, error.what());
  }
  if (dynamic_cast<const CLI::ConversionError*>(&error) != nullptr) {
    return ExplainConversion(error.what());
  }
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    return ExplainCount(error.what());
  }
  return error.what();
}

}  // namespace evenstep::cli
