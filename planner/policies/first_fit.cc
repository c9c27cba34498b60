#include "planner/policies/first_fit.h"

#include <algorithm>

namespace evenstep::planner {

FirstFit::FirstFit(int64_t capacity, int max_items) {
  while (num_leaves_ < max_items) num_leaves_ *= 2;
  room_.assign(2 * num_leaves_, capacity);
}

int FirstFit::Place(int64_t size) {
  int node = 1;
  while (node < num_leaves_) {
    node *= 2;
    if (room_[node] < size) ++node;
  }
  room_[node] -= size;
  const int bin = node - num_leaves_;
  for (node /= 2; node >= 1; node /= 2) {
    room_[node] = std::max(room_[2 * node], room_[2 * node + 1]);
  }
  return bin;
}

}  // namespace evenstep::planner
