#ifndef EVENSTEP_WORKER_TRAINER_LINK_GATE_H_
#define EVENSTEP_WORKER_TRAINER_LINK_GATE_H_

// The gate between steps: one small MIN all-reduce over all ranks, by which
// they agree on what comes next. Every rank sees the same combined vote, so
// every rank decides the same: run the step, stop, or fail. A rank that is not
// ready makes all ask again, outside collectives. Called by the step loop; one
// Gate per rank; not thread-safe. Reduction, sleep and votes are injected.

#include <cstdint>
#include <functional>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "worker/trainer/link/failure.h"

namespace evenstep::trainer {

// What one rank says at one ask.
struct GateVote {
  int64_t next_step = 0;
  // Newest step that this rank could run: plans held without a hole, groups
  // built, samples of next_step read. next_step - 1: not ready.
  int64_t newest_runnable = -1;
  // Digest of the plan of next_step; looked at only if holds_plan.
  bool holds_plan = false;
  uint64_t digest = 0;
  bool stop_requested = false;
  // Set: this rank cannot go on, and all fail at this gate.
  std::optional<FailureReason> failure;
};

enum class GateDecision { kRun, kStop, kPlanMismatch, kFailed };

struct GateResult {
  GateDecision decision = GateDecision::kRun;
  // Why all fail, when the decision is kFailed; the same on all ranks.
  FailureReason failure = FailureReason::kInternal;
};

struct GateOptions {
  absl::Duration first_wait = absl::Milliseconds(5);
  absl::Duration longest_wait = absl::Milliseconds(100);
};

class Gate {
 public:
  // Replaces each value by its minimum over all ranks.
  using MinReduce = std::function<absl::Status(absl::Span<int64_t>)>;
  using Sleep = std::function<void(absl::Duration)>;
  // Asked afresh before every reduction.
  using Vote = std::function<GateVote()>;

  Gate(MinReduce reduce, Sleep sleep, GateOptions options = {});

  // Returns when all ranks have decided. An error of the reduction is returned
  // as it is; INTERNAL: ranks ask about different steps.
  absl::StatusOr<GateResult> Pass(const Vote& vote);

 private:
  MinReduce reduce_;
  Sleep sleep_;
  GateOptions options_;
};

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_LINK_GATE_H_
