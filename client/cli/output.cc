#include "client/cli/output.h"

#include "absl/strings/str_cat.h"

namespace evenstep::cli {

ColourMode Output::colour() const {
  return environment_.out_is_terminal && environment_.colour
             ? ColourMode::kColour
             : ColourMode::kPlain;
}

void Output::Text(absl::string_view text) {
  environment_.out << text << std::flush;
}

void Output::Document(const Json& json) {
  if (options_.format == OutputFormat::kYaml) return Text(JsonToYaml(json));
  Text(absl::StrCat(json.dump(2), "\n"));
}

void Output::StreamDocument(const Json& json) {
  if (options_.format == OutputFormat::kYaml) {
    return Text(absl::StrCat("---\n", JsonToYaml(json)));
  }
  Text(absl::StrCat(json.dump(), "\n"));
}

void Output::Message(absl::string_view text) {
  if (!options_.quiet) environment_.err << text << std::endl;
}

ExitCode Output::Fail(const absl::Status& status) {
  const std::string reason = client::ErrorReason(status);
  environment_.err << "evenstep: " << status.message();
  if (!reason.empty()) environment_.err << " (" << reason << ")";
  environment_.err << std::endl;
  return ExitCodeOf(status);
}

}  // namespace evenstep::cli
