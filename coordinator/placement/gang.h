#ifndef EVENSTEP_COORDINATOR_PLACEMENT_GANG_H_
#define EVENSTEP_COORDINATOR_PLACEMENT_GANG_H_

// Where the ranks of a job run: all of them or none. Pure; the job manager asks
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

// Why a job waits, for machines and for people.
struct PendingReason {
  std::string reason;   // NO_CAPACITY, BEHIND_PRIORITY or SETTLING
  std::string message;  // with the numbers and what would unblock it
};

// Jobs wait in order of arrival, and a waiting job holds up later ones so that
// small jobs cannot starve a large one. A job that is larger than the whole
// cluster holds nobody up.
struct WaitingJob {
  std::string job_id;
  int ranks = 0;
};

struct QueueVerdict {
  // The first job that can run now, if any, and where.
  struct Start {
    int index = 0;
    std::vector<NodeShare> shares;
  };
  std::optional<Start> start;
  // Parallel to the queue; empty reason for the one that starts. Reasons of
  // jobs behind the one that starts are those before it took its slots.
  std::vector<PendingReason> pending;
};

// `queue` in order of arrival.
QueueVerdict JudgeQueue(const std::vector<WaitingJob>& queue,
                        const std::vector<FreeNode>& nodes);

}  // namespace evenstep::coordinator

#endif  // EVENSTEP_COORDINATOR_PLACEMENT_GANG_H_
