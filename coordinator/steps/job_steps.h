#ifndef EVENSTEP_COORDINATOR_STEPS_JOB_STEPS_H_
#define EVENSTEP_COORDINATOR_STEPS_JOB_STEPS_H_

// The steps of one attempt: lengths in, plans out; reports in, summaries out.
//
//   AddLengths  one rank's share of a step's samples; the shares of all ranks
//               make a step that can be planned
//   NextWork    the next step to plan: strictly in order, one at a time, and a
//               bounded number of steps ahead of the oldest that is not
//               committed
//   Accept      the checked plan that came of it, to be sent to all nodes. It
//               is held until its step is committed, so that an agent that lost
//               its stream can have it again
//   AddReport   what one rank measured. The reports of all ranks commit the
//               step, become its summary, and change the costs and speeds that
//               later steps are planned with
//
// Planning begins when costs are known and the ranks agree on the data. Owned
// by the event loop's thread; planning itself happens elsewhere, on what
// NextWork gives out.

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/steps/cost_refit.h"
#include "coordinator/steps/plan_work.h"
#include "coordinator/steps/step_lengths.h"
#include "coordinator/steps/step_summary.h"
#include "evenstep/v1/job.pb.h"
#include "evenstep/v1/plan.pb.h"
#include "jobspec/job_spec.h"
#include "planner/request.h"

namespace evenstep::coordinator {

// A step that all ranks have run.
struct CommittedStep {
  v1::StepSummary summary;
  v1::JobTotals totals;  // of all committed steps
  // Not ok: why its times did not change the costs.
  absl::Status refit_refusal;
  // If computing has become far from the first costs, or near again: by how
  // much, as a share.
  std::optional<double> drift_news;
};

// Computing that is further than this from the first costs is told once.
inline constexpr double kDriftBound = 0.25;

class JobSteps {
 public:
  // `ranks_per_node` as placed.
  JobSteps(const jobspec::JobSpec& spec, std::vector<int> ranks_per_node,
           int64_t generation);

  // Planning begins when costs are known and the ranks agree on the data.
  void SetCosts(const planner::TimeModel& costs) { costs_ = costs; }
  // For steps whose planning has not begun; a plan says what it was made with.
  // Empty: all nominal.
  void SetRankSpeeds(std::vector<double> speeds) {
    rank_speeds_ = std::move(speeds);
  }
  const std::optional<planner::TimeModel>& costs() const { return costs_; }
  void OpenForData() { data_agreed_ = true; }

  // INVALID_ARGUMENT: a rank or step that the job does not have, or a wrong
  // share. RESOURCE_EXHAUSTED: further ahead than the look-ahead allows. Fine
  // for steps that are planned: AddLengths ignores their reports as repeats.
  absl::Status CheckLengths(const v1::LengthReport& report) const;
  // As CheckLengths; after an error nothing has changed.
  absl::Status AddLengths(const v1::LengthReport& report);

  // The next step, if it is complete, nothing else is being planned, and not
  // too many steps before it wait to be committed.
  std::optional<PlanWork> NextWork();
  // The plan to send. Not ok: as in the outcome; the attempt cannot go on.
  // Costs and speeds that a plan was made with are kept for steps that cannot
  // be planned with later ones.
  absl::StatusOr<const v1::StepPlan*> Accept(PlanOutcome outcome);

  // Plan of a step that is not forgotten; nullptr otherwise.
  const v1::StepPlan* Find(int64_t step) const;
  // By step.
  std::vector<const v1::StepPlan*> HeldPlans() const;
  // Takes a report that CheckStepReport has passed. Repeats, and reports for
  // plans that are not held, are ignored. Returns the step if this report
  // commits it. An error: the ranks disagree on what must be the same
  // (REPORTS_DISAGREE), and the attempt must end.
  absl::StatusOr<std::optional<CommittedStep>> AddReport(
      const v1::StepReport& report);
  // The step is committed on all ranks; AddReport calls it.
  void Forget(int64_t step) { plans_.erase(step); }
  int64_t next_step() const { return next_step_; }
  // A step is with a planner.
  bool planning() const { return planning_; }
  // Reports of steps that are not planned.
  int64_t num_waiting_reports() const;
  // Ranks whose lengths of the next step have not come.
  std::vector<int> RanksWithoutLengths() const;
  std::vector<int> RanksWithoutReport(int64_t step) const;
  // Reports of steps that are not committed.
  int64_t num_step_reports() const;

 private:
  int64_t LastAllowedStep() const;
  bool IsFarAhead() const;  // of the oldest step that is not committed
  StepShape Shape() const;
  void Refit(const v1::StepPlan& plan,
             const std::vector<v1::StepReport>& reports,
             CommittedStep* committed);
  planner::PlanRequest Request(const StepLengths& lengths) const;

  const jobspec::JobSpec spec_;
  const std::vector<int> ranks_per_node_;
  const int64_t generation_;
  std::optional<planner::TimeModel> costs_;
  std::vector<double> rank_speeds_;
  // Those of the last plan that could be made, and what any plan can be made
  // with.
  std::optional<planner::Estimates> last_good_;
  const planner::Estimates nominal_;
  bool data_agreed_ = false;
  bool planning_ = false;
  int64_t next_step_ = 0;  // the first that has no plan
  std::map<int64_t, StepLengths> lengths_;
  std::map<int64_t, v1::StepPlan> plans_;
  // Reports of steps that are not committed, by step and rank.
  std::map<int64_t, std::map<int, v1::StepReport>> reports_;
  StepTotals totals_;
  std::optional<CostRefit> refit_;  // since the first report, if it is wanted
  bool drift_is_far_ = false;
};

}  // namespace evenstep::coordinator

#endif  // EVENSTEP_COORDINATOR_STEPS_JOB_STEPS_H_
