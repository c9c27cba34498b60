#include "coordinator/steps/step_summary.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace evenstep::coordinator {
namespace {

constexpr double kNsPerSecond = 1e9;
constexpr int64_t kFirstStepWithLead = 4;  // after the fourth, from 0
// Of one rank and step. Sums over kMaxRanks ranks fit 63 bits.
constexpr int64_t kMaxStepNs = int64_t{1} << 48;  // three days
constexpr int64_t kMaxCpuNs = int64_t{1} << 58;   // summed as a double
constexpr int64_t kMaxCount = int64_t{1} << 40;
constexpr int64_t kMaxBytes = int64_t{1} << 56;

std::string Where(const v1::StepReport& report) {
  return absl::StrCat("step report of rank ", report.rank(), " for step ",
                      report.step());
}

bool Contains(const v1::MicroBatch& micro_batch, int rank) {
  return rank >= micro_batch.first_rank() &&
         rank < micro_batch.first_rank() + micro_batch.degree();
}

std::vector<int> MicroBatchesOf(const v1::StepPlan& plan, int rank) {
  std::vector<int> own;
  for (int i = 0; i < plan.micro_batches_size(); ++i) {
    if (Contains(plan.micro_batches(i), rank)) own.push_back(i);
  }
  return own;
}

struct Bounded {
  absl::string_view field;
  int64_t value;
  int64_t most;
};

absl::Status CheckBounds(const v1::StepReport& report,
                         std::initializer_list<Bounded> fields) {
  for (const Bounded& field : fields) {
    if (field.value >= 0 && field.value <= field.most) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(Where(report), ": ", field.field, " is ", field.value,
                     "; it must be from 0 to ", field.most));
  }
  return absl::OkStatus();
}

// The sums over micro-batches are bounded too: those over ranks then fit.
absl::Status CheckMicroBatchTimes(const v1::StepReport& report) {
  int64_t total_ns = 0, collective_ns = 0, compute_ns = 0;
  for (const v1::MicroBatchTime& time : report.micro_batches()) {
    EVENSTEP_RETURN_IF_ERROR(CheckBounds(
        report,
        {{"total_ns of a micro-batch", time.total_ns(), kMaxStepNs - total_ns},
         {"collective_ns of a micro-batch", time.collective_ns(),
          kMaxStepNs - collective_ns},
         {"compute_ns of a micro-batch", time.compute_ns(),
          kMaxStepNs - compute_ns}}));
    total_ns += time.total_ns();
    collective_ns += time.collective_ns();
    compute_ns += time.compute_ns();
  }
  return absl::OkStatus();
}

absl::Status CheckNumbers(const v1::StepReport& report) {
  const v1::Evaluation& evaluation = report.evaluation();
  EVENSTEP_RETURN_IF_ERROR(CheckBounds(
      report,
      {{"reduction_ns", report.reduction_ns(), kMaxStepNs},
       {"optimizer_ns", report.optimizer_ns(), kMaxStepNs},
       {"step_ns", report.step_ns(), kMaxStepNs},
       {"gate_ns", report.gate_ns(), kMaxStepNs},
       {"cpu_ns", report.cpu_ns(), kMaxCpuNs},
       {"update_compute_ns", report.update_compute_ns(), kMaxStepNs},
       {"padded_tokens", report.padded_tokens(), kMaxCount},
       {"peak_tensor_bytes", report.peak_tensor_bytes(), kMaxBytes},
       {"peak_activation_bytes", report.peak_activation_bytes(), kMaxBytes},
       {"groups_live", report.groups_live(), kMaxCount},
       {"groups_opened", report.groups_opened(), kMaxCount},
       {"group_opening_ns", report.group_opening_ns(), kMaxStepNs},
       // Of a rank that holds no plan: -1.
       {"plan_lead + 1", int64_t{report.plan_lead()} + 1, kMaxCount},
       {"evaluation's trained_tokens", evaluation.trained_tokens(), kMaxBytes},
       {"evaluation_ns", evaluation.evaluation_ns(), kMaxStepNs}}));
  EVENSTEP_RETURN_IF_ERROR(CheckMicroBatchTimes(report));
  // A norm may overflow to infinity where no value of the gradient does.
  if (std::isfinite(report.loss()) && std::isfinite(evaluation.loss()) &&
      report.gradient_norm() >= 0 && report.learning_rate() >= 0 &&
      std::isfinite(report.learning_rate())) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      Where(report), ": loss ", report.loss(), ", held out ", evaluation.loss(),
      ", norm of the gradient ", report.gradient_norm(), " or learning rate ",
      report.learning_rate(), " cannot be"));
}

