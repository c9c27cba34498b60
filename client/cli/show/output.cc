#include "client/cli/show/output.h"

#include <cerrno>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "client/cli/show/printable_text.h"

namespace evenstep::cli {

ColourMode Output::colour() const {
  return environment_.out_is_terminal && environment_.colour
             ? ColourMode::kColour
             : ColourMode::kPlain;
}

void WriteOut(Environment& environment, absl::string_view text) {
  if (environment.out_errno != 0) return;
  errno = 0;
  environment.out << text << std::flush;
  if (environment.out.good()) return;
  environment.out_errno = errno == 0 ? EIO : errno;
}

ExitCode CheckOutput(Environment& environment, ExitCode code) {
  const int error = environment.out_errno;
  if (error == 0 || error == EPIPE) return code;
  environment.err << "evenstep: cannot write to stdout: "
                  << std::system_category().message(error) << std::endl;
  return code == kExitOk ? kExitOtherError : code;
}

void Output::Text(absl::string_view text) { WriteOut(environment_, text); }

void Output::Document(const Json& json) {
  if (options_.format == OutputFormat::kYaml) return Text(JsonToYaml(json));
  Text(absl::StrCat(DumpJson(json, kJsonIndent), "\n"));
}

void Output::StreamDocument(const Json& json) {
  if (options_.format == OutputFormat::kYaml) {
    return Text(absl::StrCat("---\n", JsonToYaml(json)));
  }
  Text(absl::StrCat(DumpJson(json, -1), "\n"));
}

void Output::Message(absl::string_view text) {
  if (!options_.quiet) Warning(text);
}

void Output::Warning(absl::string_view text) {
  environment_.err << PrintableText(text) << std::endl;
}

void Output::Explain(const absl::Status& status) {
  const std::string reason = client::ErrorReason(status);
  Warning(absl::StrCat("evenstep: ", status.message(),
                       reason.empty() ? "" : absl::StrCat(" (", reason, ")")));
}

ExitCode Output::Fail(const absl::Status& status) {
  Explain(status);
  return ExitCodeOf(status);
}

ExitCode Output::FailHere(const absl::Status& status) {
  Explain(status);
  return LocalExitCodeOf(status);
}

}  // namespace evenstep::cli
