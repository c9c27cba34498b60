#ifndef EVENSTEP_PLANNER_EVEN_CANDIDATE_SET_H_
#define EVENSTEP_PLANNER_EVEN_CANDIDATE_SET_H_

// The plans that `even` chooses from: its own and those of other rules, so that
// it is never slower than they are. Rules that cannot win are not run. Not
// thread-safe: one set per plan.

#include <cstdint>
#include <optional>
#include <vector>

#include "planner/policies.h"

namespace evenstep::planner {

// Keeps the fastest placements offered that keep within the groups a rank may
// have.
class CandidateSet {
 public:
  explicit CandidateSet(const PolicyInput& input);

  void Offer(std::vector<Placement> placements);
  void OfferEach(std::vector<std::vector<Placement>> several);
  // Whether some placements needed too many groups.
  bool refused() const { return refused_; }
  bool empty() const { return placements_.empty(); }
  // Whether hardly anything is left to gain on the best so far.
  bool IsNearBound() const;
  // Whether the best so far recomputes anything: where recompute is chosen,
  // only for want of memory.
  bool Recomputes() const;
  // Of the best so far; the greatest number if there is none.
  int64_t step_ns() const { return step_ns_; }
  std::vector<Placement> Take() { return std::move(placements_); }

 private:
  // Gives every micro-batch the fastest mode that holds it; its own on a tie.
  void LowerRecompute(std::vector<Placement>& placements) const;

  const PolicyInput& input_;
  std::vector<CostModel> costs_of_mode_;
  bool refused_ = false;
  int64_t step_ns_ = INT64_MAX;
  std::vector<Placement> placements_;
};

// The other policies, and the published rules if the best so far is not near
// the bound. Run after `even`'s own plan was offered.
void AddBaselineCandidates(const PolicyInput& input, CandidateSet& candidates);

}  // namespace evenstep::planner

#endif  // EVENSTEP_PLANNER_EVEN_CANDIDATE_SET_H_
