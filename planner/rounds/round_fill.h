#ifndef EVENSTEP_PLANNER_ROUNDS_ROUND_FILL_H_
#define EVENSTEP_PLANNER_ROUNDS_ROUND_FILL_H_

// Fills one round with items, in descending length, so that every group ends
// within a limit: each item joins the first group of the smallest degree with
// room for it, else opens a group of the smallest degree that holds it within
// the limit. A floor on the degrees of new groups packs fewer, larger
// bins, which waste less memory. Used by round_beam, round_chains and
// round_search. Not
// thread-safe: holds scratch space; make one per search.

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "planner/costs/cost_table.h"
#include "planner/rounds/room_tree.h"
#include "planner/rounds/round_packing.h"

namespace evenstep::planner {

struct FillRule {
  int64_t limit_ns = 0;
  int floor = 0;  // level of the first mode
  int mode = 0;   // of the groups that are opened
};

class RoundFiller {
 public:
  RoundFiller(const CostTable& table, int num_ranks);

  int num_ranks() const { return num_ranks_; }
  // Least time of one item alone, over all levels.
  int64_t AloneNs(int item) const;
  // Least rank-time of one item, over all levels, without fixed costs.
  int64_t RankNs(int item) const;
  // Least limit at which a fill of all items in this mode can succeed: the
  // slowest item alone, and the area. INT64_MAX if memory cannot hold them.
  int64_t LeastLimitNs(absl::Span<const int> items, int mode) const;
  int64_t LeastLimitNs(absl::Span<const int> items) const;  // of all modes
  // Number of items placed before the first that cannot be.
  int FillPrefix(absl::Span<const int> items, const FillRule& rule);
  // Places what it can; the others, in order, go to `left`.
  void FillAny(absl::Span<const int> items, const FillRule& rule,
               std::vector<int>& left);
  // What the last call placed, every group in the fastest mode that holds it.
  Round TakeRound() const;
  // Time of the longest group of the last call.
  int64_t PeakNs() const;
  // Items tried since this was made.
  int64_t work() const { return work_; }

 private:
  struct Open {
    int level;
    int degree_index;
    int slot;  // in the tree of its degree
  };

  void Begin(const FillRule& rule);
  bool Place(int item);
  bool IsLikeRejected(int item) const;
  // Index of the group, or -1.
  int FindOpen(int item) const;
  int OpenFor(int item);
  int LevelToOpen(int item) const;

  const CostTable& table_;
  const int num_ranks_;
  struct Least {
    int64_t alone_ns = INT64_MAX;
    int64_t rank_ns = INT64_MAX;  // without fixed cost
  };
  std::vector<Least> least_;  // by mode and item
  FillRule rule_;
  int free_ranks_ = 0;
  int rejected_ = -1;                       // the last item that found no place
  std::vector<RoomTree> rooms_;             // by degree
  std::vector<std::vector<int>> group_at_;  // by degree and slot
  std::vector<int> used_degrees_;           // ascending
  std::vector<Open> open_;
  std::vector<int> placed_;    // items
  std::vector<int> group_of_;  // parallel to placed_
  int64_t work_ = 0;
};

// Levels worth trying as floors: the first of at least 1 and 8 ranks.
std::vector<int> FloorLevels(const CostTable& table);
// The first mode, a middle one and the last.
std::vector<int> FewModes(const CostTable& table);

// The round of least peak that holds all items, by multifit: bisection on the
// limit for every floor. False if no fill below `below_ns` was found.
bool Multifit(absl::Span<const int> items, const CostTable& table,
              int64_t below_ns, RoundFiller& filler, Round& round);

}  // namespace evenstep::planner

#endif  // EVENSTEP_PLANNER_ROUNDS_ROUND_FILL_H_
