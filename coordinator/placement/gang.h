#ifndef EVENSTEP_COORDINATOR_PLACEMENT_GANG_H_
#define EVENSTEP_COORDINATOR_PLACEMENT_GANG_H_

// Where the ranks of a job run: all of them or none. Pure; the coordinator asks
// with the slots as they are and keeps what comes out.
//
// One node that holds the whole job is best, the one with the fewest slots left
// over. Otherwise whole free nodes, largest first, and the node that fits the
// rest best. Ranks of a node are consecutive. Ties go by name, so the same
// cluster gives the same placement.

#include <optional>
#include <string>
#include <vector>

namespace evenstep::coordinator {

struct FreeNode {
  std::string name;
  int slots = 0;
  int free = 0;  // 0..slots
};

struct NodeShare {
  std::string node;
  int first_rank = 0;
  int num_ranks = 0;

  friend bool operator==(const NodeShare&, const NodeShare&) = default;
};

// In order of ranks. Nothing if the free slots do not hold `ranks` together.
std::optional<std::vector<NodeShare>> PlaceGang(int ranks,
                                                std::vector<FreeNode> nodes);

// Over all nodes.
int TotalFree(const std::vector<FreeNode>& nodes);
int TotalSlots(const std::vector<FreeNode>& nodes);

}  // namespace evenstep::coordinator

#endif  // EVENSTEP_COORDINATOR_PLACEMENT_GANG_H_
