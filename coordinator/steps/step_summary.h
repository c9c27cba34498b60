#ifndef EVENSTEP_COORDINATOR_STEPS_STEP_SUMMARY_H_
#define EVENSTEP_COORDINATOR_STEPS_STEP_SUMMARY_H_

// From what every rank reports of a step to what the step was: waiting, idle
// share, coordination share, lead of plans. The definitions are stated here;
// this file is the only one that computes them. Pure.
//
//   C_r(x)     rank r's time inside the collectives of x, x being each of its
//              micro-batches and the gradient reduction
//   waiting_r  sum over x of (C_r(x) - min over x's group of C_q(x))
//   step time  gate exit to gate exit: the longest over ranks
//   idle share sum of waiting over ranks / (world * step time)
//
// A micro-batch of degree 1 has nobody to wait for: its waiting is 0.

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "evenstep/v1/job.pb.h"
#include "evenstep/v1/plan.pb.h"

namespace evenstep::coordinator {

// INVALID_ARGUMENT with rank and step: ranks outside the plan's world,
// micro-batches that are not the rank's own in the plan's order, other trained
// tokens than the plan's, times, counts or bytes out of bounds, or losses that
// are not numbers.
absl::Status CheckStepReport(const v1::StepPlan& plan,
                             const v1::StepReport& report);

struct StepFigures {
  v1::StepSummary summary;
  int64_t waiting_ns = 0;  // sum over ranks
  int64_t step_ns = 0;
  int64_t gate_ns = 0;  // the least over ranks
  int64_t tokens = 0;   // without padding
  int64_t padded_tokens = 0;
};

// One checked report of each rank, at the rank's index. INVALID_ARGUMENT when
// ranks disagree on what must be identical (loss, trained tokens), or worked on
// fewer tokens than the plan has.
absl::StatusOr<StepFigures> SummariseStep(
    const v1::StepPlan& plan, const std::vector<v1::StepReport>& reports);

// Sums over the committed steps of an attempt.
class StepTotals {
 public:
  // `num_steps` of the job: its last step cannot hold a further plan, so it
  // counts as one with a lead.
  StepTotals(int world, int64_t num_steps)
      : world_(world), num_steps_(num_steps) {}

  void Add(const StepFigures& figures);
  void CountRefusedPlan() { ++plans_refused_; }
  void SetCostDrift(double drift) { cost_drift_ = drift; }
  v1::JobTotals ToProto() const;

 private:
  void AddEvaluation(const v1::EvaluationSummary& evaluation);

  const int world_;
  const int64_t num_steps_;
  int64_t step_ns_ = 0;
  int64_t waiting_ns_ = 0;
  int64_t gate_ns_ = 0;
  int64_t trained_tokens_ = 0;
  int64_t tokens_ = 0;
  int64_t padded_tokens_ = 0;
  int64_t steps_after_fourth_ = 0;
  int64_t steps_with_plan_lead_ = 0;
  int64_t plans_refused_ = 0;
  double prediction_error_seconds_ = 0;
  double cost_drift_ = 0;
  std::optional<v1::EvaluationSummary> last_evaluation_;
  std::optional<v1::EvaluationSummary> best_evaluation_;  // of the least loss
};

}  // namespace evenstep::coordinator

#endif  // EVENSTEP_COORDINATOR_STEPS_STEP_SUMMARY_H_
