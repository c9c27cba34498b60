#include "client/cli/local/result_folder.h"

#include <stdlib.h>

#include <cerrno>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/status_macros.h"
#include "client/cli/local/run_summary.h"

namespace evenstep::cli {
namespace {

namespace fs = std::filesystem;

// A rename where both are on one disk, a copy otherwise.
absl::Status MoveFile(const std::string& from, const std::string& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (!error) return absl::OkStatus();
  fs::copy_file(from, to, fs::copy_options::overwrite_existing, error);
  if (!error) return absl::OkStatus();
  return ErrnoStatus(error.value(), absl::StrCat("cannot copy ", from, " to"),
                     to);
}

}  // namespace

absl::StatusOr<PrivateFolder> PrivateFolder::Make() {
  std::error_code error;
  fs::path parent = fs::temp_directory_path(error);
  if (error) parent = "/tmp";
  std::string path = (parent / "evenstep-XXXXXX").string();
  if (mkdtemp(path.data()) == nullptr) {
    return ErrnoStatus(errno, "cannot make a folder", path);
  }
  return PrivateFolder(path);
}

PrivateFolder::PrivateFolder(PrivateFolder&& other) noexcept
    : path_(std::exchange(other.path_, std::string())), kept_(other.kept_) {}

PrivateFolder::~PrivateFolder() {
  std::error_code error;
  if (!path_.empty() && !kept_) fs::remove_all(path_, error);
}

absl::StatusOr<Json> LeaveResults(
    const std::string& folder, const client::Job& job,
    const std::vector<client::StepSummary>& steps) {
  EVENSTEP_RETURN_IF_ERROR(MakeFolders(folder));
  const std::string weights = folder + "/model.safetensors";
  const std::string curve = folder + "/loss.csv";
  const std::string job_file = folder + "/job.yaml";
  const std::string summary_file = folder + "/summary.json";
  Json summary = SummarizeRun(job, steps);
  Json& files = summary["files"];
  files["weights"] = nullptr;
  if (!job.weights_path.empty()) {
    EVENSTEP_RETURN_IF_ERROR(MoveFile(job.weights_path, weights));
    files["weights"] = weights;
  }
  files["loss_curve"] = curve;
  files["job_file"] = job_file;
  files["summary"] = summary_file;
  EVENSTEP_RETURN_IF_ERROR(WriteFileAtomically(curve, FormatLossCurve(steps)));
  EVENSTEP_RETURN_IF_ERROR(WriteFileAtomically(job_file, job.job_file));
  EVENSTEP_RETURN_IF_ERROR(
      WriteFileAtomically(summary_file, DumpJson(summary, kJsonIndent) + "\n"));
  return summary;
}

}  // namespace evenstep::cli
