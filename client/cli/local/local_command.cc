#include "client/cli/local/local_command.h"

#include <sys/un.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/atomic_file.h"
#include "base/log.h"
#include "base/output_marker.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "base/usable_cores.h"
#include "client/cli/follow_job.h"
#include "client/cli/local/child_watch.h"
#include "client/cli/local/local_cluster.h"
#include "client/cli/local/result_folder.h"
#include "client/cli/local/unfinished.h"
#include "client/cli/output_file.h"
#include "client/cli/show/format_value.h"
#include "client/cli/show/index_progress.h"
#include "data/sample_rules.h"
#include "jobspec/open_data.h"

namespace evenstep::cli {
namespace {

using client::Job;

// Everything is on this machine: what does not answer soon is gone.
constexpr absl::Duration kReconnectBudget = absl::Seconds(15);
// From Ctrl-C until the job has to have stopped by itself. The agents end it
// within seconds of its stop time-out; only weights take longer to write.
constexpr absl::Duration kStopTime = absl::Minutes(15);

void NameSkipped(Output& output, const data::Dataset& dataset) {
  const int64_t num_bad = dataset.summary().num_bad;
  if (num_bad == 0) return;
  const std::vector<std::string> named =
      data::NamedFirst(dataset.BadSamples(), num_bad);
  const bool is_list = named.size() > 1;
  output.Message(absl::StrCat(
      "Skips ", Counted(num_bad, "bad sample"), is_list ? ":\n  " : ": ",
      absl::StrJoin(named, "\n  "), is_list ? "\n  (" : " (",
      "logs/rank-0.log, `evenstep data inspect --list-bad`)"));
}

// Settings are expected beside data; what may be records is named.
void NameForeignJson(Output& output, const data::Dataset& dataset) {
  for (const std::string& note :
       dataset.LeftOutJson(/*foreign=*/true, data::kMostNamedSamples)) {
    output.Message(absl::StrCat("Leaves out ", note));
  }
}

void SayTooLong(Output& output, const data::DatasetSummary& summary) {
  if (summary.tokens_left_out == 0) return;
  const auto count = [](int64_t tokens) {
    return FormatCount(static_cast<double>(tokens));
  };
  const std::string share = absl::StrCat(
      count(summary.tokens_left_out), " of ",
      count(summary.tokens_left_out + summary.total_tokens), " tokens");
  output.Message(
      summary.num_truncated > 0
          ? absl::StrCat("Cuts ", Counted(summary.num_truncated, "document"),
                         " to max_length, by ", share)
          : absl::StrCat("Skips ", Counted(summary.num_too_long, "document"),
                         " as too long, with ", share));
}

void SayHeldOut(Output& output, const jobspec::OpenedData& data) {
  if (data.held_out == nullptr) return;
  output.Message(absl::StrCat(
      "Holds out ", Counted(data.held_out->summary().num_samples, "document"),
      ", and evaluates on ", data.evaluated.documents.size(), " of them"));
}

// The ranks run on this machine: an index that is made here is theirs too, its
// progress can be seen, and what is wrong with the data is found before
// anything is started.
absl::Status IndexData(Environment& environment, const GlobalOptions& global,
                       const jobspec::JobSpec& spec) {
  IndexProgressView progress(environment, global.quiet);
  // What the library would log of its data is said here in words.
  SetLogLevel(LogLevel::kError);
  environment.ends_at_once = true;  // until indexing begins
  const auto data = jobspec::OpenData(spec, progress.Callback());
  environment.ends_at_once = false;
  progress.Finish();
  if (!data.ok()) return data.status();
  Output output(environment, global);
  NameSkipped(output, *data->training);
  NameForeignJson(output, *data->training);
  SayTooLong(output, data->training->summary());
  if (data->held_out) NameSkipped(output, *data->held_out);
  SayHeldOut(output, *data);
  return absl::OkStatus();
}

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
    job_id_ = client::MakeJobId(local.spec.name);
    absl::Status chosen = ChooseResultFolder();
    chosen.Update(CheckOutputFile("--json-summary", command_.json_summary));
    if (!chosen.ok()) return output_.FailHere(chosen);
    absl::StatusOr<Job> ended = RunJob(local);
    client_.reset();  // an open connection would hold the coordinator up
    if (cluster_) {
      cluster_->Stop();
      const absl::Status kept = KeepTrainerLogs(folder_.path(), LogFolder());
      if (!kept.ok()) output_.Message(std::string(kept.message()));
    }
    if (command_.keep) {
      folder_.Keep();
      output_.Message(absl::StrCat("Kept: ", folder_.path()));
    }
    if (ended.ok()) {
      // A rank whose agent is lost leaves weights that nobody hears of.
      if (ended->weights_path.empty()) FindWeights(UnfinishedFolder(), &*ended);
      return Report(*ended);
    }
    const ExitCode code = output_.Fail(ended.status());
    if (HasWork()) {
      Report(JobAsItIs(ended.status()));
    } else {
      output_.Message(absl::StrCat("Logs: ", ClearUnfinished(0)));
    }
    return environment_.interrupted.stop_requested() ? kExitInterrupted : code;
  }

