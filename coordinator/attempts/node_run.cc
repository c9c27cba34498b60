#include "coordinator/attempts/node_run.h"

#include <algorithm>

namespace evenstep::coordinator {
namespace {

using S = NodeState;
using E = NodeEvent;

struct Move {
  NodeState from;
  NodeEvent event;
  NodeState to;
};

constexpr Move kMoves[] = {
    {S::kAssigned, E::kTakeShare, S::kReady},
    {S::kReady, E::kForget, S::kAssigned},
    {S::kReady, E::kBegin, S::kBegun},
    // No agent speaks of trainers that it was not told to start. If one does
    // all the same, they have to be waited for.
    {S::kAssigned, E::kSpeak, S::kHeard},
    {S::kReady, E::kSpeak, S::kHeard},
    {S::kBegun, E::kSpeak, S::kHeard},
    {S::kBegun, E::kLose, S::kLost},
    {S::kHeard, E::kLose, S::kLost},
    {S::kLost, E::kReturn, S::kHeard},
    {S::kHeard, E::kVanish, S::kUnexplained},
    {S::kAssigned, E::kEnd, S::kGone},
    {S::kReady, E::kEnd, S::kGone},
    {S::kBegun, E::kEnd, S::kGone},
    {S::kHeard, E::kEnd, S::kGone},
    {S::kLost, E::kEnd, S::kGone},
};

template <typename Node, typename Nodes>
Node* Find(Nodes& nodes, absl::string_view name) {
  const auto it =
      std::find_if(nodes.begin(), nodes.end(),
                   [&](const NodeRun& node) { return node.name() == name; });
  return it == nodes.end() ? nullptr : &*it;
}

}  // namespace

NodeState NextState(NodeState state, NodeEvent event) {
  for (const Move& move : kMoves) {
    if (move.from == state && move.event == event) return move.to;
  }
  return state;
}

bool IsGone(NodeState state) {
  return state == S::kUnexplained || state == S::kGone;
}

bool MayHaveTrainers(NodeState state) {
  return state == S::kBegun || state == S::kHeard || state == S::kLost;
}

bool IsUnheard(NodeState state) {
  return state == S::kAssigned || state == S::kReady || state == S::kBegun;
}

bool HoldsShare(NodeState state) {
  return state == S::kReady || state == S::kBegun || state == S::kHeard;
}

NodeRun* FindNode(NodeRuns& nodes, absl::string_view name) {
  return Find<NodeRun>(nodes, name);
}

const NodeRun* FindNode(const NodeRuns& nodes, absl::string_view name) {
  return Find<const NodeRun>(nodes, name);
}

bool AllGone(const NodeRuns& nodes) {
  return std::all_of(nodes.begin(), nodes.end(),
                     [](const NodeRun& node) { return IsGone(node.state); });
}

}  // namespace evenstep::coordinator
