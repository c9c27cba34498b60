#ifndef EVENSTEP_COORDINATOR_PLANNING_PLAN_PIPELINE_H_
#define EVENSTEP_COORDINATOR_PLANNING_PLAN_PIPELINE_H_

// Lengths in, plans out, for one attempt: strictly in order of steps, one step
// being planned at a time, and never more than a bounded number of steps ahead.
// It holds the plans of steps that are not committed yet, so that an agent that
// lost its stream can have them again. Single owner: the job manager's thread.
// Planning itself happens elsewhere: NextWork gives it out, Accept takes what
// came of it.

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/planning/checked_plan.h"
#include "coordinator/planning/step_lengths.h"
#include "evenstep/v1/plan.pb.h"
#include "jobspec/job_spec.h"
#include "planner/request.h"

namespace evenstep::coordinator {

class PlanPipeline {
 public:
  // `ranks_per_node` as placed.
  PlanPipeline(const jobspec::JobSpec& spec, std::vector<int> ranks_per_node,
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
  // The step is committed on all ranks.
  void Forget(int64_t step) { plans_.erase(step); }
  int64_t next_step() const { return next_step_; }
  // A step is with a planner.
  bool planning() const { return planning_; }
  // Reports of steps that are not planned.
  int64_t num_waiting_reports() const;
  // Ranks whose lengths of the next step have not come.
  std::vector<int> RanksWithoutLengths() const;

 private:
  int64_t LastAllowedStep() const;
  bool IsFarAhead() const;  // of the oldest step that is not committed
  StepShape Shape() const;
  planner::PlanRequest Request(const StepLengths& lengths) const;

  const jobspec::JobSpec spec_;
  const std::vector<int> ranks_per_node_;
  const int64_t generation_;
  std::optional<planner::TimeModel> costs_;
  std::vector<double> rank_speeds_;
  // Those of the last plan that could be made, and what any plan can be made
  // with.
  std::optional<Estimates> last_good_;
  const Estimates nominal_;
  bool data_agreed_ = false;
  bool planning_ = false;
  int64_t next_step_ = 0;  // the first that has no plan
  std::map<int64_t, StepLengths> lengths_;
  std::map<int64_t, v1::StepPlan> plans_;
};

}  // namespace evenstep::coordinator

#endif  // EVENSTEP_COORDINATOR_PLANNING_PLAN_PIPELINE_H_
