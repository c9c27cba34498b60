#include "base/config_table.h"

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <iostream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/atomic_file.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "base/version.h"
#include "base/yaml.h"

namespace evenstep {
namespace {

constexpr char kConfigVariable[] = "EVENSTEP_CONFIG";
constexpr int64_t kMaxConfigBytes = 1 << 20;

std::string YamlKey(absl::string_view name) {
  return absl::StrReplaceAll(name, {{"-", "_"}});
}

// What stands on the command line besides the table's own entries.
struct BuiltIns {
  std::string config_path;
  bool check_config = false;
  bool version = false;
};

absl::Status Prefixed(absl::string_view where, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::InvalidArgumentError(
      absl::StrCat(where, ": ", absl::string_view(status.message())));
}

std::string HelpText(absl::string_view help, absl::string_view type,
                     absl::string_view default_text,
                     absl::string_view environment) {
  std::string text = absl::StrCat(help, " [", type);
  if (!default_text.empty()) {
    absl::StrAppend(&text, ", default ", default_text);
  }
  if (!environment.empty()) absl::StrAppend(&text, ", ", environment);
  return text + "]";
}

// The first flag among what was not understood, or the first word.
absl::Status UnknownArgument(absl::string_view program,
                             const std::vector<std::string>& remaining,
                             std::vector<std::string> names) {
  std::string word = remaining.empty() ? std::string() : remaining.back();
  for (const std::string& one : remaining) {
    if (absl::StartsWith(one, "-")) word = one;
  }
  word = word.substr(0, word.find('='));
  for (std::string& name : names) name = absl::StrCat("--", name);
  const std::string nearest = NearestName(word, names);
  return absl::InvalidArgumentError(absl::StrCat(
      absl::StartsWith(word, "-") ? "unknown flag " : "unexpected word ", word,
      nearest.empty() ? "" : absl::StrCat("; did you mean ", nearest, "?"),
      " (", program, " --help lists all flags)"));
}

}  // namespace

ConfigTable::ConfigTable(absl::string_view program,
                         absl::string_view description)
    : program_(program), description_(description) {}

void ConfigTable::Add(absl::string_view name, absl::string_view environment,
                      LogLevel* target, absl::string_view help) {
  AddEntry(
      {std::string(name), std::string(environment), std::string(help), "level",
       false,
       [target](absl::string_view text) { return ParseLogLevel(text, target); },
       [target] { return std::string(LogLevelName(*target)); }});
}

void ConfigTable::Add(absl::string_view name, absl::string_view environment,
                      LogFormat* target, absl::string_view help) {
  AddEntry({std::string(name), std::string(environment), std::string(help),
            "format", false,
            [target](absl::string_view text) {
              return ParseLogFormat(text, target);
            },
            [target]() -> std::string {
              return *target == LogFormat::kJson ? "json" : "text";
            }});
}

void ConfigTable::AddEntry(Entry entry) {
  entry.default_text = entry.format();
  entries_.push_back(std::make_unique<Entry>(std::move(entry)));
}

void ConfigTable::AddCheck(std::function<absl::Status()> check) {
  checks_.push_back(std::move(check));
}

ConfigTable::ParseResult ConfigTable::Parse(int argc, const char* const* argv) {
  BuiltIns built_ins;
  CLI::App app(description_, program_);
  app.add_option(
      "--config", built_ins.config_path,
      absl::StrCat("YAML file of settings [text, ", kConfigVariable, "]"));
  app.add_flag("--check-config", built_ins.check_config,
               "check the settings, print them, and exit");
  app.add_flag("--version", built_ins.version, "print the version and exit");
  std::vector<CLI::Option*> options;
  for (const auto& entry : entries_) {
    const std::string help = HelpText(entry->help, entry->type,
                                      entry->default_text, entry->environment);
    options.push_back(
        entry->is_switch
            ? app.add_flag(
                  absl::StrCat("--", entry->name, ",!--no-", entry->name),
                  entry->flag_text, help)
            : app.add_option("--" + entry->name, entry->flag_text, help));
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return {Action::kExit, absl::OkStatus(), app.help()};
  } catch (const CLI::ExtrasError&) {
    std::vector<std::string> names = {"config", "check-config", "version"};
    for (const auto& entry : entries_) names.push_back(entry->name);
    return {Action::kExit,
            UnknownArgument(program_, app.remaining(), std::move(names)), ""};
  } catch (const CLI::Error& error) {
    return {Action::kExit,
            absl::InvalidArgumentError(absl::StrCat(
                error.what(), " (", program_, " --help lists all flags)")),
            ""};
  }
  if (built_ins.version) {
    return {Action::kExit, absl::OkStatus(),
            absl::StrCat(program_, " ", Version(), " (", GitCommit(), ")\n")};
  }
  config_path_ = built_ins.config_path;
  std::vector<bool> has_flag;
  has_flag.reserve(options.size());
  for (const CLI::Option* option : options) {
    has_flag.push_back(option->count() > 0);
  }
  if (absl::Status status = ApplyAll(has_flag); !status.ok()) {
    return {Action::kExit, std::move(status), ""};
  }
  if (built_ins.check_config) {
    return {Action::kExit, absl::OkStatus(),
            absl::StrCat(FormatEffective(), "configuration is valid\n")};
  }
  return {};
}

absl::Status ConfigTable::ApplyAll(const std::vector<bool>& has_flag) {
  if (config_path_.empty()) {
    const char* const path = std::getenv(kConfigVariable);
    if (path != nullptr) config_path_ = path;
  }
  if (!config_path_.empty()) {
    EVENSTEP_RETURN_IF_ERROR(ApplyFile(config_path_));
  }
  // After the file, so that the environment wins.
  EVENSTEP_RETURN_IF_ERROR(ApplyEnvironment());
  EVENSTEP_RETURN_IF_ERROR(ApplyFlags(has_flag));
  return RunChecks();
}

absl::Status ConfigTable::ApplyFile(const std::string& path) {
  EVENSTEP_ASSIGN_OR_RETURN(const std::string text,
                            ReadWholeFile(path, kMaxConfigBytes));
  EVENSTEP_ASSIGN_OR_RETURN(const YamlNode root, ParseYaml(text, path));
  if (root.kind == YamlNode::Kind::kNull) return absl::OkStatus();
  if (root.kind != YamlNode::Kind::kMap) {
    return YamlError(path, root.line, "expected 'key: value' lines");
  }
  std::vector<std::string> known;
  for (const auto& entry : entries_) known.push_back(YamlKey(entry->name));
  for (const YamlEntry& line : root.entries) {
    size_t index = 0;
    while (index < known.size() && known[index] != line.key) ++index;
    if (index == known.size()) {
      return YamlError(path, line.line,
                       absl::StrCat("unknown key '", line.key, "'",
                                    KnownNamesHint(line.key, known)));
    }
    if (line.value.kind != YamlNode::Kind::kScalar) {
      return YamlError(path, line.line,
                       absl::StrCat(line.key, ": expected a single value"));
    }
    EVENSTEP_RETURN_IF_ERROR(
        Prefixed(absl::StrCat(path, ":", line.line, ": ", line.key),
                 entries_[index]->parse(line.value.scalar)));
    entries_[index]->source = Source::kFile;
  }
  return absl::OkStatus();
}

absl::Status ConfigTable::ApplyEnvironment() {
  for (const auto& entry : entries_) {
    if (entry->environment.empty()) continue;
    const char* const text = std::getenv(entry->environment.c_str());
    if (text == nullptr) continue;
    EVENSTEP_RETURN_IF_ERROR(
        Prefixed(absl::StrCat("environment variable ", entry->environment),
                 entry->parse(text)));
    entry->source = Source::kEnvironment;
  }
  return absl::OkStatus();
}

absl::Status ConfigTable::ApplyFlags(const std::vector<bool>& has_flag) {
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (!has_flag[i]) continue;
    Entry& entry = *entries_[i];
    EVENSTEP_RETURN_IF_ERROR(
        Prefixed(absl::StrCat("--", entry.name), entry.parse(entry.flag_text)));
    entry.source = Source::kFlag;
  }
  return absl::OkStatus();
}

