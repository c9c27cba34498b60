#include "client/cli/local/local_command.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/status_macros.h"
#include "client/cli/follow_job.h"
#include "client/cli/local/child_watch.h"
#include "client/cli/local/local_cluster.h"
#include "client/cli/local/result_folder.h"

namespace evenstep::cli {
namespace {

using client::Job;

// Everything is on this machine: what does not answer soon is gone.
constexpr absl::Duration kReconnectBudget = absl::Seconds(15);
// From Ctrl-C until the job has to have stopped by itself.
constexpr absl::Duration kStopTime = absl::Seconds(20);

class LocalRun {
 public:
  LocalRun(Environment& environment, const GlobalOptions& global,
           const LocalCommand& command, PrivateFolder folder)
      : environment_(environment),
        global_(global),
        command_(command),
        output_(environment, global),
        folder_(std::move(folder)) {}

  ExitCode Run(const LocalJob& local) {
    absl::StatusOr<Job> ended = RunJob(local);
    client_.reset();  // an open connection would hold the coordinator up
    if (cluster_) cluster_->Stop();
    if (command_.keep) {
      folder_.Keep();
      output_.Message(absl::StrCat("Kept: ", folder_.path()));
    }
    if (ended.ok()) return Report(*ended);
    const ExitCode code = output_.Fail(ended.status());
    if (!result_folder_.empty()) {
      output_.Message(absl::StrCat("Logs: ", result_folder_, "/logs"));
    }
    return environment_.interrupted.stop_requested() ? kExitInterrupted : code;
  }

 private:
  absl::StatusOr<Job> RunJob(const LocalJob& local) {
    client::SubmitOptions submit = local.submit;
    submit.job_id = client::MakeJobId(local.spec.name);
    EVENSTEP_RETURN_IF_ERROR(ChooseResultFolder(submit.job_id));
    EVENSTEP_RETURN_IF_ERROR(StartCluster(local.spec.ranks));
    client_ = Connect();
    EVENSTEP_ASSIGN_OR_RETURN(client::SubmitResult submitted,
                              client_->Submit(submit));
    return Follow(submitted.job);
  }

  absl::Status ChooseResultFolder(const std::string& job_id) {
    const std::string folder =
        command_.output.empty() ? "evenstep-out/" + job_id : command_.output;
    std::error_code error;
    result_folder_ =
        std::filesystem::absolute(folder, error).lexically_normal().string();
    return MakeFolders(result_folder_);
  }

  absl::Status StartCluster(int num_nodes) {
    LocalClusterOptions options;
    options.bin_dir = environment_.bin_dir;
    options.folder = folder_.path();
    options.log_dir = result_folder_ + "/logs";
    options.output_root = folder_.path() + "/results";
    options.trainer = command_.trainer;
    options.num_nodes = num_nodes;
    options.stop = environment_.interrupted;
    EVENSTEP_RETURN_IF_ERROR(MakeFolders(options.output_root));
    EVENSTEP_ASSIGN_OR_RETURN(cluster_, LocalCluster::Start(options));
    return absl::OkStatus();
  }

  std::unique_ptr<client::Client> Connect() const {
    client::ClientOptions options;
    options.coordinator = cluster_->address();
    options.retry_budget = kReconnectBudget;
    options.reconnect_budget = kReconnectBudget;
    options.stop = environment_.interrupted_twice;
    return environment_.connect(options);
  }

  // The first Ctrl-C stops the job at its next gate, the second one everything.
  absl::StatusOr<Job> Follow(const Job& job) {
    ProgressPrinter printer(environment_, global_, job.num_steps);
    client::WatchCursor cursor;
    absl::StatusOr<Job> ended =
        FollowUntil(job, environment_.interrupted, absl::InfiniteFuture(),
                    &cursor, printer);
    if (ended.ok() || !absl::IsCancelled(ended.status()) ||
        environment_.interrupted_twice.stop_requested()) {
      return ended;
    }
    printer.Say(
        "Stopping after the step that runs now. Ctrl-C again does not wait "
        "for it: the processes are ended within seconds.");
    EVENSTEP_RETURN_IF_ERROR(client_->Cancel(job.id, "interrupted").status());
    return FollowUntil(job, environment_.interrupted_twice,
                       absl::Now() + kStopTime, &cursor, printer);
  }

