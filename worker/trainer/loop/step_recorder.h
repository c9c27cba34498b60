#ifndef EVENSTEP_WORKER_TRAINER_LOOP_STEP_RECORDER_H_
#define EVENSTEP_WORKER_TRAINER_LOOP_STEP_RECORDER_H_

// Turns what happened in a step into its report, its line in the log and, on
// rank 0, its row of the loss curve. A step is held back until the next gate
// has seen it on all ranks: what is reported is committed. Main thread only.

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "evenstep/v1/plan.pb.h"
#include "wire/step_plan.h"
#include "worker/trainer/comm/group_pool.h"
#include "worker/trainer/job/trainer_setup.h"
#include "worker/trainer/link/agent_channel.h"
#include "worker/trainer/loop/loss_curve.h"
#include "worker/trainer/optim/adamw.h"
#include "worker/trainer/parallel/step_runner.h"

namespace evenstep::trainer {

// Clipping and the optimizer update.
struct UpdateTime {
  int64_t total_ns = 0;    // wall time
  int64_t compute_ns = 0;  // by the compute clock
};

class StepRecorder {
 public:
  // `agent` and `clock` outlive the recorder. Rank 0 starts the loss curve in
  // the output folder.
  static absl::StatusOr<StepRecorder> Create(const TrainerSetup& setup,
                                             AgentChannel* agent,
                                             const Clock* clock);

  // A gate has been passed that took `gate_ns`: the step that ran before it is
  // committed and reported. `plan_lead`: of the step that begins now.
  absl::Status GateExit(int64_t gate_ns, int plan_lead);
  // The step has run here, and its update is made.
  void Ran(int64_t step, const StepResult& result, const UpdateResult& update,
           const UpdateTime& time, const GroupCounters& groups);
  // Around an evaluation between Ran and the next gate: its time is not part of
  // the step's, nor are the groups that it opened of the next one's.
  void EvaluationBegins();
  void Evaluated(double loss, int64_t trained_tokens,
                 const GroupCounters& groups);
  // Makes the loss curve durable, and writes it as JSON.
  void Finish();

 private:
  StepRecorder(const TrainerSetup& setup, AgentChannel* agent,
               const Clock* clock);
  absl::Status Commit(int64_t now_ns, int64_t cpu_ns);
  void AppendToCurve(const evenstep::v1::StepReport& report);
  // Training is worth more than its curve: warns, and writes no more.
  void GiveUpCurve(const absl::Status& why);

  const TrainerSetup* setup_;
  AgentChannel* agent_;
  const Clock* clock_;
  std::optional<LossCurve> curve_;

  int64_t gate_exit_ns_ = 0;
  int64_t gate_exit_cpu_ns_ = 0;
  int64_t gate_ns_ = 0;
  int plan_lead_ = 0;
  GroupCounters groups_;  // when the last step was reported
  std::optional<evenstep::v1::StepReport> pending_;
  int64_t evaluation_begin_ns_ = 0;
  int64_t evaluation_begin_cpu_ns_ = 0;
  int64_t evaluation_cpu_ns_ = 0;  // of the evaluation after the pending step
};

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_LOOP_STEP_RECORDER_H_
