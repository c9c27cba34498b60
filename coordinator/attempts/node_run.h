#ifndef EVENSTEP_COORDINATOR_ATTEMPTS_NODE_RUN_H_
#define EVENSTEP_COORDINATOR_ATTEMPTS_NODE_RUN_H_

// One node of an attempt: how far it is with its share of the ranks, as one
// state, and the only moves that exist.
//
//   kAssigned <-> kReady -> kBegun -> kHeard <-> kLost
//       |           |                 ^    |
//       +-----------+-----------------+    +--> kUnexplained
//
// Every state but kUnexplained ends in kGone. An event without a move from the
// node's state changes nothing: agents repeat themselves, and an attempt never
// comes back to life on a node where it is gone. Plain data and pure functions.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "coordinator/placement/gang.h"
#include "evenstep/v1/agent.pb.h"

namespace evenstep::coordinator {

enum class NodeState {
  kAssigned,     // was sent its share
  kReady,        // holds its share, waits for the word to begin
  kBegun,        // was told to begin, so trainers may live there
  kHeard,        // has spoken of its trainers, so some live there
  kLost,         // cannot be asked; trainers may live there
  kUnexplained,  // has no trainers any more, may still say how they ended
  kGone,         // nothing of the attempt lives there
};

enum class NodeEvent {
  kTakeShare,  // it says that it holds its share
  kForget,     // its agent never got the share, or has forgotten it
  kBegin,      // it is told to begin
  kSpeak,      // it speaks of its trainers
  kLose,       // its lease is over
  kReturn,     // its agent comes back with the attempt
  kVanish,     // its agent comes back without the attempt that it ran
  kEnd,        // nothing of the attempt is left there, or can be
};

NodeState NextState(NodeState state, NodeEvent event);

// Nothing of the attempt lives there.
bool IsGone(NodeState state);
// Its processes have to be waited for.
bool MayHaveTrainers(NodeState state);
// Not gone, and nothing was heard of its trainers.
bool IsUnheard(NodeState state);
// Waits for the word to begin, or needs none.
bool HoldsShare(NodeState state);

struct NodeRun {
  NodeShare share;
  // The work folder of the agent that was given the share; empty: not known.
  std::string folder_id = {};
  NodeState state = NodeState::kAssigned;
  absl::Duration lost_at = {};        // kLost: since when (monotonic clock)
  absl::Duration explain_until = {};  // kUnexplained
  // Number of the last log line that came on its present stream; 0: none.
  int64_t last_log_line = 0;

  const std::string& name() const { return share.node; }
  void Apply(NodeEvent event) { state = NextState(state, event); }
};

// In order of their ranks.
using NodeRuns = std::vector<NodeRun>;

// nullptr: the node has no part in the attempt.
NodeRun* FindNode(NodeRuns& nodes, absl::string_view name);
const NodeRun* FindNode(const NodeRuns& nodes, absl::string_view name);
bool AllGone(const NodeRuns& nodes);

// How an attempt reaches the agents of its nodes. The name of a node may have
// gone to another agent, which knows nothing of the attempt.
class AttemptLinks {
 public:
  virtual ~AttemptLinks() = default;
  // The agent with the node's name is the one that was given the share, or its
  // successor in the same work folder; or there is none.
  virtual bool IsOwn(const NodeRun& node) const = 0;
  virtual bool IsConnected(const NodeRun& node) const = 0;
  // Dropped if the node is not its own or has no stream. RESOURCE_EXHAUSTED:
  // larger than a message may be; the text begins with "takes".
  virtual absl::Status Send(const NodeRun& node,
                            const v1::CoordinatorMessage& message) = 0;
};

}  // namespace evenstep::coordinator

#endif  // EVENSTEP_COORDINATOR_ATTEMPTS_NODE_RUN_H_