 private:
  absl::StatusOr<Job> RunJob(const LocalJob& local) {
    client::SubmitOptions submit = local.submit;
    submit.job_id = job_id_;
    EVENSTEP_RETURN_IF_ERROR(StartCluster(local.spec.ranks));
    client_ = Connect();
    EVENSTEP_ASSIGN_OR_RETURN(client::SubmitResult submitted,
                              client_->Submit(submit));
    job_ = submitted.job;
    return Follow(job_);
  }

  absl::Status ChooseResultFolder() {
    const std::string folder =
        command_.output.empty() ? "evenstep-out/" + job_id_ : command_.output;
    std::error_code error;
    result_folder_ =
        std::filesystem::absolute(folder, error).lexically_normal().string();
    EVENSTEP_RETURN_IF_ERROR(MakeResultFolder(result_folder_));
    const std::string left = DescribeUnfinished(FindUnfinished(result_folder_));
    if (!left.empty()) output_.Message(left);
    return absl::OkStatus();
  }

  absl::Status StartCluster(int num_nodes) {
    LocalClusterOptions options;
    options.bin_dir = environment_.bin_dir;
    options.folder = folder_.path();
    options.log_dir = LogFolder();
    options.output_root = absl::StrCat(result_folder_, "/", kUnfinishedName);
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
        "Stopping after the step that runs now; its weights are kept. A second "
        "Ctrl-C or SIGTERM does not wait for it: the weights of the step "
        "before are kept.");
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
    if (const auto* event = std::get_if<client::JobEvent>(&item)) {
      if (event->attempt > attempt_) steps_.clear();
      attempt_ = std::max(attempt_, event->attempt);
      return;
    }
    steps_.push_back(std::get<client::StepSummary>(item));
    if (std::exchange(data_told_, true)) return;
    const absl::StatusOr<Job> job = client_->Get(job_id);
    if (job.ok() && job->data) printer.Say(FormatDataAndWarnings(*job->data));
  }

  std::string UnfinishedFolder() const {
    return absl::StrCat(result_folder_, "/", kUnfinishedName, "/", job_id_);
  }

  // Until the run has ended: those of an earlier one stay with its results.
  std::string LogFolder() const { return UnfinishedFolder() + "/logs"; }

  // Something to keep of a job whose end was not heard of.
  bool HasWork() const {
    if (job_.id.empty()) return false;
    Job job;
    FindWeights(UnfinishedFolder(), &job);
    return !steps_.empty() || !job.weights_path.empty();
  }

  // What is known of it now that its processes are gone.
  Job JobAsItIs(const absl::Status& why) const {
    Job job = job_;
    const bool interrupted = environment_.interrupted.stop_requested();
    job.state =
        interrupted ? client::JobState::kCancelled : client::JobState::kFailed;
    job.reason = interrupted ? "INTERRUPTED" : "SERVICE_LOST";
    job.message = std::string(why.message());
    job.started = job.submitted;
    job.steps_done = static_cast<int64_t>(steps_.size());
    FindWeights(UnfinishedFolder(), &job);
    return job;
  }

  ExitCode Report(Job job) {
    output_.Message(FormatOutcome(job));
    absl::StatusOr<LeftResults> left =
        LeaveResults(result_folder_, steps_, &job);
    if (!left.ok()) {
      const std::string weights = FormatWeights(job);
      if (!weights.empty()) output_.Message(absl::StrCat("Weights: ", weights));
      output_.Message(absl::StrCat("Logs: ", LogFolder()));
      return output_.FailHere(left.status());
    }
    const std::string logs =
        left->weights.ok() ? ClearUnfinished(job.weights_steps) : LogFolder();
    if (!left->previous.empty()) {
      output_.Message(
          absl::StrCat("The earlier run is now in ", left->previous));
    }
    ShowResults(left->summary, logs, job);
    absl::Status written = left->weights;
    written.Update(CopySummary(left->summary));
    if (!written.ok()) return output_.FailHere(written);
    return environment_.interrupted.stop_requested() ? kExitInterrupted
                                                     : ExitCodeOf(job);
  }

  absl::Status CopySummary(const Json& summary) const {
    if (command_.json_summary.empty()) return absl::OkStatus();
    EVENSTEP_RETURN_IF_ERROR(WriteFileAtomically(
        command_.json_summary, DumpJson(summary, kJsonIndent) + "\n"));
    MarkOutput(command_.json_summary).IgnoreError();
    return absl::OkStatus();
  }

  // Removes what has been brought to the results, unless weights of more steps
  // than theirs remain. Returns where the logs are now. Other runs may have
  // left folders there.
  std::string ClearUnfinished(int64_t weights_steps) {
    std::string logs = KeepLogs(LogFolder(), result_folder_);
    if (logs == LogFolder()) return logs;
    Job left;
    FindWeights(UnfinishedFolder(), &left);
    if (left.weights_steps > weights_steps) {
      output_.Message(DescribeUnfinished(FindUnfinished(result_folder_)));
      return logs;
    }
    std::error_code error;
    std::filesystem::remove_all(UnfinishedFolder(), error);
    std::filesystem::remove(absl::StrCat(result_folder_, "/", kUnfinishedName),
                            error);
    return logs;
  }

  void ShowResults(const Json& summary, const std::string& logs,
                   const Job& job) {
    if (output_.structured()) return output_.Document(summary);
    const Json& files = summary["files"];
    std::vector<Row> rows;
    const std::string weights = FormatWeights(job);
    if (!weights.empty()) rows.push_back({"Weights:", weights});
    for (const auto& [key, title] : {std::pair("loss_curve", "Loss curve:"),
                                     {"summary", "Summary:"},
                                     {"job_file", "Job file:"}}) {
      rows.push_back({title, files[key].get<std::string>()});
    }
    rows.push_back({"Logs:", logs});
    if (!job.weights_path.empty() &&
        job.state != client::JobState::kSucceeded) {
      rows.push_back({"To continue:", DescribeContinuation(job.weights_path)});
    }
    output_.Text(FormatTable(rows, output_.colour()));
  }

  Environment& environment_;
  const GlobalOptions& global_;
  const LocalCommand& command_;
  Output output_;
  PrivateFolder folder_;
  std::string job_id_;
  std::string result_folder_;
  std::unique_ptr<LocalCluster> cluster_;
  std::unique_ptr<client::Client> client_;
  Job job_;  // as it was submitted
  std::vector<client::StepSummary> steps_;
  int attempt_ = 0;
  bool data_told_ = false;
};

