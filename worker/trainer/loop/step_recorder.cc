#include "worker/trainer/loop/step_recorder.h"

#include <sys/resource.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "worker/trainer/link/failure.h"

namespace evenstep::trainer {
namespace {

constexpr double kNsPerSecond = 1e9;

int64_t ToNs(const timeval& time) {
  return time.tv_sec * int64_t{1'000'000'000} + time.tv_usec * int64_t{1'000};
}

// User and system time of this process, all threads.
int64_t ProcessCpuNs() {
  rusage usage = {};
  if (::getrusage(RUSAGE_SELF, &usage) != 0) return 0;
  return ToNs(usage.ru_utime) + ToNs(usage.ru_stime);
}

int64_t PeakActivationBytes(const StepResult& result) {
  int64_t most = 0;
  for (const MicroBatchResult& micro_batch : result.micro_batches) {
    most = std::max(most, micro_batch.activation_bytes);
  }
  return most;
}

void LogProgress(const evenstep::v1::StepReport& report) {
  const double seconds = report.step_ns() / kNsPerSecond;
  Log(LogLevel::kInfo, "step_done",
      {{"step", report.step()},
       {"loss", absl::StrFormat("%.6f", report.loss())},
       {"tokens", report.trained_tokens()},
       {"seconds", absl::StrFormat("%.3f", seconds)},
       {"tokens_s", absl::StrFormat("%.0f", report.trained_tokens() / seconds)},
       {"lr", absl::StrFormat("%.3g", report.learning_rate())},
       {"grad_norm", absl::StrFormat("%.4g", report.gradient_norm())},
       {"gate_ms", absl::StrFormat("%.2f", report.gate_ns() / 1e6)},
       {"plan_lead", report.plan_lead()}});
}

}  // namespace

absl::StatusOr<StepRecorder> StepRecorder::Create(const TrainerSetup& setup,
                                                  AgentChannel* agent,
                                                  const Clock* clock) {
  StepRecorder recorder(setup, agent, clock);
  if (setup.rank == 0) {
    auto curve = LossCurve::Create(absl::StrCat(setup.output_dir, "/loss.csv"));
    if (!curve.ok()) {
      return WithReason(curve.status(), FailureReason::kStartFailed, kNoStep);
    }
    recorder.curve_ = *std::move(curve);
  }
  return recorder;
}

StepRecorder::StepRecorder(const TrainerSetup& setup, AgentChannel* agent,
                           const Clock* clock)
    : setup_(&setup), agent_(agent), clock_(clock) {}

absl::Status StepRecorder::GateExit(int64_t gate_ns, int plan_lead) {
  const int64_t now_ns = absl::ToInt64Nanoseconds(clock_->Monotonic());
  const int64_t cpu_ns = ProcessCpuNs();
  if (pending_.has_value()) EVENSTEP_RETURN_IF_ERROR(Commit(now_ns, cpu_ns));
  gate_exit_ns_ = now_ns;
  gate_exit_cpu_ns_ = cpu_ns;
  gate_ns_ = gate_ns;
  plan_lead_ = plan_lead;
  return absl::OkStatus();
}

void StepRecorder::Ran(int64_t step, const StepResult& result,
                       const UpdateResult& update, const UpdateTime& time,
                       const GroupCounters& groups) {
  evenstep::v1::StepReport report;
  report.set_generation(setup_->generation);
  report.set_step(step);
  report.set_rank(setup_->rank);
  for (const MicroBatchResult& micro_batch : result.micro_batches) {
    evenstep::v1::MicroBatchTime* time = report.add_micro_batches();
    time->set_index(micro_batch.index);
    time->set_total_ns(micro_batch.total_ns);
    time->set_collective_ns(micro_batch.collective_ns);
    time->set_compute_ns(micro_batch.compute_ns);
  }
  report.set_reduction_ns(result.reduction_ns);
  report.set_optimizer_ns(time.total_ns);
  report.set_update_compute_ns(result.reduction_compute_ns + time.compute_ns);
  report.set_gate_ns(gate_ns_);
  report.set_loss(result.loss);
  report.set_trained_tokens(result.trained_tokens);
  report.set_gradient_norm(update.gradient_norm);
  report.set_learning_rate(update.learning_rate);
  report.set_plan_lead(plan_lead_);
  report.set_padded_tokens(result.padded_tokens);
  report.set_peak_tensor_bytes(result.peak_tensor_bytes);
  report.set_peak_activation_bytes(PeakActivationBytes(result));
  report.set_groups_live(static_cast<int32_t>(groups.live));
  report.set_groups_opened(groups.created - groups_.created);
  report.set_group_opening_ns(
      absl::ToInt64Nanoseconds(groups.creation_time - groups_.creation_time));
  groups_ = groups;
  pending_ = std::move(report);
}

void StepRecorder::EvaluationBegins() {
  evaluation_begin_ns_ = absl::ToInt64Nanoseconds(clock_->Monotonic());
  evaluation_begin_cpu_ns_ = ProcessCpuNs();
}

void StepRecorder::Evaluated(double loss, int64_t trained_tokens,
                             const GroupCounters& groups) {
  groups_ = groups;
  evenstep::v1::Evaluation& evaluation = *pending_->mutable_evaluation();
  evaluation.set_loss(loss);
  evaluation.set_trained_tokens(trained_tokens);
  evaluation.set_evaluation_ns(absl::ToInt64Nanoseconds(clock_->Monotonic()) -
                               evaluation_begin_ns_);
  evaluation_cpu_ns_ = ProcessCpuNs() - evaluation_begin_cpu_ns_;
  if (setup_->rank != 0) return;
  Log(LogLevel::kInfo, "evaluated",
      {{"after_step", pending_->step()},
       {"loss", absl::StrFormat("%.6f", loss)},
       {"tokens", trained_tokens},
       {"seconds",
        absl::StrFormat("%.3f", evaluation.evaluation_ns() / kNsPerSecond)}});
}

absl::Status StepRecorder::Commit(int64_t now_ns, int64_t cpu_ns) {
  v1::ToAgent message;
  evenstep::v1::StepReport& report = *message.mutable_step();
  report = *std::exchange(pending_, std::nullopt);
  report.set_step_ns(now_ns - gate_exit_ns_ -
                     report.evaluation().evaluation_ns());
  report.set_cpu_ns(cpu_ns - gate_exit_cpu_ns_ -
                    std::exchange(evaluation_cpu_ns_, 0));
  if (setup_->rank == 0) {
    LogProgress(report);
    AppendToCurve(report);
  }
  return agent_->Send(message);
}

void StepRecorder::AppendToCurve(const evenstep::v1::StepReport& report) {
  if (!curve_.has_value()) return;
  LossRow row = {.step = report.step(),
                 .loss = report.loss(),
                 .trained_tokens = report.trained_tokens(),
                 .step_seconds = report.step_ns() / kNsPerSecond,
                 .learning_rate = report.learning_rate(),
                 .gradient_norm = report.gradient_norm()};
  if (report.has_evaluation()) {
    row.evaluation_loss = report.evaluation().loss();
  }
  const absl::Status appended = curve_->Append(row);
  if (!appended.ok()) GiveUpCurve(appended);
}

void StepRecorder::Finish() {
  if (!curve_.has_value()) return;
  const absl::Status json =
      curve_->WriteJson(absl::StrCat(setup_->output_dir, "/loss.json"));
  if (!json.ok())
    Log(LogLevel::kWarning, "loss_json_broken", {{"reason", json}});
  const absl::Status synced = curve_->Sync();
  if (!synced.ok()) GiveUpCurve(synced);
}

void StepRecorder::GiveUpCurve(const absl::Status& why) {
  Log(LogLevel::kWarning, "loss_curve_broken", {{"reason", why}});
  curve_.reset();
}

}  // namespace evenstep::trainer
