#ifndef EVENSTEP_COORDINATOR_SERVER_ATTEMPT_REPORTS_H_
#define EVENSTEP_COORDINATOR_SERVER_ATTEMPT_REPORTS_H_

// Takes what nodes and ranks say of an attempt, and the plans that were made
// for it, into the attempt's run, and what of that users see into its job's
// record and the metrics. What follows from it is the supervisor's to find out:
// it asks AttemptRun::NextAction afterwards. For the event loop's thread.

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/clock.h"
#include "coordinator/attempts/attempt_run.h"
#include "coordinator/server/job_registry.h"
#include "coordinator/server/metrics.h"
#include "coordinator/steps/plan_work.h"
#include "evenstep/v1/agent.pb.h"

namespace evenstep::coordinator {

class AttemptReports {
 public:
  // All outlive it.
  AttemptReports(JobRegistry& book, Metrics& metrics, const Clock& clock)
      : book_(book), metrics_(metrics), clock_(clock) {}

  // What an agent says of the run that it names (null: there is none). Nothing
  // changes but by what message_check.h lets through; an error: it was refused.
  absl::Status Take(AttemptRun* run, const std::string& node, bool is_own,
                    const v1::AgentMessage& message);
  // Sends the plan to all nodes, or says why the attempt cannot go on.
  void TakePlan(AttemptRun& run, PlanOutcome outcome);
  // The lost node's ranks may have written the weights, and nobody is there to
  // say so.
  void NoteLostWeights(const AttemptRun& run, const std::string& node);

 private:
  absl::Duration Now() const { return clock_.Monotonic(); }
  JobRecord& RecordOf(const AttemptRun& run) {
    return *book_.Find(run.id().job_id());
  }
  void TakeChecked(AttemptRun& run, NodeRun& node,
                   const v1::AgentMessage& message);
  void TakeLengths(AttemptRun& run, const v1::LengthReport& report);
  void TakeCosts(AttemptRun& run, const v1::CostModel& measured);
  void TakeData(AttemptRun& run, const v1::RankData& message);
  void ShowData(const AttemptRun& run, const v1::DataSummary& data);
  void TakeStarted(AttemptRun& run, const v1::RankStarted& message);
  void TakeStep(AttemptRun& run, const v1::StepReport& report);
  void AddStep(AttemptRun& run, const CommittedStep& step);
  void CountRefusedEstimate(const AttemptRun& run, absl::string_view source,
                            int64_t step, const absl::Status& why);
  void TakeAbandon(AttemptRun& run, const NodeRun& node,
                   const v1::AbandonRequest& message);
  void TakeExit(AttemptRun& run, const NodeRun& node,
                const v1::TrainerExited& message);
  void TakeWeights(const AttemptRun& run, const NodeRun& node,
                   const v1::TrainerExited& exited);
  void TakeLogs(const AttemptRun& run, NodeRun& node,
                const v1::LogBatch& message);
  int64_t TakeLineNumbers(const AttemptRun& run, NodeRun& node,
                          const v1::LogBatch& message);

  JobRegistry& book_;
  Metrics& metrics_;
  const Clock& clock_;
};

}  // namespace evenstep::coordinator

#endif  // EVENSTEP_COORDINATOR_SERVER_ATTEMPT_REPORTS_H_
