#ifndef EVENSTEP_COORDINATOR_SERVER_NODE_TABLE_H_
#define EVENSTEP_COORDINATOR_SERVER_NODE_TABLE_H_

// The nodes that have said hello: their streams, slots and leases. Any message
// renews a lease. A node whose stream broke is lost one lease later, so a quick
// reconnect loses nothing. A node that is silent on an open stream has more
// time: its host answers, and its agent may only lack CPU time. A name belongs
// to the agents of one work folder until their node is lost. Single owner: the
// event loop's thread.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/attempts/node_run.h"
#include "coordinator/placement/gang.h"
#include "coordinator/server/metrics.h"
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
  absl::Duration lease_from;        // monotonic: last message, or end of stream
  bool lost = false;                // not used until it is back
  // Attempts that its agent runs and that are over here. Their processes may
  // live, so the node gets no new work before the agent confirms the end.
  std::vector<v1::AttemptId> leftovers;
  absl::Duration end_leftovers_at;  // told to end them next
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

struct LostNode {
  std::string name;
  absl::Duration silence;  // the limit that it passed
};

class NodeTable {
 public:
  // How long a node may be silent without a stream, and how much longer with an
  // open one.
  NodeTable(absl::Duration lease, absl::Duration stream_grace)
      : lease_(lease), stream_grace_(stream_grace) {}

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
  void Renew(Node& node, absl::Duration now) { node.lease_from = now; }
  // Every node that is not lost, with or without a stream.
  void RenewAll(absl::Duration now);
  // A hello starts the list anew.
  void AddLeftover(const std::string& name, const v1::AttemptId& id);
  // Tells their nodes to end them, and again after `interval`.
  void EndLeftovers(absl::Duration now, absl::Duration interval);
  void RemoveLeftover(const std::string& name, const v1::AttemptId& id);
  // The stream is over. Nothing happens for a link that was replaced.
  void Disconnect(const AgentLink* link, absl::Duration now);
  // Nodes that have been lost since the last call. Their streams are closed.
  std::vector<LostNode> TakeLost(absl::Duration now);
  // Forgets lost nodes that hold nothing.
  void ForgetLost(const std::map<std::string, int>& used_slots);

  // False: the node has no stream.
  bool Send(const std::string& name, const v1::CoordinatorMessage& message);
  // Nodes that take ranks. One that has leftovers, or was not heard for a
  // lease, has no free slots: it counts, but must wait.
  std::vector<FreeNode> Free(const std::map<std::string, int>& used_slots,
                             absl::Duration now) const;
  const std::map<std::string, Node>& nodes() const { return nodes_; }

 private:
  absl::Duration SilenceLimit(const Node& node) const {
    return node.link == nullptr ? lease_ : lease_ + stream_grace_;
  }

  const absl::Duration lease_;
  const absl::Duration stream_grace_;
  std::map<std::string, Node> nodes_;
};

// How attempts reach their nodes. Both outlive it.
class NodeTableLinks : public AttemptLinks {
 public:
  NodeTableLinks(NodeTable& nodes, Metrics& metrics)
      : nodes_(nodes), metrics_(metrics) {}
  bool IsOwn(const NodeRun& node) const override;
  bool IsConnected(const NodeRun& node) const override {
    return nodes_.IsConnected(node.name());
  }
  absl::Status Send(const NodeRun& node,
                    const v1::CoordinatorMessage& message) override;

 private:
  NodeTable& nodes_;
  Metrics& metrics_;
};

}  // namespace evenstep::coordinator

#endif  // EVENSTEP_COORDINATOR_SERVER_NODE_TABLE_H_
