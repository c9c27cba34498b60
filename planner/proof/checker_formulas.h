#ifndef EVENSTEP_PLANNER_PROOF_CHECKER_FORMULAS_H_
#define EVENSTEP_PLANNER_PROOF_CHECKER_FORMULAS_H_

// The planner's formulas written a second time for the checker, from the
// request alone and in plain order: sharing, padding, time and memory of a
// micro-batch. Uses validate.h, and none of sample_size.h, cost_model.h and
// memory_model.h: a mistake there has to show here. Stateless.

#include <cstdint>
#include <optional>

#include "planner/plan.h"
#include "planner/request.h"

namespace evenstep::planner::checker {

// How `degree` ranks have to share sequences.
struct Sharing {
  SpMode mode = SpMode::kUlysses;
  int ulysses = 1;
  int gather = 1;
};

// Nothing if the model cannot run at this degree.
std::optional<Sharing> SharingAt(const ModelShape& model, int degree);

// Of all ranks together. The micro-batch's degree must be legal. Nothing if
// some sample has fewer frames or patches than there are ranks.
std::optional<int64_t> PaddedTokensOf(const PlanRequest& request,
                                      const MicroBatch& batch);

// Needs padded_tokens, block, samples and recompute of the micro-batch.
int64_t NanosecondsOf(const PlanRequest& request, const MicroBatch& batch);

// The most of a rank for each of its own tokens, at least 1.
__int128 BytesPerTokenOf(const PlanRequest& request, const MicroBatch& batch);
// Activations of a rank; 0 if the request does not say what a token takes.
__int128 BytesOf(const PlanRequest& request, const MicroBatch& batch);
int64_t TokensARankHolds(const PlanRequest& request, const MicroBatch& batch);

}  // namespace evenstep::planner::checker

#endif  // EVENSTEP_PLANNER_PROOF_CHECKER_FORMULAS_H_
