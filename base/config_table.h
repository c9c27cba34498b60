#ifndef EVENSTEP_BASE_CONFIG_TABLE_H_
#define EVENSTEP_BASE_CONFIG_TABLE_H_

// The settings of one binary in one table: flag, environment variable, YAML
// key, type, default and help. Filled by `main`, which owns the variables. A
// flag beats the environment, which beats the file, which beats the default.
// Not thread-safe: used before threads start.
//
//   ConfigTable table("evenstep-worker", "Runs trainers on one node.");
//   table.Add("listen", "EVENSTEP_LISTEN", &options.listen, "host:port");
//   table.Add("lease-time", "EVENSTEP_LEASE_TIME", &options.lease, "...");
//   table.AddCheck([&] { return ValidateOptions(options); });
//   if (std::optional<int> code = table.Run(argc, argv)) return *code;
//   table.LogEffective();
//
// "lease-time" is the flag --lease-time and the YAML key `lease_time`. Every
// table also has --config FILE (EVENSTEP_CONFIG), --check-config, --version and
// --help. Secrets are given as paths of files, never as values: all values are
// logged.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/log.h"
#include "base/parse_value.h"

namespace evenstep {

class ConfigTable {
 public:
  ConfigTable(absl::string_view program, absl::string_view description);

  // `target` holds the default now and the value after Parse; it must outlive
  // the table. T: string, int, int64_t, uint64_t, double, bool, absl::Duration.
  template <typename T>
  void Add(absl::string_view name, absl::string_view environment, T* target,
           absl::string_view help) {
    AddEntry(
        {std::string(name), std::string(environment), std::string(help),
         TypeName(target), std::is_same_v<T, bool>,
         [target](absl::string_view text) { return ParseValue(text, target); },
         [target] { return FormatValue(*target); }});
  }
  void Add(absl::string_view name, absl::string_view environment,
           LogLevel* target, absl::string_view help);
  void Add(absl::string_view name, absl::string_view environment,
           LogFormat* target, absl::string_view help);

  // A rule over the finished values, for example a range; part of
  // --check-config. Checks run in the order in which they were added.
  void AddCheck(std::function<absl::Status()> check);

  // What main should do.
  enum class Action { kRun, kExit };
  struct ParseResult {
    Action action = Action::kRun;
    absl::Status status;  // not ok: a usage error; exit code 2
    std::string output;   // for stdout: the text of --help and its like
  };
  // Fills the targets. Reads the environment and the file named by --config.
  ParseResult Parse(int argc, const char* const* argv);

  // Parse, with the output or error printed: the exit code if main should end.
  std::optional<int> Run(int argc, const char* const* argv);

  // Logs every value and where it came from, as one event.
  void LogEffective() const;
  // "name: value  # source" lines, in the order of the table.
  std::string FormatEffective() const;
  // Table of flags, variables, keys, types, defaults and help, as Markdown: the
  // reference page is made of it. Defaults are those at the time of Add.
  std::string FormatReference() const;

 private:
  enum class Source { kDefault, kFile, kEnvironment, kFlag };
  struct Entry {
    std::string name;
    std::string environment;
    std::string help;
    std::string type;
    bool is_switch = false;
    std::function<absl::Status(absl::string_view)> parse;
    std::function<std::string()> format;
    std::string default_text = {};
    std::string flag_text = {};
    Source source = Source::kDefault;
  };

  static std::string TypeName(const std::string*) { return "text"; }
  static std::string TypeName(const int*) { return "int"; }
  static std::string TypeName(const int64_t*) { return "int"; }
  static std::string TypeName(const uint64_t*) { return "int"; }
  static std::string TypeName(const double*) { return "number"; }
  static std::string TypeName(const bool*) { return "bool"; }
  static std::string TypeName(const absl::Duration*) { return "duration"; }
  static absl::string_view SourceName(Source source);

  void AddEntry(Entry entry);
  absl::Status ApplyAll(const std::vector<bool>& has_flag);
  absl::Status ApplyFile(const std::string& path);
  absl::Status ApplyEnvironment();
  absl::Status ApplyFlags(const std::vector<bool>& has_flag);
  absl::Status RunChecks() const;

  const std::string program_;
  const std::string description_;
  std::vector<std::unique_ptr<Entry>> entries_;  // stable addresses for CLI11
  std::vector<std::function<absl::Status()>> checks_;
  std::string config_path_;
};

}  // namespace evenstep

#endif  // EVENSTEP_BASE_CONFIG_TABLE_H_
