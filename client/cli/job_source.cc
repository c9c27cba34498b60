#include "client/cli/job_source.h"

#include <filesystem>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/status_macros.h"
#include "jobspec/presets.h"

namespace evenstep::cli {
namespace {

constexpr int64_t kMaxJobFileBytes = 1 << 20;

bool HoldsData(const std::string& file) {
  const std::string name = absl::AsciiStrToLower(file);
  for (const char* const end : {"", ".gz", ".zst"}) {
    for (const char* const kind : {".jsonl", ".ndjson"}) {
      if (absl::EndsWith(name, absl::StrCat(kind, end))) return true;
    }
  }
  return false;
}

// A newcomer names the data where the job file stands.
absl::Status CheckNoData(const std::string& file) {
  std::error_code error;
  const bool is_folder = std::filesystem::is_directory(file, error);
  if (!is_folder && !HoldsData(file)) return absl::OkStatus();
  const std::string source = absl::StrCat("text:", file);
  return absl::InvalidArgumentError(
      absl::StrCat(file, is_folder ? " is a folder" : " is a file of data",
                   ", not a job file (YAML). As data it is ", source,
                   ": train on it here with `evenstep local --data ", source,
                   "`, look at it with `evenstep data inspect ", source,
                   "`, or name it in a job file as data.source"));
}

}  // namespace

absl::StatusOr<client::SubmitOptions> ReadJob(const std::string& file,
                                              const std::string& preset) {
  if (file.empty() == preset.empty()) {
    return absl::InvalidArgumentError(
        "name a job file or a --preset, and not both");
  }
  EVENSTEP_RETURN_IF_ERROR(CheckNoData(file));
  client::SubmitOptions job;
  absl::StatusOr<std::string> text =
      file.empty() ? jobspec::PresetJobFile(preset)
                   : ReadWholeFile(file, kMaxJobFileBytes);
  if (!text.ok()) return absl::InvalidArgumentError(text.status().message());
  job.job_yaml = *std::move(text);
  job.file_name = file.empty() ? absl::StrCat("preset ", preset) : file;
  const std::filesystem::path parent =
      std::filesystem::path(file).parent_path();
  std::error_code error;
  const auto base = std::filesystem::absolute(parent, error);
  job.base_dir = error ? "." : base.string();
  if (parent.empty()) job.base_dir = std::filesystem::current_path(error);
  return job;
}

absl::Status CheckPresetData(const std::string& preset,
                             const std::vector<std::string>& overrides) {
  if (preset.empty()) return absl::OkStatus();
  for (const std::string& pair : overrides) {
    if (absl::StartsWith(pair, "data.source=")) return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--preset ", preset,
                   " has no data source: add --set data.source=text:PATH"));
}

}  // namespace evenstep::cli
