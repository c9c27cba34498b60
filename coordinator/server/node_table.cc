#include "coordinator/server/node_table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "coordinator/server/message_check.h"
#include "rpc/transport.h"

namespace evenstep::coordinator {
namespace {

constexpr size_t kMaxNodes = 4096;

}  // namespace

absl::StatusOr<HelloKind> NodeTable::Hello(const v1::AgentHello& hello,
                                           std::shared_ptr<AgentLink> link,
                                           absl::Duration now) {
  EVENSTEP_RETURN_IF_ERROR(CheckHello(hello));
  const Node* const former = Find(hello.node());
  if (former != nullptr && !former->lost &&
      former->incarnation != hello.incarnation() &&
      former->folder_id != FolderIdOf(hello)) {
    return absl::AlreadyExistsError(absl::StrCat(
        "node name '", hello.node(),
        "' is in use by another agent; give each agent its own --node (an "
        "agent with a new --work-dir waits until the node is lost)"));
  }
  const bool known = former != nullptr;
  if (!known && nodes_.size() >= kMaxNodes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("there are ", nodes_.size(), " nodes already, the limit"));
  }
  Node& node = nodes_[hello.node()];
  const HelloKind kind = !known || node.lost ? HelloKind::kNew
                         : node.incarnation == hello.incarnation()
                             ? HelloKind::kReconnected
                             : HelloKind::kRestarted;
  if (node.link != nullptr) {
    node.link->Close(absl::AbortedError(
        absl::StrCat("another stream of node '", hello.node(), "' took over")));
  }
  node.name = hello.node();
  node.incarnation = hello.incarnation();
  node.folder_id = FolderIdOf(hello);
  node.version = hello.version();
  node.metrics_address = hello.metrics_address();
  node.slots = hello.slots();
  node.num_refused = 0;
  node.link = std::move(link);
  node.lost = false;
  node.leftovers.clear();
  node.end_leftovers_at = now;
  node.leaving = node.leaving && kind == HelloKind::kReconnected;
  Renew(node, now);
  return kind;
}

Node* NodeTable::NodeOf(const AgentLink* link) {
  for (auto& [name, node] : nodes_) {
    if (node.link.get() == link) return &node;
  }
  return nullptr;
}

const Node* NodeTable::Find(const std::string& name) const {
  const auto it = nodes_.find(name);
  return it == nodes_.end() ? nullptr : &it->second;
}

bool NodeTable::IsConnected(const std::string& name) const {
  const Node* const node = Find(name);
  return node != nullptr && node->link != nullptr;
}

void NodeTable::RenewAll(absl::Duration now) {
  for (auto& [name, node] : nodes_) {
    if (!node.lost) Renew(node, now);
  }
}

void NodeTable::AddLeftover(const std::string& name, const v1::AttemptId& id) {
  const auto it = nodes_.find(name);
  if (it == nodes_.end()) return;
  it->second.leftovers.push_back(id);
}

void NodeTable::RemoveLeftover(const std::string& name,
                               const v1::AttemptId& id) {
  const auto it = nodes_.find(name);
  if (it == nodes_.end()) return;
  std::erase_if(it->second.leftovers, [&](const v1::AttemptId& leftover) {
    return leftover.job_id() == id.job_id() &&
           leftover.attempt() == id.attempt();
  });
}

void NodeTable::EndLeftovers(absl::Duration now, absl::Duration interval) {
  for (auto& [name, node] : nodes_) {
    if (node.link == nullptr || node.leftovers.empty() ||
        now < node.end_leftovers_at) {
      continue;
    }
    node.end_leftovers_at = now + interval;
    for (const v1::AttemptId& id : node.leftovers) {
      v1::CoordinatorMessage message;
      *message.mutable_end()->mutable_attempt() = id;
      message.mutable_end()->set_message("the attempt is over");
      node.link->Send(message);
    }
  }
}

void NodeTable::Disconnect(const AgentLink* link, absl::Duration now) {
  Node* const node = NodeOf(link);
  if (node == nullptr) return;
  node->link = nullptr;
  Renew(*node, now);
}

std::vector<LostNode> NodeTable::TakeLost(absl::Duration now) {
  std::vector<LostNode> lost;
  for (auto& [name, node] : nodes_) {
    const absl::Duration limit = SilenceLimit(node);
    if (node.lost || now - node.lease_from < limit) continue;
    node.lost = true;
    lost.push_back({name, limit});
    if (node.link == nullptr) continue;
    node.link->Close(absl::UnavailableError(
        absl::StrCat("node '", name, "' was silent for ",
                     absl::FormatDuration(limit), "; connect again")));
    node.link = nullptr;
  }
  return lost;
}

void NodeTable::ForgetLost(const std::map<std::string, int>& used_slots) {
  std::erase_if(nodes_, [&](const auto& entry) {
    return entry.second.lost && !used_slots.contains(entry.first);
  });
}

bool NodeTable::Send(const std::string& name,
                     const v1::CoordinatorMessage& message) {
  const Node* const node = Find(name);
  if (node == nullptr || node->link == nullptr) return false;
  node->link->Send(message);
  return true;
}

std::vector<FreeNode> NodeTable::Free(
    const std::map<std::string, int>& used_slots, absl::Duration now) const {
  std::vector<FreeNode> free;
  for (const auto& [name, node] : nodes_) {
    if (node.lost || node.leaving || node.link == nullptr) continue;
    const bool must_wait =
        !node.leftovers.empty() || now - node.lease_from >= lease_;
    const auto used = used_slots.find(name);
    const int taken = used == used_slots.end() ? 0 : used->second;
    const int left = must_wait ? 0 : std::max(0, node.slots - taken);
    free.push_back({name, node.slots, left});
  }
  return free;
}

bool NodeTableLinks::IsOwn(const NodeRun& node) const {
  const Node* const known = nodes_.Find(node.name());
  return node.folder_id.empty() || known == nullptr ||
         known->folder_id == node.folder_id;
}

absl::Status NodeTableLinks::Send(const NodeRun& node,
                                  const v1::CoordinatorMessage& message) {
  if (!IsOwn(node)) return absl::OkStatus();
  const size_t bytes = message.ByteSizeLong();
  if (bytes <= rpc::kMaxMessageBytes) {
    nodes_.Send(node.name(), message);
    return absl::OkStatus();
  }
  // The stream would break on it, and break again after every reconnect.
  metrics_.CountRefusedMessage("outgoing", "too_large");
  return absl::ResourceExhaustedError(absl::StrCat(
      "takes ", bytes, " bytes, and a message to an agent at most ",
      rpc::kMaxMessageBytes));
}

}  // namespace evenstep::coordinator
