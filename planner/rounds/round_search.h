#ifndef EVENSTEP_PLANNER_ROUNDS_ROUND_SEARCH_H_
#define EVENSTEP_PLANNER_ROUNDS_ROUND_SEARCH_H_

// The search under even_rounds.h, in the order in which it is used: all
// divisions of a small step into rounds; first divisions of a larger one; and
// what improves them. Stateless; deterministic; bounded by counted work.

#include <cstdint>
#include <vector>

#include "planner/costs/cost_table.h"
#include "planner/policies.h"
#include "planner/rounds/round_fill.h"
#include "planner/rounds/round_packing.h"

namespace evenstep::planner {

// For steps of few samples: dynamic programming over subsets, from the last
// rank to the first within a round, and over rounds.

// Whether samples and blocks are few enough.
bool ExactRoundsAreAffordable(const PolicyInput& input);

// An optimal plan. Requires ExactRoundsAreAffordable.
std::vector<Placement> PlaceRoundsExactly(const PolicyInput& input);

// First divisions by beam search: round after round is filled with the longest
// samples left and then with whatever still fits within its limit, for several
// limits and floors; the most promising few are carried on. A round may hold
// short samples beside long ones, which is what memory asks for when rounds are
// nearly full. At most `count` divisions, the fastest first; none if a step
// would need very many rounds.
std::vector<Rounds> SearchBeam(const CostTable& table, size_t count,
                               RoundFiller& filler);

// A first division into very many rounds: the samples in descending length, one
// limit for every round that allows it, each round as far as it reaches; the
// fastest over some limits. Linear in the samples for a limit, where SearchBeam
// looks at all samples for every round.
Rounds FillManyRounds(const CostTable& table, RoundFiller& filler);

// Fills every round anew where that lowers its peak.
void RefillRounds(const CostTable& table, RoundFiller& filler, Rounds& rounds);

// Lowers TotalNs(rounds) until it is at most `stop_ns`, nothing helps, or
// `work_left` (items tried) is used up. Pools two rounds and splits them anew;
// lowers a round's limit, or dissolves the round, and gives what no longer fits
// to the others by least increase of the sum of peaks; fills changed rounds
// anew (multifit); moves and swaps single items. Single moves alone can never
// remove a round, which is why dissolving is a step of its own.
void ImproveRounds(const CostTable& table, int64_t stop_ns, int64_t& work_left,
                   RoundFiller& filler, Rounds& rounds);

// Applies the best moves and swaps, one at a time, until none lowers the sum of
// peaks or `work_left` is used up: an item of a round's longest group goes
// elsewhere, or changes places with another.
void MoveAndSwap(const CostTable& table, int num_ranks, int64_t& work_left,
                 Rounds& rounds);

// Adds `item` where the sum of peaks rises least, then where it takes the least
// rank-time; never to round `except`. False if no round has room.
bool InsertItem(const CostTable& table, int num_ranks, int item, int except,
                Rounds& rounds);

}  // namespace evenstep::planner

#endif  // EVENSTEP_PLANNER_ROUNDS_ROUND_SEARCH_H_