  absl::StatusOr<Job> FollowUntil(const Job& job, const std::stop_token& token,
                                  absl::Time deadline,
                                  client::WatchCursor* cursor,
                                  ProgressPrinter& printer) {
    std::stop_source stop;
    const std::stop_callback on_token(token, [&] { stop.request_stop(); });
    ChildWatch children(*cluster_, stop);
    FollowOptions options;
    options.stream.stop = stop.get_token();
    options.stream.deadline = deadline;
    options.cursor = cursor;
    options.on_item = [&](const client::WatchItem& item) {
      Record(item, job.id, printer);
    };
    absl::StatusOr<Job> ended = FollowJob(*client_, job, options, printer);
    EVENSTEP_RETURN_IF_ERROR(children.Finish());
    return ended;
  }

  void Record(const client::WatchItem& item, const std::string& job_id,
              ProgressPrinter& printer) {
    if (item.event != nullptr && item.event->attempt > attempt_) {
      attempt_ = item.event->attempt;
      steps_.clear();
    }
    if (item.step == nullptr) return;
    steps_.push_back(*item.step);
    if (std::exchange(data_told_, true)) return;
    const absl::StatusOr<Job> job = client_->Get(job_id);
    if (job.ok() && job->data) printer.Say("Data: " + FormatData(*job->data));
  }

  ExitCode Report(const Job& job) {
    output_.Message(FormatOutcome(job));
    absl::StatusOr<Json> summary = LeaveResults(result_folder_, job, steps_);
    if (!summary.ok()) return output_.Fail(summary.status());
    if (!command_.json_summary.empty()) {
      const absl::Status written = WriteFileAtomically(
          command_.json_summary, DumpJson(*summary, kJsonIndent) + "\n");
      if (!written.ok()) return output_.Fail(written);
    }
    ShowResults(*summary);
    return environment_.interrupted.stop_requested() ? kExitInterrupted
                                                     : ExitCodeOf(job.state);
  }

  void ShowResults(const Json& summary) {
    if (output_.structured()) return output_.Document(summary);
    const Json& files = summary["files"];
    std::vector<Row> rows;
    for (const auto& [key, title] : {std::pair("weights", "Weights:"),
                                     {"loss_curve", "Loss curve:"},
                                     {"summary", "Summary:"},
                                     {"job_file", "Job file:"}}) {
      if (files[key].is_string()) {
        rows.push_back({title, files[key].get<std::string>()});
      }
    }
    rows.push_back({"Logs:", result_folder_ + "/logs"});
    output_.Text(FormatTable(rows, output_.colour()));
  }

  Environment& environment_;
  const GlobalOptions& global_;
  const LocalCommand& command_;
  Output output_;
  PrivateFolder folder_;
  std::string result_folder_;
  std::unique_ptr<LocalCluster> cluster_;
  std::unique_ptr<client::Client> client_;
  std::vector<client::StepSummary> steps_;
  int attempt_ = 0;
  bool data_told_ = false;
};

}  // namespace

ExitCode Local(Environment& environment, const GlobalOptions& global,
               const LocalCommand& command) {
  Output output(environment, global);
  const int num_cores = static_cast<int>(std::thread::hardware_concurrency());
  absl::StatusOr<LocalJob> job = MakeLocalJob(command, num_cores);
  if (!job.ok()) return output.Fail(job.status());
  output.Message(absl::StrCat("Training on ", DescribeLocalJob(job->spec)));
  if (job->chosen_here) {
    output.Message(
        "Choose otherwise with --steps, --ranks, --policy, "
        "--preset, --set KEY=VALUE, or a job file.");
  }
  absl::StatusOr<PrivateFolder> folder = PrivateFolder::Make();
  if (!folder.ok()) return output.Fail(folder.status());
  LocalRun run(environment, global, command, *std::move(folder));
  return run.Run(*job);
}

}  // namespace evenstep::cli
