#ifndef EVENSTEP_PLANNER_DEGREES_H_
#define EVENSTEP_PLANNER_DEGREES_H_

// Which degrees and blocks exist: what the heads allow, where blocks stand, how
// padding follows the degree, and what fits. Used by every policy and by submit
// time checks. Stateless.
//
// Aligned blocks: a block of degree d, a power of two, starts at a multiple of
// d and ends within the world; the whole world is a block too, if its size is a
// legal degree. So two blocks are nested or disjoint, for every world size: on
// 6 ranks a block of 4 leaves one of 2.
// Contiguous blocks: any degree that the model allows, from any rank.

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "planner/request.h"

namespace evenstep::planner {

struct Block {
  int first_rank = 0;
  int degree = 1;

  friend bool operator==(const Block&, const Block&) = default;
};

// Ulysses: the degree divides the query heads, and either divides the K/V heads
// or is a multiple of them (then K and V are replicated).
bool HeadsAllow(const ModelShape& model, int degree);

// As LegalDegrees of planner.h: ascending, 1 always among them.
std::vector<int> LegalDegreesFor(int num_ranks, const ModelShape& model,
                                 BlockShape shape);

// Blocks of one degree, by first rank. `degree` must be legal.
std::vector<Block> AlignedBlocks(int num_ranks, int degree);
std::vector<Block> BlocksOf(int num_ranks, int degree, BlockShape shape);

// Tokens of a micro-batch after Ulysses padding: up to a multiple of `degree`.
int64_t PaddedTokens(int64_t tokens, int64_t degree);

// Numbers of recomputed layers that a plan may use, ascending: the choices and
// options.recompute_layers.
std::vector<int> RecomputeModes(const PlanRequest& request);

// Tokens that a rank can hold with so many layers recomputed; at most
// kMaxTokensPerRank.
int64_t TokensPerRank(const PlanRequest& request, int recompute_layers);
// The most over all modes.
int64_t MostTokensPerRank(const PlanRequest& request);

// The smallest legal degree that holds the longest sample of the run (of the
// step, where the run does not say) with options.recompute_layers.
// FAILED_PRECONDITION with the numbers.
absl::StatusOr<int> StaticDegree(const PlanRequest& request);

// FAILED_PRECONDITION naming the longest sample if no legal degree holds it
// in any mode.
absl::Status CheckSamplesFit(const PlanRequest& request);

}  // namespace evenstep::planner

#endif  // EVENSTEP_PLANNER_DEGREES_H_