absl::Status ConfigTable::RunChecks() const {
  for (const auto& check : checks_) EVENSTEP_RETURN_IF_ERROR(check());
  return absl::OkStatus();
}

std::optional<int> ConfigTable::Run(int argc, const char* const* argv) {
  const ParseResult result = Parse(argc, argv);
  if (result.action == Action::kRun) return std::nullopt;
  std::cout << result.output << std::flush;
  if (result.status.ok()) return 0;
  std::cerr << program_ << ": " << absl::string_view(result.status.message())
            << "\n";
  return 2;
}

absl::string_view ConfigTable::SourceName(Source source) {
  switch (source) {
    case Source::kDefault:
      return "default";
    case Source::kFile:
      return "file";
    case Source::kEnvironment:
      return "environment";
    case Source::kFlag:
      return "flag";
  }
  return "default";
}

void ConfigTable::LogEffective() const {
  std::vector<LogField> fields;
  fields.emplace_back("version", Version());
  fields.emplace_back("commit", GitCommit());
  if (!config_path_.empty()) fields.emplace_back("file", config_path_);
  for (const auto& entry : entries_) {
    const std::string value = entry->format();
    fields.emplace_back(
        YamlKey(entry->name),
        entry->source == Source::kDefault
            ? value
            : absl::StrCat(value, " (", SourceName(entry->source), ")"));
  }
  LogFields(LogLevel::kInfo, "configuration", fields);
}

std::string ConfigTable::FormatEffective() const {
  std::string text;
  for (const auto& entry : entries_) {
    absl::StrAppend(&text, YamlKey(entry->name), ": ",
                    YamlScalar(entry->format()), "  # ",
                    SourceName(entry->source), "\n");
  }
  return text;
}

std::string ConfigTable::FormatReference() const {
  std::string text =
      "| flag | environment | key | type | default | meaning |\n"
      "|---|---|---|---|---|---|\n";
  for (const auto& entry : entries_) {
    absl::StrAppend(&text, "| `--", entry->name, "` | `", entry->environment,
                    "` | `", YamlKey(entry->name), "` | ", entry->type, " | ");
    if (!entry->default_text.empty()) {
      absl::StrAppend(&text, "`", entry->default_text, "`");
    }
    absl::StrAppend(&text, " | ", entry->help, " |\n");
  }
  return text;
}

}  // namespace evenstep
