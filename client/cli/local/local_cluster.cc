#include "client/cli/local/local_cluster.h"

#include <filesystem>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/atomic_file.h"
#include "base/clock.h"
#include "base/status_macros.h"

namespace evenstep::cli {
namespace {

constexpr absl::Duration kPollInterval = absl::Milliseconds(20);
constexpr int64_t kMaxPortFileBytes = 64;
// An agent's grace: less than stop_grace, to clean up after it.
constexpr char kShutdownGrace[] = "--shutdown-grace=60s";

}  // namespace

absl::StatusOr<std::unique_ptr<LocalCluster>> LocalCluster::Start(
    const LocalClusterOptions& options) {
  auto cluster = std::unique_ptr<LocalCluster>(new LocalCluster(options));
  EVENSTEP_RETURN_IF_ERROR(MakeFolders(options.log_dir));
  EVENSTEP_RETURN_IF_ERROR(cluster->StartCoordinator());
  for (int i = 0; i < options.num_nodes; ++i) {
    EVENSTEP_RETURN_IF_ERROR(cluster->StartAgent(i));
  }
  return cluster;
}

LocalCluster::~LocalCluster() { Stop(); }

absl::Status LocalCluster::StartChild(
    const std::string& program, const std::string& log,
    const std::vector<std::string>& arguments) {
  ChildOptions child;
  child.launcher = absl::StrCat(options_.bin_dir, "/evenstep");
  child.program = absl::StrCat(options_.bin_dir, "/", program);
  child.arguments = arguments;
  child.log_path = absl::StrCat(options_.log_dir, "/", log);
  EVENSTEP_ASSIGN_OR_RETURN(ChildProcess started, ChildProcess::Start(child));
  children_.push_back(std::move(started));
  return absl::OkStatus();
}

absl::Status LocalCluster::StartCoordinator() {
  const std::string port_file = absl::StrCat(options_.folder, "/port");
  EVENSTEP_RETURN_IF_ERROR(StartChild(
      "evenstep-coordinator", "coordinator.log",
      {"--listen=127.0.0.1:0", absl::StrCat("--port-file=", port_file),
       absl::StrCat("--store=", options_.folder, "/store.db"),
       "--metrics-listen=127.0.0.1:0"}));
  return WaitForPort(port_file);
}

absl::Status LocalCluster::WaitForPort(const std::string& port_file) {
  const absl::Duration deadline =
      RealClock().Monotonic() + options_.start_timeout;
  while (RealClock().Monotonic() < deadline) {
    if (options_.stop.stop_requested()) return absl::CancelledError("stopped");
    EVENSTEP_RETURN_IF_ERROR(CheckChildren());
    auto text = ReadWholeFile(port_file, kMaxPortFileBytes);
    const std::string port(
        absl::StripAsciiWhitespace(text.ok() ? *text : std::string()));
    if (!port.empty()) {
      address_ = absl::StrCat("127.0.0.1:", port);
      return absl::OkStatus();
    }
    absl::SleepFor(kPollInterval);
  }
  return absl::DeadlineExceededError(
      absl::StrCat("the coordinator did not listen within ",
                   absl::FormatDuration(options_.start_timeout), "; see ",
                   options_.log_dir, "/coordinator.log"));
}

absl::Status LocalCluster::StartAgent(int index) {
  const std::string node = absl::StrCat("node-", index);
  const std::string work_dir = absl::StrCat(options_.folder, "/", node);
  // Logs of ranks outlive a command that is killed; its private folder does
  // not.
  const std::string attempts = absl::StrCat(options_.log_dir, "/", node);
  EVENSTEP_RETURN_IF_ERROR(MakeFolders(work_dir));
  EVENSTEP_RETURN_IF_ERROR(MakeFolders(attempts));
  std::error_code error;
  std::filesystem::create_directory_symlink(attempts, work_dir + "/attempts",
                                            error);
  if (error) return ErrnoStatus(error.value(), "cannot link", attempts);
  std::vector<std::string> arguments = {
      absl::StrCat("--coordinator=", address_),
      absl::StrCat("--node=", node),
      "--slots=1",
      kShutdownGrace,
      absl::StrCat("--work-dir=", work_dir),
      absl::StrCat("--output-root=", options_.output_root)};
  if (!options_.trainer.empty()) {
    arguments.push_back(absl::StrCat("--trainer=", options_.trainer));
  }
  return StartChild("evenstep-worker", absl::StrCat(node, ".log"), arguments);
}

absl::Status LocalCluster::CheckChildren() {
  for (ChildProcess& child : children_) {
    const std::optional<std::string> end = child.Ended();
    if (!end) continue;
    return absl::InternalError(
        absl::StrCat(std::filesystem::path(child.program()).filename().string(),
                     " ", *end, "; its last words:\n", child.LogTail()));
  }
  return absl::OkStatus();
}

void LocalCluster::Stop() {
  for (size_t i = 1; i < children_.size(); ++i) children_[i].Terminate();
  for (size_t i = 1; i < children_.size(); ++i) {
    children_[i].WaitOrKill(options_.stop_grace);
  }
  if (!children_.empty()) {
    children_[0].Terminate();
    children_[0].WaitOrKill(options_.stop_grace);
  }
  children_.clear();
}

}  // namespace evenstep::cli
