#include "worker/agent/agent_options.h"

#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "base/config_table.h"
#include "base/listen_address.h"
#include "base/status_macros.h"
#include "wire/message_bounds.h"
#include "worker/agent/assignment_check.h"

namespace evenstep::agent {
namespace {

// "/sockets/" and a counter of up to ten digits with ".sock".
constexpr size_t kSocketNameBytes = 9 + 10 + 5;
constexpr size_t kMaxWorkDirBytes =
    sizeof(sockaddr_un::sun_path) - 1 - kSocketNameBytes;

std::string HostName() {
  char name[256] = {};
  if (gethostname(name, sizeof(name) - 1) != 0 || name[0] == '\0') {
    return "localhost";
  }
  return name;
}

absl::Status MakeAbsolute(absl::string_view flag, std::string* path) {
  std::error_code error;
  const auto absolute = std::filesystem::absolute(*path, error);
  if (error) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--", flag, "=", *path, " cannot be resolved: ", error.message()));
  }
  *path = absolute.lexically_normal().string();
  if (path->size() > 1 && path->back() == '/') path->pop_back();
  return absl::OkStatus();
}

// A job would fail at its start otherwise, and the next one too.
absl::Status CheckTrainer(const std::string& path) {
  if (access(path.c_str(), X_OK) != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--trainer=", path, " cannot be executed: ", strerror(errno)));
  }
  std::error_code error;
  if (std::filesystem::is_regular_file(path, error)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--trainer=", path, " is not a program"));
}

absl::Status CheckRange(absl::string_view flag, int value, int low, int high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--", flag, "=", value, " is not between ", low, " and ", high));
}

void FillDefaults(AgentOptions* options) {
  if (options->node.empty()) options->node = HostName();
  if (options->output_root.empty()) {
    options->output_root = absl::StrCat(options->work_dir, "/out");
  }
  if (options->trainer.empty()) {
    std::error_code error;
    const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
    options->trainer = (self.parent_path() / "evenstep-trainer").string();
  }
}

// The agent itself listens on a socket of the file system only.
absl::Status CheckListeners(const AgentOptions& options) {
  const RemoteAccess access = AllowRemote(options.insecure_allow_remote);
  if (!options.metrics_listen.empty()) {
    EVENSTEP_RETURN_IF_ERROR(
        CheckListenAddress("--metrics-listen", options.metrics_listen, access));
  }
  return CheckListenHost("--trainer-listen-host", options.listen_host, access);
}

absl::Status CheckAll(const v1::Assignment& assignment,
                      const std::string& data_root) {
  EVENSTEP_RETURN_IF_ERROR(CheckAssignment(assignment, data_root));
  return CheckAssignedInputs(assignment);
}

}  // namespace

void AddAgentOptions(ConfigTable& table, AgentOptions* options) {
  table.Add("coordinator", "EVENSTEP_COORDINATOR", &options->coordinator,
            "HOST:PORT of the coordinator");
  table.Add("node", "EVENSTEP_NODE", &options->node,
            "name of this node, unique in the cluster; empty: the host name");
  table.Add("slots", "EVENSTEP_SLOTS", &options->slots,
            "ranks that this node runs at once");
  table.Add("work-dir", "EVENSTEP_WORK_DIR", &options->work_dir,
            "private folder of this agent, for sockets, logs and records");
  table.Add("output-root", "EVENSTEP_OUTPUT_ROOT", &options->output_root,
            "jobs write their results to OUTPUT_ROOT/JOB; empty: WORK_DIR/out");
  table.Add(
      "data-root", "EVENSTEP_DATA_ROOT", &options->data_root,
      "jobs may read data, tokenizers and weights only below this folder, also "
      "through links; /: everything that the agent's user can read");
  table.Add("trainer", "EVENSTEP_TRAINER", &options->trainer,
            "trainer binary; empty: evenstep-trainer beside this one");
  table.Add("trainer-listen-host", "EVENSTEP_TRAINER_LISTEN_HOST",
            &options->listen_host,
            "address on which trainers listen for their peers");
  table.Add("threads-per-rank", "EVENSTEP_THREADS_PER_RANK",
            &options->threads_per_rank, "threads of each trainer");
  table.Add(
      "metrics-listen", "EVENSTEP_METRICS_LISTEN", &options->metrics_listen,
      "HOST:PORT of the Prometheus endpoint, port 0 for any; empty: none");
  table.Add("insecure-allow-remote", "EVENSTEP_INSECURE_ALLOW_REMOTE",
            &options->insecure_allow_remote,
            "let trainers and metrics listen on addresses that other hosts can "
            "reach, without encryption or authentication");
  table.Add("log-lines-per-second", "EVENSTEP_LOG_LINES_PER_SECOND",
            &options->log_lines_per_second,
            "most lines per second of one trainer sent to the coordinator; "
            "more are dropped");
  table.Add("shutdown-grace", "EVENSTEP_SHUTDOWN_GRACE",
            &options->shutdown_grace,
            "how long trainers may still write weights after SIGTERM before "
            "the agent kills them and exits");
}

absl::Status CompleteAgentOptions(AgentOptions* options) {
  if (options->check == nullptr) options->check = CheckAll;
  EVENSTEP_RETURN_IF_ERROR(MakeAbsolute("work-dir", &options->work_dir));
  FillDefaults(options);
  EVENSTEP_RETURN_IF_ERROR(MakeAbsolute("output-root", &options->output_root));
  EVENSTEP_RETURN_IF_ERROR(MakeAbsolute("data-root", &options->data_root));
  EVENSTEP_RETURN_IF_ERROR(MakeAbsolute("trainer", &options->trainer));
  EVENSTEP_RETURN_IF_ERROR(CheckTrainer(options->trainer));
  // The coordinator would refuse it again and again.
  EVENSTEP_RETURN_IF_ERROR(
      wire::CheckText("--node", options->node, wire::kMaxNodeNameBytes));
  EVENSTEP_RETURN_IF_ERROR(CheckListeners(*options));
  EVENSTEP_RETURN_IF_ERROR(CheckRange("slots", options->slots, 1, 1024));
  EVENSTEP_RETURN_IF_ERROR(
      CheckRange("threads-per-rank", options->threads_per_rank, 1, 1024));
  EVENSTEP_RETURN_IF_ERROR(CheckRange(
      "log-lines-per-second", options->log_lines_per_second, 1, 1000000));
  if (options->shutdown_grace < absl::Seconds(1)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--shutdown-grace=", absl::FormatDuration(options->shutdown_grace),
        " is less than 1s"));
  }
  if (options->work_dir.size() > kMaxWorkDirBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--work-dir=", options->work_dir, " has ", options->work_dir.size(),
        " characters, and the sockets in it allow ", kMaxWorkDirBytes));
  }
  return absl::OkStatus();
}

}  // namespace evenstep::agent
