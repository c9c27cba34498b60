#include "client/cli/local/result_folder.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/status_macros.h"
#include "client/cli/local/run_summary.h"
#include "jobspec/llama_config.h"

namespace evenstep::cli {
namespace {

namespace fs = std::filesystem;

using jobspec::kConfigName;

constexpr char kPrefix[] = "evenstep-local-";
// Locked while the run lives, whatever ends it.
constexpr char kLockName[] = "/owner";

bool IsStale(const std::string& folder) {
  struct stat info = {};
  if (lstat(folder.c_str(), &info) != 0 || info.st_uid != geteuid() ||
      !S_ISDIR(info.st_mode)) {
    return false;
  }
  const UniqueFd lock(
      open((folder + kLockName).c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  return lock.valid() && flock(lock.get(), LOCK_EX | LOCK_NB) == 0;
}

// What runs left that were killed before they could clear up.
void RemoveStale(const fs::path& parent) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(parent, error)) {
    if (absl::StartsWith(entry.path().filename().string(), kPrefix) &&
        IsStale(entry.path().string())) {
      fs::remove_all(entry.path(), error);
    }
  }
}

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

// What an earlier run left under this name: "model.safetensors.previous".
absl::Status SetAside(const std::string& path) {
  std::error_code error;
  if (!fs::exists(path, error)) return absl::OkStatus();
  fs::rename(path, path + ".previous", error);
  if (!error) return absl::OkStatus();
  return ErrnoStatus(error.value(), "cannot set aside", path);
}

}  // namespace

absl::StatusOr<PrivateFolder> PrivateFolder::Make(const std::string& parent) {
  std::error_code error;
  fs::path place =
      parent.empty() ? fs::temp_directory_path(error) : fs::path(parent);
  if (error) place = "/tmp";
  RemoveStale(place);
  std::string path = (place / (std::string(kPrefix) + "XXXXXX")).string();
  if (mkdtemp(path.data()) == nullptr) {
    return ErrnoStatus(errno, "cannot make a folder", path);
  }
  PrivateFolder folder(path);
  // Under another name until it is locked: nobody takes it for a stale one.
  const std::string lock = path + "/.owner";
  folder.lock_.Reset(open(lock.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
  if (!folder.lock_.valid() ||
      flock(folder.lock_.get(), LOCK_EX | LOCK_NB) != 0 ||
      rename(lock.c_str(), (path + kLockName).c_str()) != 0) {
    return ErrnoStatus(errno, "cannot lock", path);
  }
  return folder;
}

PrivateFolder::PrivateFolder(PrivateFolder&& other) noexcept
    : path_(std::exchange(other.path_, std::string())),
      kept_(other.kept_),
      lock_(std::move(other.lock_)) {}

void PrivateFolder::Keep() {
  kept_ = true;
  std::error_code error;
  fs::remove(path_ + kLockName, error);
}

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
  const std::string json_curve = folder + "/loss.json";
  const std::string job_file = folder + "/job.yaml";
  const std::string summary_file = folder + "/summary.json";
  EVENSTEP_RETURN_IF_ERROR(SetAside(weights));
  EVENSTEP_RETURN_IF_ERROR(SetAside(absl::StrCat(folder, "/", kConfigName)));
  Json summary = SummarizeRun(job, steps);
  Json& files = summary["files"];
  files["weights"] = nullptr;
  if (!job.weights_path.empty()) {
    EVENSTEP_RETURN_IF_ERROR(MoveFile(job.weights_path, weights));
    files["weights"] = weights;
    const std::string config =
        fs::path(job.weights_path).parent_path() / kConfigName;
    std::error_code error;
    if (fs::exists(config, error)) {
      EVENSTEP_RETURN_IF_ERROR(
          MoveFile(config, absl::StrCat(folder, "/", kConfigName)));
    }
  }
  files["loss_curve"] = curve;
  files["loss_curve_json"] = json_curve;
  files["job_file"] = job_file;
  files["summary"] = summary_file;
  EVENSTEP_RETURN_IF_ERROR(WriteFileAtomically(curve, FormatLossCurve(steps)));
  EVENSTEP_RETURN_IF_ERROR(WriteFileAtomically(
      json_curve, DumpJson(LossCurveJson(steps), -1) + "\n"));
  EVENSTEP_RETURN_IF_ERROR(WriteFileAtomically(job_file, job.job_file));
  EVENSTEP_RETURN_IF_ERROR(
      WriteFileAtomically(summary_file, DumpJson(summary, kJsonIndent) + "\n"));
  return summary;
}

}  // namespace evenstep::cli
