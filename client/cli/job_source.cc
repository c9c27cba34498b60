#include "client/cli/job_source.h"

#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "jobspec/presets.h"

namespace evenstep::cli {
namespace {

constexpr int64_t kMaxJobFileBytes = 1 << 20;

}  // namespace

absl::StatusOr<client::SubmitOptions> ReadJob(const std::string& file,
                                              const std::string& preset) {
  if (file.empty() == preset.empty()) {
    return absl::InvalidArgumentError(
        "name a job file or a --preset, and not both");
  }
  client::SubmitOptions job;
  absl::StatusOr<std::string> text =
      file.empty() ? jobspec::PresetJobFile(preset)
                   : ReadWholeFile(file, kMaxJobFileBytes);
  if (!text.ok()) return absl::InvalidArgumentError(text.status().message());
  job.job_file = *std::move(text);
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
                   " says nothing about data: add --set "
                   "data.source=text:PATH"));
}

}  // namespace evenstep::cli
