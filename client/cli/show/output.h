#ifndef EVENSTEP_CLIENT_CLI_SHOW_OUTPUT_H_
#define EVENSTEP_CLIENT_CLI_SHOW_OUTPUT_H_

// One command's two voices: answers go to stdout in the format asked for,
// messages to stderr, without what would command a terminal. Made once per
// command; used from one thread.

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "client/cli/environment.h"
#include "client/cli/exit_code.h"
#include "client/cli/show/job_views.h"
#include "client/cli/show/to_json.h"

namespace evenstep::cli {

enum class OutputFormat { kTable, kWide, kJson, kYaml };

struct GlobalOptions {
  std::string coordinator = "127.0.0.1:7070";
  OutputFormat format = OutputFormat::kTable;
  bool quiet = false;
  absl::Duration retry_for = absl::Seconds(10);
};

// Text to stdout, flushed; an error is noted in `environment`.
void WriteOut(Environment& environment, absl::string_view text);
// `code`, unless an answer could not be written: that is said on stderr and is
// an error. A reader who closed the pipe has read enough: no error.
ExitCode CheckOutput(Environment& environment, ExitCode code);

class Output {
 public:
  Output(Environment& environment, const GlobalOptions& options)
      : environment_(environment), options_(options) {}

  // Whether stdout gets documents for programs.
  bool structured() const {
    return options_.format == OutputFormat::kJson ||
           options_.format == OutputFormat::kYaml;
  }
  Detail detail() const {
    return options_.format == OutputFormat::kWide ? Detail::kWide
                                                  : Detail::kNarrow;
  }
  ColourMode colour() const;

  // Text to stdout, flushed.
  void Text(absl::string_view text);
  // Whether to go on with a stream of answers: all could be written so far.
  client::Follow follow() const {
    return environment_.out_errno == 0 ? client::Follow::kContinue
                                       : client::Follow::kStop;
  }
  // A whole document: indented JSON, or YAML.
  void Document(const Json& json);
  // One of many: a line of JSON, or a YAML document of a stream.
  void StreamDocument(const Json& json);
  // To stderr unless --quiet.
  void Message(absl::string_view text);
  // To stderr always.
  void Warning(absl::string_view text);
  // To stderr always: "evenstep: MESSAGE (REASON)". Returns its exit code:
  // Fail's of what the service said, FailHere's of this machine and its files.
  ExitCode Fail(const absl::Status& status);
  ExitCode FailHere(const absl::Status& status);

 private:
  void Explain(const absl::Status& status);

  Environment& environment_;
  const GlobalOptions options_;
};

}  // namespace evenstep::cli

#endif  // EVENSTEP_CLIENT_CLI_SHOW_OUTPUT_H_
