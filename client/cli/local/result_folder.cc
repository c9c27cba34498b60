#include "client/cli/local/result_folder.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/atomic_file.h"
#include "base/output_marker.h"
#include "base/status_macros.h"
#include "client/cli/local/run_summary.h"
#include "client/cli/local/unfinished.h"
#include "data/weights_file.h"
#include "jobspec/llama_config.h"

namespace evenstep::cli {
namespace {

namespace fs = std::filesystem;

using jobspec::kConfigName;

constexpr char kPrefix[] = "evenstep-local-";
// Locked while the run lives, whatever ends it.
constexpr char kLockName[] = "/owner";
constexpr size_t kCopiedBytes = 1 << 20;

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

absl::Status CopyFile(const std::string& from, const std::string& to) {
  const UniqueFd in(open(from.c_str(), O_RDONLY | O_CLOEXEC));
  if (!in.valid()) return ErrnoStatus(errno, "cannot open", from);
  EVENSTEP_ASSIGN_OR_RETURN(AtomicFileWriter out, AtomicFileWriter::Open(to));
  std::string buffer(kCopiedBytes, '\0');
  while (true) {
    const ssize_t got = read(in.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus(errno, "cannot read", from);
    if (got == 0) return out.Commit();
    EVENSTEP_RETURN_IF_ERROR(
        out.Append({buffer.data(), static_cast<size_t>(got)}));
  }
}

// A rename where both are on one disk, a copy otherwise: whole or absent.
absl::Status MoveFile(const std::string& from, const std::string& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (!error) return absl::OkStatus();
  return CopyFile(from, to);
}

// FOLDER/previous-1, or with the next number that is free.
absl::StatusOr<std::string> MakePreviousFolder(const std::string& folder) {
  for (int number = 1;; ++number) {
    const std::string name = absl::StrCat(kPreviousPrefix, number);
    const std::string path = absl::StrCat(folder, "/", name);
    if (mkdir(path.c_str(), 0777) == 0) {
      EVENSTEP_RETURN_IF_ERROR(MarkOutputs(folder, {name}));
      return path;
    }
    if (errno != EEXIST) return ErrnoStatus(errno, "cannot create", path);
  }
}

// What an earlier run left in the folder goes into one of its own. Returns that
// one; empty: there was nothing.
absl::StatusOr<std::string> SetAsideEarlierRun(const std::string& folder) {
  std::string previous;
  for (const absl::string_view name : kResultNames) {
    const std::string path = absl::StrCat(folder, "/", name);
    std::error_code error;
    if (name == kUnfinishedName || !fs::exists(path, error)) continue;
    if (previous.empty()) {
      EVENSTEP_ASSIGN_OR_RETURN(previous, MakePreviousFolder(folder));
    }
    fs::rename(path, absl::StrCat(previous, "/", name), error);
    if (error) return ErrnoStatus(error.value(), "cannot set aside", path);
  }
  return previous;
}

// Results replace only what an earlier run left: a file that has the name of a
// result and no mark is the user's.
absl::Status CheckForForeignFiles(const std::string& folder) {
  const std::vector<absl::string_view> foreign =
      ForeignFiles(folder, kResultNames);
  const auto has = [&](absl::string_view name) {
    return std::find(foreign.begin(), foreign.end(), name) != foreign.end();
  };
  // Results of a version that left no marks.
  const bool unmarked = has("loss.csv") && has("loss.json") &&
                        has("summary.json") && has("job.yaml");
  if (foreign.empty() || unmarked) return absl::OkStatus();
  return ForeignFilesError(folder, foreign, "--output");
}

absl::Status NoTemporaryFolder(const std::error_code& error) {
  const char* const value = getenv("TMPDIR");
  return absl::InvalidArgumentError(
      absl::StrCat("there is no folder for temporary files: TMPDIR is ",
                   value == nullptr ? "not set" : value, ": ", error.message(),
                   "; set it to a folder that is there"));
}

// One that a trainer wrote: NODE/attempts/JOB.ATTEMPT/rank-R.log.
struct TrainerLog {
  int64_t attempt = 0;
  fs::path path;
};

std::vector<fs::path> Entries(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> entries;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    entries.push_back(entry.path());
  }
  return entries;
}

// In the order of attempts.
std::vector<TrainerLog> FindTrainerLogs(const std::string& folder) {
  std::vector<TrainerLog> logs;
  for (const fs::path& node : Entries(folder)) {
    for (const fs::path& attempt : Entries(node / "attempts")) {
      int64_t number = 0;
      const std::string extension = attempt.extension().string();
      if (!absl::SimpleAtoi(absl::StripPrefix(extension, "."), &number)) {
        continue;
      }
      for (const fs::path& file : Entries(attempt)) {
        const std::string name = file.filename().string();
        if (absl::StartsWith(name, "rank-") && absl::EndsWith(name, ".log")) {
          logs.push_back({number, file});
        }
      }
    }
  }
  std::sort(logs.begin(), logs.end(),
            [](const TrainerLog& a, const TrainerLog& b) {
              return std::tie(a.attempt, a.path) < std::tie(b.attempt, b.path);
            });
  return logs;
}

}  // namespace

absl::Status KeepTrainerLogs(const std::string& folder,
                             const std::string& log_dir) {
  EVENSTEP_RETURN_IF_ERROR(MakeFolders(log_dir));
  for (const TrainerLog& log : FindTrainerLogs(folder)) {
    const fs::path kept = fs::path(log_dir) / log.path.filename();
    std::ifstream from(log.path, std::ios::binary);
    std::ofstream to(kept, std::ios::binary | std::ios::app);
    // An empty file is no failure: nothing to copy sets the failbit.
    if (from.peek() != std::ifstream::traits_type::eof()) to << from.rdbuf();
    if (!to.flush()) {
      return absl::UnknownError(absl::StrCat(
          "cannot append ", log.path.string(), " to ", kept.string()));
    }
  }
  for (const fs::path& node : Entries(folder)) {
    std::error_code error;
    const fs::path attempts = fs::read_symlink(node / "attempts", error);
    if (!error) fs::remove_all(attempts, error);
  }
  return absl::OkStatus();
}

absl::StatusOr<PrivateFolder> PrivateFolder::Make(const std::string& parent) {
  std::error_code error;
  fs::path place =
      parent.empty() ? fs::temp_directory_path(error) : fs::path(parent);
  if (error) return NoTemporaryFolder(error);
  RemoveStale(place);
  std::string path = (place / (std::string(kPrefix) + "XXXXXX")).string();
  if (mkdtemp(path.data()) == nullptr) {
    return ErrnoStatus(errno, "cannot make a folder", path);
  }
  PrivateFolder folder(path);
  // Where TMPDIR is a folder of data, a run does not train on itself.
  EVENSTEP_RETURN_IF_ERROR(MarkOutputs(path, {kAllOutputs}));
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

absl::Status MakeResultFolder(const std::string& folder) {
  EVENSTEP_RETURN_IF_ERROR(MakeFolders(folder));
  EVENSTEP_RETURN_IF_ERROR(CheckForForeignFiles(folder));
  return MarkOutputs(folder, kResultNames);
}

std::string KeepLogs(const std::string& log_dir, const std::string& folder) {
  const std::string kept = folder + "/logs";
  std::error_code error;
  fs::rename(log_dir, kept, error);
  return error ? log_dir : kept;
}

namespace {

// The weights, with the configuration beside them. What could not be moved
// stays where it is.
absl::Status BringWeights(const std::string& folder, client::Job* job) {
  if (job->weights_path.empty()) return absl::OkStatus();
  const std::string weights = absl::StrCat(folder, "/", data::kWeightsName);
  const fs::path place = fs::path(job->weights_path).parent_path();
  EVENSTEP_RETURN_IF_ERROR(MoveFile(job->weights_path, weights));
  job->weights_path = weights;
  job->weights_node.clear();  // here
  const bool saved_elsewhere = !job->weights_note.empty();
  job->weights_note.clear();
  const std::string config = place / kConfigName;
  std::error_code error;
  if (fs::exists(config, error)) {
    EVENSTEP_RETURN_IF_ERROR(
        MoveFile(config, absl::StrCat(folder, "/", kConfigName)));
  }
  // A folder that was made for them alone.
  if (saved_elsewhere && ReadOutputMarks(place).all) {
    fs::remove_all(place, error);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<LeftResults> LeaveResults(
    const std::string& folder, const std::vector<client::StepSummary>& steps,
    client::Job* job) {
  // If the folder was moved away during the run, trainers made it again without
  // marks.
  std::error_code error;
  if (fs::exists(fs::path(folder) / kUnfinishedName / job->id, error)) {
    EVENSTEP_RETURN_IF_ERROR(MarkOutputs(folder, {kUnfinishedName}));
  }
  EVENSTEP_RETURN_IF_ERROR(MakeResultFolder(folder));
  const std::string curve = folder + "/loss.csv";
  const std::string json_curve = folder + "/loss.json";
  const std::string job_file = folder + "/job.yaml";
  const std::string summary_file = folder + "/summary.json";
  LeftResults left;
  EVENSTEP_ASSIGN_OR_RETURN(left.previous, SetAsideEarlierRun(folder));
  left.weights = BringWeights(folder, job);
  left.summary = SummarizeRun(*job, steps);
  Json& files = left.summary["files"];
  files["weights"] =
      job->weights_path.empty() ? Json() : Json(job->weights_path);
  files["loss_curve"] = curve;
  files["loss_curve_json"] = json_curve;
  files["job_file"] = job_file;
  files["summary"] = summary_file;
  EVENSTEP_RETURN_IF_ERROR(WriteFileAtomically(curve, FormatLossCurve(steps)));
  EVENSTEP_RETURN_IF_ERROR(WriteFileAtomically(
      json_curve, DumpJson(LossCurveJson(steps), -1) + "\n"));
  EVENSTEP_RETURN_IF_ERROR(WriteFileAtomically(job_file, job->job_yaml));
  EVENSTEP_RETURN_IF_ERROR(WriteFileAtomically(
      summary_file, DumpJson(left.summary, kJsonIndent) + "\n"));
  return left;
}

}  // namespace evenstep::cli