// Times in x's collectives of the ranks of one group.
int64_t Waiting(const std::vector<int64_t>& collective_ns) {
  const int64_t least =
      *std::min_element(collective_ns.begin(), collective_ns.end());
  int64_t waiting = 0;
  for (int64_t ns : collective_ns) waiting += ns - least;
  return waiting;
}

int64_t TotalWaiting(const std::vector<v1::StepReport>& reports) {
  std::map<int, std::vector<int64_t>> by_micro_batch;
  std::vector<int64_t> reduction;
  for (const v1::StepReport& report : reports) {
    reduction.push_back(report.reduction_ns());
    for (const v1::MicroBatchTime& time : report.micro_batches()) {
      by_micro_batch[time.index()].push_back(time.collective_ns());
    }
  }
  int64_t waiting = Waiting(reduction);
  for (const auto& [index, times] : by_micro_batch) waiting += Waiting(times);
  return waiting;
}

absl::Status CheckEvaluationAgrees(const v1::StepReport& first,
                                   const v1::StepReport& report) {
  const v1::Evaluation& a = first.evaluation();
  const v1::Evaluation& b = report.evaluation();
  if (first.has_evaluation() == report.has_evaluation() &&
      a.loss() == b.loss() && a.trained_tokens() == b.trained_tokens()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "evaluation after step ", first.step(), ": rank ", report.rank(),
      " has loss ", b.loss(), " over ", b.trained_tokens(), " tokens, rank ",
      first.rank(), " has ", a.loss(), " over ", a.trained_tokens()));
}

absl::Status CheckAgreement(const std::vector<v1::StepReport>& reports) {
  const v1::StepReport& first = reports.front();
  for (const v1::StepReport& report : reports) {
    if (report.loss() == first.loss() &&
        report.trained_tokens() == first.trained_tokens()) {
      EVENSTEP_RETURN_IF_ERROR(CheckEvaluationAgrees(first, report));
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "step ", first.step(), ": rank ", report.rank(), " has loss ",
        report.loss(), " over ", report.trained_tokens(), " tokens, rank ",
        first.rank(), " has ", first.loss(), " over ", first.trained_tokens()));
  }
  return absl::OkStatus();
}

void AddPlanFigures(const v1::StepPlan& plan, StepFigures* figures) {
  v1::StepSummary& summary = figures->summary;
  int32_t highest_degree = 0;
  for (const v1::MicroBatch& micro_batch : plan.micro_batches()) {
    highest_degree = std::max(highest_degree, micro_batch.degree());
    for (int64_t length : micro_batch.lengths()) figures->tokens += length;
  }
  summary.set_predicted_seconds(plan.predicted_step_ns() / kNsPerSecond);
  summary.set_predicted_imbalance(plan.predicted_imbalance());
  summary.set_policy(plan.policy());
  summary.set_recompute_ratio(plan.recompute_ratio());
  summary.set_predicted_activation_bytes(plan.predicted_activation_bytes());
  summary.set_lower_bound_seconds(plan.lower_bound_ns() / kNsPerSecond);
  summary.set_num_micro_batches(plan.micro_batches_size());
  summary.set_highest_degree(highest_degree);
}