// What the agents put below a run's folder that has the longest path:
// "/node-1023/sockets/4294967295.sock".
constexpr size_t kSocketBytes = 10 + 9 + 10 + 5;
constexpr size_t kMaxFolderBytes =
    sizeof(sockaddr_un::sun_path) - 1 - kSocketBytes;

// The agents check it too, but they would name a flag that nobody gave.
absl::Status CheckFolder(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  const size_t own = path.size() - parent.size();
  if (path.size() <= kMaxFolderBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "TMPDIR is ", parent, ": the path has ", parent.size(),
      " bytes, and the sockets of a run, which are made there, allow ",
      kMaxFolderBytes - own,
      "; set TMPDIR to a folder with a shorter path, such as /tmp"));
}

}  // namespace

ExitCode Local(Environment& environment, const GlobalOptions& global,
               const LocalCommand& command) {
  Output output(environment, global);
  absl::StatusOr<LocalJob> job = MakeLocalJob(command, UsableCores());
  if (!job.ok()) return output.FailHere(job.status());
  output.Message(absl::StrCat("Training on ", DescribeLocalJob(job->spec)));
  if (job->chosen_here) {
    output.Message(
        "Choose otherwise with --steps, --ranks, --policy, "
        "--preset, --set KEY=VALUE, or a job file.");
  }
  if (!job->warning.empty()) output.Message(job->warning);
  const absl::Status indexed = IndexData(environment, global, job->spec);
  if (!indexed.ok()) return output.FailHere(indexed);
  absl::StatusOr<PrivateFolder> folder = PrivateFolder::Make();
  if (!folder.ok()) return output.FailHere(folder.status());
  const absl::Status fits = CheckFolder(folder->path());
  if (!fits.ok()) return output.FailHere(fits);
  LocalRun run(environment, global, command, *std::move(folder));
  return run.Run(*job);
}

}  // namespace evenstep::cli
