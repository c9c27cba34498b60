#include "worker/agent/attempt.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/atomic_file.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "wire/message_bounds.h"

namespace evenstep::agent {
namespace {

constexpr absl::Duration kLogDelay = absl::Milliseconds(100);
constexpr absl::Duration kDefaultStop = absl::Seconds(5);
// A trainer that writes weights says so whenever 16 MiB have reached the disk.
constexpr absl::Duration kKeepSilence = absl::Seconds(10);
constexpr absl::Duration kKeepCheck = absl::Milliseconds(200);

absl::Duration StopTimeout(const v1::JobSpec& spec) {
  const int64_t ms = spec.timeouts().stop_ms();
  return ms > 0 ? absl::Milliseconds(ms) : kDefaultStop;
}

// A trainer says as much as it likes; the message has to reach the coordinator.
std::string DescribeEnd(const TrainerEnd& end) {
  std::string text =
      end.process.signal != 0
          ? absl::StrCat("ended by signal ", end.process.signal, " (",
                         strsignal(end.process.signal), ")")
          : absl::StrCat("exited with status ", end.process.exit_status);
  const bool failed = end.process.signal != 0 || end.process.exit_status != 0;
  if (failed && !end.last_words.empty()) {
    absl::StrAppend(&text, "; last words: ", end.last_words);
  }
  return text;
}

}  // namespace

Attempt::Attempt(AttemptContext context, v1::Assignment assignment)
    : context_(std::move(context)),
      assignment_(std::move(assignment)),
      folder_(absl::StrCat(context_.options.work_dir, "/attempts/",
                           id().job_id(), ".", id().attempt())),
      output_dir_(
          absl::StrCat(context_.options.output_root, "/", id().job_id())),
      logs_([this](v1::LogBatch batch) {
        context_.metrics.log_lines.Increment(batch.lines_size());
        batch.set_first_line(next_line_);
        next_line_ += batch.lines_size();
        *batch.mutable_attempt() = id();
        v1::AgentMessage message;
        *message.mutable_logs() = std::move(batch);
        Report(std::move(message));
      }) {}

Attempt::~Attempt() = default;

void Attempt::Start(const std::string& socket_path) {
  absl::Status status = MakePlaces(socket_path);
  const int end = assignment_.first_rank() + assignment_.num_ranks();
  for (int rank = assignment_.first_rank(); status.ok() && rank < end; ++rank) {
    status = StartTrainer(rank, socket_path);
  }
  if (status.ok()) return;
  Log(LogLevel::kError, "attempt_not_started",
      {{"job", id().job_id()},
       {"attempt", id().attempt()},
       {"status", status}});
  RequestAbandon(-1, "START_FAILED", std::string(status.message()));
  End("the attempt could not start", absl::ZeroDuration());
}

absl::Status Attempt::MakePlaces(const std::string& socket_path) {
  EVENSTEP_RETURN_IF_ERROR(MakeFolders(folder_));
  EVENSTEP_RETURN_IF_ERROR(MakeFolders(output_dir_));
  chmod(folder_.c_str(), 0700);
  std::weak_ptr<Attempt> weak = weak_from_this();
  EVENSTEP_ASSIGN_OR_RETURN(
      listener_,
      TrainerListener::Open(socket_path, [weak, &loop = context_.loop](
                                             TrainerConnection connection) {
        loop.Post([weak, connection = std::move(connection)] {
          if (auto self = weak.lock()) self->OnConnected(connection);
        });
      }));
  return absl::OkStatus();
}

absl::Status Attempt::StartTrainer(int rank, const std::string& socket_path) {
  TrainerOptions options;
  options.binary = context_.options.trainer;
  options.socket_path = socket_path;
  options.rank = rank;
  options.log_path = absl::StrCat(folder_, "/rank-", rank, ".log");
  options.lines_per_second = context_.options.log_lines_per_second;
  std::weak_ptr<Attempt> weak = weak_from_this();
  TrainerCallbacks callbacks;
  callbacks.on_frame = [weak, rank](const trainer::v1::ToAgent& frame) {
    if (auto self = weak.lock()) self->OnFrame(rank, frame);
  };
  callbacks.on_lines = [weak, rank](const OutputLines& lines) {
    if (auto self = weak.lock()) self->OnLines(rank, lines);
  };
  callbacks.on_end = [weak, rank](const TrainerEnd& end) {
    if (auto self = weak.lock()) self->OnTrainerEnd(rank, end);
  };
  EVENSTEP_ASSIGN_OR_RETURN(
      std::unique_ptr<Trainer> trainer,
      Trainer::Start(options, context_.loop, std::move(callbacks)));
  Trainer& started = *trainer;
  ranks_[rank].trainer = std::move(trainer);
  context_.metrics.trainers.Increment();
  Log(LogLevel::kInfo, "trainer_started",
      {{"job", id().job_id()},
       {"attempt", id().attempt()},
       {"rank", rank},
       {"pid", started.pid()}});
  EVENSTEP_RETURN_IF_ERROR(
      context_.ledger.Add({started.pid(), started.start_ticks(), id().job_id(),
                           id().attempt(), rank}));
  return started.Send(StartMessage(rank));
}

trainer::v1::ToTrainer Attempt::StartMessage(int rank) const {
  trainer::v1::ToTrainer message;
  trainer::v1::Start* start = message.mutable_start();
  start->set_job_id(id().job_id());
  start->set_attempt(id().attempt());
  start->set_generation(id().generation());
  start->set_rank(rank);
  int world = 0;
  for (const v1::Placement& placement : assignment_.placements()) {
    start->add_ranks_per_node(placement.num_ranks());
    world += placement.num_ranks();
  }
  start->set_world(world);
  *start->mutable_spec() = assignment_.spec();
  start->set_listen_host(context_.options.listen_host);
  start->set_output_dir(output_dir_);
  start->set_threads(context_.options.threads_per_rank);
  start->set_agent_silence_ms(
      absl::ToInt64Milliseconds(context_.agent_silence));
  return message;
}

void Attempt::SendToAll(const trainer::v1::ToTrainer& message) {
  for (auto& [rank, state] : ranks_) {
    if (state.gone) continue;
    const absl::Status sent = state.trainer->Send(message);
    if (sent.ok()) continue;
    Log(LogLevel::kError, "trainer_does_not_read",
        {{"rank", rank}, {"status", sent}});
    state.failure = std::string(sent.message());
    state.trainer->Kill();
  }
}

void Attempt::OnPlan(const v1::StepPlan& plan) {
  if (!IsCurrent(plan.generation())) return;
  trainer::v1::ToTrainer message;
  *message.mutable_plan() = plan;
  SendToAll(message);
}

void Attempt::OnStop(const std::string& text) {
  trainer::v1::ToTrainer message;
  message.mutable_stop()->set_message(text);
  SendToAll(message);
}

void Attempt::OnAbandon(const v1::Abandon& abandon) {
  if (abandon.next_generation() == 0) {
    End(abandon.message(), absl::InfiniteDuration(), abandon.weights_rank());
    return;
  }
  assignment_.mutable_attempt()->set_generation(abandon.next_generation());
  trainer::v1::ToTrainer message;
  message.mutable_abandon()->set_next_generation(abandon.next_generation());
  message.mutable_abandon()->set_message(abandon.message());
  SendToAll(message);
}

void Attempt::End(const std::string& text, absl::Duration at_most,
                  int weights_rank) {
  std::weak_ptr<Attempt> weak = weak_from_this();
  if (at_most < absl::InfiniteDuration()) {
    context_.loop.PostAfter(at_most, [weak] {
      if (auto self = weak.lock()) self->Kill();
    });
  }
  if (ending_) return;
  ending_ = true;
  ending_since_ = RealClock().Monotonic();
  const absl::Duration grace =
      std::min({StopTimeout(assignment_.spec()), at_most, kLongestStop});
  Log(LogLevel::kInfo, "attempt_ending",
      {{"job", id().job_id()},
       {"attempt", id().attempt()},
       {"grace_ms", absl::ToInt64Milliseconds(grace)},
       {"why", text}});
  trainer::v1::ToTrainer message;
  message.mutable_abandon()->set_message(text);
  message.mutable_abandon()->set_weights_rank(weights_rank);
  SendToAll(message);
  if (grace < at_most) {
    context_.loop.PostAfter(grace, [weak] {
      if (auto self = weak.lock()) self->KillIdle();
    });
  }
  GoneIfAllAre();
}

bool Attempt::IsWriting(const RankState& state) const {
  const absl::Duration now = RealClock().Monotonic();
  return now - state.wrote_at < kKeepSilence &&
         now - ending_since_ < kLongestKeep;
}

// All but those that write, and those as soon as they do not.
void Attempt::KillIdle() {
  bool any_writes = false;
  for (auto& [rank, state] : ranks_) {
    if (state.gone) continue;
    if (IsWriting(state)) {
      any_writes = true;
    } else {
      KillRank(rank, state);
    }
  }
  if (!any_writes) return;
  std::weak_ptr<Attempt> weak = weak_from_this();
  context_.loop.PostAfter(kKeepCheck, [weak] {
    if (auto self = weak.lock()) self->KillIdle();
  });
}

void Attempt::Kill() {
  for (auto& [rank, state] : ranks_) {
    if (!state.gone) KillRank(rank, state);
  }
}

void Attempt::KillRank(int rank, const RankState& state) {
  Log(LogLevel::kWarning, "trainer_killed",
      {{"job", id().job_id()},
       {"attempt", id().attempt()},
       {"rank", rank},
       {"pid", state.trainer->pid()}});
  state.trainer->Kill();
}

void Attempt::KeepAlive() {
  for (auto& [rank, state] : ranks_) {
    if (!state.gone) state.trainer->KeepAlive();
  }
}

void Attempt::OnConnected(const TrainerConnection& connection) {
  const auto it = ranks_.find(connection.rank);
  if (it == ranks_.end() || it->second.gone ||
      it->second.trainer->pid() != connection.pid) {
    Log(LogLevel::kWarning, "trainer_connection_refused",
        {{"rank", connection.rank}, {"pid", connection.pid}});
    return;
  }
  const absl::Status attached = it->second.trainer->Attach(connection.socket);
  if (!attached.ok()) {
    Log(LogLevel::kWarning, "trainer_connection_refused",
        {{"rank", connection.rank}, {"status", attached}});
  }
}

void Attempt::OnLines(int rank, const OutputLines& lines) {
  context_.metrics.log_lines_dropped.Increment(
      static_cast<double>(lines.num_dropped));
  context_.metrics.log_bytes_not_kept.Increment(
      static_cast<double>(lines.bytes_not_kept));
  const bool timer_runs = !logs_.empty();
  logs_.Add(rank, id().attempt(), absl::Now(), lines);
  if (timer_runs || logs_.empty()) return;
  std::weak_ptr<Attempt> weak = weak_from_this();
  context_.loop.PostAfter(kLogDelay, [weak] {
    if (auto self = weak.lock()) self->logs_.Flush();
  });
}

bool Attempt::IsCurrent(int64_t generation) {
  if (generation == id().generation()) return true;
  context_.metrics.MessagesDropped("old_generation").Increment();
  Log(LogLevel::kWarning, "message_of_another_generation",
      {{"job", id().job_id()},
       {"generation", generation},
       {"current", id().generation()}});
  return false;
}

void Attempt::OnTrainerEnd(int rank, const TrainerEnd& end) {
  RankState& state = ranks_[rank];
  state.gone = true;
  context_.metrics.trainers.Decrement();
  logs_.Flush();
  ReportExit(rank, state, end);
  const absl::Status removed = context_.ledger.Remove(state.trainer->pid());
  if (!removed.ok()) {
    Log(LogLevel::kError, "ledger_not_written", {{"status", removed}});
  }
  GoneIfAllAre();
}

void Attempt::ReportExit(int rank, const RankState& state,
                         const TrainerEnd& end) {
  const bool clean = state.finished && !state.refused &&
                     end.process.signal == 0 && end.process.exit_status == 0;
  std::string text = DescribeEnd(end);
  if (!state.failure.empty()) text = absl::StrCat(state.failure, "; ", text);
  Log(clean ? LogLevel::kInfo : LogLevel::kWarning, "trainer_exited",
      {{"job", id().job_id()},
       {"attempt", id().attempt()},
       {"rank", rank},
       {"pid", state.trainer->pid()},
       {"clean", clean ? "true" : "false"},
       {"how", text}});
  context_.metrics
      .TrainerExits(clean                     ? "clean"
                    : end.process.signal != 0 ? "signal"
                                              : "status")
      .Increment();
  v1::AgentMessage message;
  v1::TrainerExited* exited = message.mutable_exited();
  *exited->mutable_attempt() = id();
  exited->set_rank(rank);
  exited->set_exit_status(end.process.exit_status);
  exited->set_signal(end.process.signal);
  exited->set_clean(clean);
  exited->set_message(wire::PersonText(text));
  exited->set_weights_path(state.finish.weights_path());
  exited->set_weights_steps(state.finish.weights_steps());
  exited->set_weights_note(wire::PersonText(state.finish.weights_note()));
  exited->set_steps_done(state.finish.steps_done());
  Report(std::move(message));
}

void Attempt::GoneIfAllAre() {
  const bool all = std::all_of(ranks_.begin(), ranks_.end(),
                               [](const auto& r) { return r.second.gone; });
  if (!all || told_gone_) return;
  told_gone_ = true;
  v1::AgentMessage message;
  *message.mutable_ended()->mutable_attempt() = id();
  Report(std::move(message));
  Log(LogLevel::kInfo, "attempt_ended",
      {{"job", id().job_id()}, {"attempt", id().attempt()}});
  context_.on_gone();
}

void Attempt::RequestAbandon(int rank, const std::string& reason,
                             const std::string& text, int64_t step) {
  v1::AgentMessage message;
  v1::AbandonRequest* request = message.mutable_abandon();
  *request->mutable_attempt() = id();
  request->set_rank(rank);
  request->set_reason(wire::PersonText(reason));
  request->set_message(wire::PersonText(text));
  request->set_step(step);
  Report(std::move(message));
}

void Attempt::Report(v1::AgentMessage message) {
  const absl::Status sent = context_.send(std::move(message));
  if (sent.ok() || std::exchange(report_refused_, true)) return;
  Log(LogLevel::kError, "report_not_sent",
      {{"job", id().job_id()}, {"attempt", id().attempt()}, {"status", sent}});
  RequestAbandon(-1, "REPORT_NOT_SENT", std::string(sent.message()));
}

}  // namespace evenstep::agent
