#include "worker/trainer/link/gate.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace evenstep::trainer {
namespace {

// Slots of the reduced vector. A maximum is a minimum of complements: ~x falls
// where x rises, over the whole range. The stop flag is 0 when raised, so that
// one raised flag wins; of several failures the first in the enum wins.
enum Slot {
  kNextStepMin,
  kNextStepMaxComplement,
  kNewestRunnable,
  kDigestMin,
  kDigestMaxComplement,
  kNoStop,
  kFailure,
  kNumSlots,
};
using Ballot = std::array<int64_t, kNumSlots>;

// Larger than any vote: the rank has no say.
constexpr int64_t kNeutral = std::numeric_limits<int64_t>::max();

Ballot Encode(const GateVote& vote) {
  const auto digest = static_cast<int64_t>(vote.digest);
  Ballot ballot;
  ballot[kNextStepMin] = vote.next_step;
  ballot[kNextStepMaxComplement] = ~vote.next_step;
  ballot[kNewestRunnable] = vote.newest_runnable;
  ballot[kDigestMin] = vote.holds_plan ? digest : kNeutral;
  ballot[kDigestMaxComplement] = vote.holds_plan ? ~digest : kNeutral;
  ballot[kNoStop] = vote.stop_requested ? 0 : 1;
  ballot[kFailure] =
      vote.failure.has_value() ? static_cast<int64_t>(*vote.failure) : kNeutral;
  return ballot;
}

bool NobodyHoldsThePlan(const Ballot& ballot) {
  return ballot[kDigestMin] == kNeutral &&
         ballot[kDigestMaxComplement] == kNeutral;
}

bool DigestsDiffer(const Ballot& ballot) {
  return !NobodyHoldsThePlan(ballot) &&
         ballot[kDigestMin] != ~ballot[kDigestMaxComplement];
}

// Nothing: somebody is not ready. Depends on the ballot alone, so that all
// ranks decide the same.
std::optional<GateDecision> Decide(const Ballot& ballot) {
  if (ballot[kFailure] != kNeutral) return GateDecision::kFailed;
  if (DigestsDiffer(ballot)) return GateDecision::kPlanMismatch;
  if (ballot[kNoStop] == 0) return GateDecision::kStop;
  if (ballot[kNewestRunnable] >= ballot[kNextStepMin]) {
    return GateDecision::kRun;
  }
  return std::nullopt;
}

GateResult MakeResult(GateDecision decision, const Ballot& ballot) {
  GateResult result;
  result.decision = decision;
  if (decision == GateDecision::kFailed) {
    result.failure = static_cast<FailureReason>(ballot[kFailure]);
  }
  return result;
}

}  // namespace

Gate::Gate(MinReduce reduce, Sleep sleep, GateOptions options)
    : reduce_(std::move(reduce)), sleep_(std::move(sleep)), options_(options) {}

absl::StatusOr<GateResult> Gate::Pass(const Vote& vote) {
  absl::Duration wait = options_.first_wait;
  while (true) {
    Ballot ballot = Encode(vote());
    EVENSTEP_RETURN_IF_ERROR(reduce_(absl::MakeSpan(ballot)));
    if (ballot[kNextStepMin] != ~ballot[kNextStepMaxComplement]) {
      return absl::InternalError(absl::StrCat(
          "ranks ask the gate about different steps: ", ballot[kNextStepMin],
          " to ", ~ballot[kNextStepMaxComplement]));
    }
    if (const auto decision = Decide(ballot)) {
      return MakeResult(*decision, ballot);
    }
    sleep_(wait);
    wait = std::min(2 * wait, options_.longest_wait);
  }
}

}  // namespace evenstep::trainer