void AddMeasuredFigures(const std::vector<v1::StepReport>& reports,
                        StepFigures* figures) {
  double total_cpu_ns = 0;
  int64_t slowest_cpu_ns = 0, peak_bytes = 0;
  int64_t activation_bytes = 0;
  int32_t lead = reports.front().plan_lead();
  figures->gate_ns = reports.front().gate_ns();
  for (const v1::StepReport& report : reports) {
    figures->step_ns = std::max(figures->step_ns, report.step_ns());
    figures->gate_ns = std::min(figures->gate_ns, report.gate_ns());
    slowest_cpu_ns = std::max(slowest_cpu_ns, report.cpu_ns());
    total_cpu_ns += static_cast<double>(report.cpu_ns());
    lead = std::min(lead, report.plan_lead());
    peak_bytes = std::max(peak_bytes, report.peak_tensor_bytes());
    activation_bytes =
        std::max(activation_bytes, report.peak_activation_bytes());
    figures->padded_tokens += report.padded_tokens();
  }
  const double world = static_cast<double>(reports.size());
  v1::StepSummary& summary = figures->summary;
  summary.set_step_seconds(figures->step_ns / kNsPerSecond);
  summary.set_gate_seconds(figures->gate_ns / kNsPerSecond);
  summary.set_slowest_cpu_seconds(slowest_cpu_ns / kNsPerSecond);
  summary.set_mean_cpu_seconds(total_cpu_ns / world / kNsPerSecond);
  summary.set_plan_lead(lead);
  summary.set_peak_tensor_bytes(peak_bytes);
  summary.set_peak_activation_bytes(activation_bytes);
  if (figures->step_ns > 0) {
    summary.set_idle_share(figures->waiting_ns / (world * figures->step_ns));
  }
}

void AddGroupFigures(const std::vector<v1::StepReport>& reports,
                     v1::StepSummary* summary) {
  int32_t live = 0;
  int64_t opened = 0, slowest_ns = 0;
  for (const v1::StepReport& report : reports) {
    live = std::max(live, report.groups_live());
    opened += report.groups_opened();
    slowest_ns = std::max(slowest_ns, report.group_opening_ns());
  }
  summary->set_groups_live(live);
  summary->set_groups_opened(opened);
  summary->set_group_opening_seconds(slowest_ns / kNsPerSecond);
}

absl::Status CheckPadding(const v1::StepPlan& plan,
                          const StepFigures& figures) {
  if (figures.padded_tokens >= figures.tokens) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "step ", plan.step(), ": ranks worked on ", figures.padded_tokens,
      " tokens, padding included, where ", "the plan has ", figures.tokens));
}

void AddEvaluation(const std::vector<v1::StepReport>& reports,
                   v1::StepSummary* summary) {
  const v1::StepReport& first = reports.front();
  if (!first.has_evaluation()) return;
  int64_t slowest_ns = 0;
  for (const v1::StepReport& report : reports) {
    slowest_ns = std::max(slowest_ns, report.evaluation().evaluation_ns());
  }
  v1::EvaluationSummary& evaluation = *summary->mutable_evaluation();
  evaluation.set_step(first.step());
  evaluation.set_loss(first.evaluation().loss());
  evaluation.set_trained_tokens(first.evaluation().trained_tokens());
  evaluation.set_seconds(slowest_ns / kNsPerSecond);
}

double Ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }

// Of an attempt: what ranks report may be wrong, and there are many steps.
void AddSaturating(int64_t value, int64_t* sum) {
  if (__builtin_add_overflow(*sum, value, sum)) {
    *sum = std::numeric_limits<int64_t>::max();
  }
}

}  // namespace

absl::Status CheckStepReport(const v1::StepPlan& plan,
                             const v1::StepReport& report) {
  if (report.rank() < 0 || report.rank() >= plan.world()) {
    return absl::InvalidArgumentError(
        absl::StrCat(Where(report), ": the job has ", plan.world(), " ranks"));
  }
  std::vector<int> reported;
  for (const v1::MicroBatchTime& time : report.micro_batches()) {
    reported.push_back(time.index());
  }
  if (reported != MicroBatchesOf(plan, report.rank())) {
    return absl::InvalidArgumentError(absl::StrCat(
        Where(report),
        ": its micro-batches are not those that the plan gives the rank"));
  }
  if (report.trained_tokens() != plan.trained_tokens()) {
    return absl::InvalidArgumentError(
        absl::StrCat(Where(report), ": ", report.trained_tokens(),
                     " trained tokens; the plan has ", plan.trained_tokens()));
  }
  return CheckNumbers(report);
}

