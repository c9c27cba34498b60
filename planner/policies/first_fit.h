#ifndef EVENSTEP_PLANNER_POLICIES_FIRST_FIT_H_
#define EVENSTEP_PLANNER_POLICIES_FIRST_FIT_H_

// Bins of one capacity that are filled first-fit, in O(log bins) an item: a
// maximum tree over the room left in each bin. Used by the packing policies.
// Not thread-safe; make one per packing.

#include <cstdint>
#include <vector>

namespace evenstep::planner {

class FirstFit {
 public:
  // At most `max_items` calls of Place.
  FirstFit(int64_t capacity, int max_items);

  // The first bin with room for `size`, opened if need be. `size` must not
  // exceed the capacity.
  int Place(int64_t size);

 private:
  int num_leaves_ = 1;
  std::vector<int64_t> room_;  // heap order: children of i are 2i and 2i + 1
};

}  // namespace evenstep::planner

#endif  // EVENSTEP_PLANNER_POLICIES_FIRST_FIT_H_
