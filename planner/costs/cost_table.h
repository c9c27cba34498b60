#ifndef EVENSTEP_PLANNER_COSTS_COST_TABLE_H_
#define EVENSTEP_PLANNER_COSTS_COST_TABLE_H_

// The costs of a step's samples, worked out once for all policies and for the
// lower bound. Immutable; safe to share between threads.

#include <cstdint>
#include <vector>

#include "planner/costs/cost_model.h"
#include "planner/costs/memory_model.h"
#include "planner/request.h"

namespace evenstep::planner {

// More than any capacity.
inline constexpr int64_t kNoRoom = int64_t{1} << 52;

// Speed of the fastest block of a class: that of its slowest rank.
int64_t FastestBlockSpeed(const PlanRequest& request, const CostModel& costs,
                          const BlockClass& block_class);

// Costs of every sample on every class of blocks and with every number of
// recomputed layers (mode), samples in descending length (ties by id). A level
// is one of both: levels 0..num_degrees()-1 are the classes in the first mode,
// by ascending degree, and so on. A degree is listed twice if some of its
// blocks lie across nodes, some within, and that costs differently.
class CostTable {
 public:
  // The request must be valid and CheckSamplesFit.
  CostTable(const PlanRequest& request, const CostModel& costs);

  int num_samples() const { return static_cast<int>(order_.size()); }
  int num_degrees() const { return static_cast<int>(degrees_.size()); }
  int num_modes() const { return static_cast<int>(modes_.size()); }
  int num_levels() const { return num_degrees() * num_modes(); }
  const BlockClass& block_class(int level) const {
    return degrees_[level % num_degrees()];
  }
  int degree(int level) const { return block_class(level).degree; }
  const LayerCounts& recompute_layers(int level) const {
    return modes_[level / num_degrees()];
  }
  int64_t capacity_tokens(int level) const { return capacity_tokens_[level]; }
  int64_t fixed_ns(int level) const { return fixed_ns_[level]; }
  // Index into the request of the i-th longest sample.
  int request_index(int i) const { return order_[i]; }
  int64_t length(int i) const { return lengths_[i]; }
  // What sample i takes of the capacity: its tokens, padded as this level needs
  // it; kNoRoom if the level cannot run it at all.
  int64_t tokens(int level, int i) const {
    return tokens_[level * order_.size() + i];
  }
  bool Allows(int level, int i) const {
    return tokens(level, i) <= capacity_tokens_[level];
  }
  // What sample i adds at this level, nominal speed.
  int64_t sample_ns(int level, int i) const {
    return sample_ns_[level * order_.size() + i];
  }
  // The first level of a mode that allows sample i; the mode's end if none
  // does. Wider ones may not (Allows), where the degree of a sample is capped.
  int first_level(int i, int mode = 0) const {
    return first_level_[mode * order_.size() + i];
  }
  int end_level(int mode) const { return (mode + 1) * num_degrees(); }
  // Rank-time of sample i with its share of the fixed cost, nominal speed.
  int64_t rank_ns(int level, int i) const {
    return rank_ns_[level * order_.size() + i];
  }
  // Least time from start to end at this level, on its fastest block.
  int64_t alone_ns(int level, int i) const {
    return alone_ns_[level * order_.size() + i];
  }

  // The level with the least rank-time among those that end within `limit_ns`;
  // the narrowest of equals; -1 if there is none.
  int BestLevel(int i, int64_t limit_ns) const;

 private:
  int FindBestLevel(int i, int64_t limit_ns) const;
  void FillLevel(const PlanRequest& request, const std::vector<Sample>& sorted,
                 const CostModel& costs, int level);

  std::vector<BlockClass> degrees_;
  std::vector<LayerCounts> modes_;
  std::vector<int64_t> capacity_tokens_;
  std::vector<int64_t> fixed_ns_;
  std::vector<int> order_;
  std::vector<int64_t> lengths_;
  std::vector<int64_t> tokens_;
  std::vector<int> first_level_;
  std::vector<int64_t> sample_ns_;
  std::vector<int64_t> rank_ns_;
  std::vector<int64_t> alone_ns_;
  std::vector<int> cheapest_level_;  // by sample, whatever the limit
};

}  // namespace evenstep::planner

#endif  // EVENSTEP_PLANNER_COSTS_COST_TABLE_H_