absl::StatusOr<StepFigures> SummariseStep(
    const v1::StepPlan& plan, const std::vector<v1::StepReport>& reports) {
  if (reports.empty() || static_cast<int>(reports.size()) != plan.world()) {
    return absl::InvalidArgumentError(
        absl::StrCat("step ", plan.step(), ": ", reports.size(),
                     " reports for ", plan.world(), " ranks"));
  }
  EVENSTEP_RETURN_IF_ERROR(CheckAgreement(reports));
  StepFigures figures;
  v1::StepSummary& summary = figures.summary;
  summary.set_step(plan.step());
  summary.set_loss(reports.front().loss());
  summary.set_trained_tokens(reports.front().trained_tokens());
  summary.set_gradient_norm(reports.front().gradient_norm());
  figures.waiting_ns = TotalWaiting(reports);
  AddPlanFigures(plan, &figures);
  AddMeasuredFigures(reports, &figures);
  AddGroupFigures(reports, &summary);
  AddEvaluation(reports, &summary);
  EVENSTEP_RETURN_IF_ERROR(CheckPadding(plan, figures));
  const auto padded = static_cast<double>(figures.padded_tokens);
  summary.set_padding_ratio(Ratio(padded - figures.tokens, padded));
  return figures;
}

void StepTotals::Add(const StepFigures& figures) {
  const v1::StepSummary& summary = figures.summary;
  AddSaturating(figures.step_ns, &step_ns_);
  AddSaturating(figures.waiting_ns, &waiting_ns_);
  AddSaturating(figures.gate_ns, &gate_ns_);
  prediction_error_seconds_ +=
      std::abs(summary.predicted_seconds() - summary.step_seconds());
  AddSaturating(summary.trained_tokens(), &trained_tokens_);
  AddSaturating(figures.tokens, &tokens_);
  AddSaturating(figures.padded_tokens, &padded_tokens_);
  if (summary.has_evaluation()) AddEvaluation(summary.evaluation());
  if (summary.step() < kFirstStepWithLead) return;
  ++steps_after_fourth_;
  const bool is_last = summary.step() + 1 >= num_steps_;
  if (summary.plan_lead() >= 1 || is_last) ++steps_with_plan_lead_;
}

void StepTotals::AddEvaluation(const v1::EvaluationSummary& evaluation) {
  last_evaluation_ = evaluation;
  if (!best_evaluation_.has_value() ||
      evaluation.loss() < best_evaluation_->loss()) {
    best_evaluation_ = evaluation;
  }
}

v1::JobTotals StepTotals::ToProto() const {
  v1::JobTotals totals;
  if (last_evaluation_) *totals.mutable_last_evaluation() = *last_evaluation_;
  if (best_evaluation_) *totals.mutable_best_evaluation() = *best_evaluation_;
  totals.set_step_seconds(step_ns_ / kNsPerSecond);
  totals.set_idle_share(
      Ratio(waiting_ns_, static_cast<double>(world_) * step_ns_));
  totals.set_coordination_share(Ratio(gate_ns_, step_ns_));
  totals.set_trained_tokens(trained_tokens_);
  totals.set_padding_ratio(Ratio(padded_tokens_ - tokens_, padded_tokens_));
  totals.set_steps_with_plan_lead(steps_with_plan_lead_);
  totals.set_steps_after_fourth(steps_after_fourth_);
  totals.set_plans_refused(plans_refused_);
  totals.set_prediction_error(
      Ratio(prediction_error_seconds_, totals.step_seconds()));
  totals.set_cost_drift(cost_drift_);
  return totals;
}

}  // namespace evenstep::coordinator
