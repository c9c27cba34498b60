#ifndef EVENSTEP_COORDINATOR_SERVER_NODE_TABLE_H_
#define EVENSTEP_COORDINATOR_SERVER_NODE_TABLE_H_

// The nodes that have said hello: their streams, slots and leases. A lease is
// renewed by any message; a node whose stream broke keeps its lease, so a quick
// reconnect loses nothing. A name belongs to the agents of one work folder
// until their lease has run out. Single owner: the event loop's thread.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/placement/gang.h"
#include "evenstep/v1/agent.pb.h"

namespace evenstep::coordinator {

// The sending end of an agent's stream. Calls never block.
class AgentLink {
 public:
  virtual ~AgentLink() = default;
  virtual void Send(const v1::CoordinatorMessage& message) = 0;
  virtual void Close(const absl::Status& status) = 0;
};

struct Node {
  std::string name;
  std::string incarnation;
  std::string folder_id;  // as FolderIdOf
  std::string version;
  std::string metrics_address;
  int slots = 0;
  std::shared_ptr<AgentLink> link;  // null: no stream
  absl::Duration lease_until;       // monotonic
  bool lost = false;                // lease ran out; not used until it is back
  bool leaving = false;             // its agent is stopping: gets no new work
  int num_refused = 0;              // messages of this stream
};

// What tells a restarted agent from another one of the same name.
inline const std::string& FolderIdOf(const v1::AgentHello& hello) {
  return hello.folder_id().empty() ? hello.incarnation() : hello.folder_id();
}

enum class HelloKind {
  kNew,          // not known, or lost before
  kReconnected,  // the same agent process
  kRestarted,    // another process in its work folder: the old one has ended
};

class NodeTable {
 public:
  explicit NodeTable(absl::Duration lease) : lease_(lease) {}

  // INVALID_ARGUMENT: as CheckHello (message_check.h).
  // RESOURCE_EXHAUSTED: too many nodes. ALREADY_EXISTS: another agent speaks
  // for the node. A former stream of the same agent is closed.
  absl::StatusOr<HelloKind> Hello(const v1::AgentHello& hello,
                                  std::shared_ptr<AgentLink> link,
                                  absl::Duration now);
  // The node that speaks on this link; nullptr: none, or replaced.
  Node* NodeOf(const AgentLink* link);
  const Node* Find(const std::string& name) const;
  bool IsConnected(const std::string& name) const;
  void Renew(Node& node, absl::Duration now) {
    node.lease_until = now + lease_;
  }
  // Every node that is not lost, with or without a stream.
  void RenewAll(absl::Duration now);
  // The stream is over. Nothing happens for a link that was replaced.
  void Disconnect(const AgentLink* link);
  // Names of nodes whose lease ran out since the last call. Their streams are
  // closed.
  std::vector<std::string> TakeLost(absl::Duration now);
  // Forgets lost nodes that hold nothing.
  void ForgetLost(const std::map<std::string, int>& used_slots);

  // False: the node has no stream.
  bool Send(const std::string& name, const v1::CoordinatorMessage& message);
  // Nodes that can take ranks.
  std::vector<FreeNode> Free(
      const std::map<std::string, int>& used_slots) const;
  const std::map<std::string, Node>& nodes() const { return nodes_; }

 private:
  const absl::Duration lease_;
  std::map<std::string, Node> nodes_;
};

}  // namespace evenstep::coordinator

#endif  // EVENSTEP_COORDINATOR_SERVER_NODE_TABLE_H_
