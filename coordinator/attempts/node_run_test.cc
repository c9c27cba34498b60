#include "coordinator/attempts/node_run.h"

#include <map>
#include <utility>

#include "gtest/gtest.h"

namespace evenstep::coordinator {
namespace {

using enum NodeState;
using E = NodeEvent;

constexpr NodeState kAllStates[] = {kAssigned, kReady,       kBegun, kHeard,
                                    kLost,     kUnexplained, kGone};
constexpr NodeEvent kAllEvents[] = {E::kTakeShare, E::kForget, E::kBegin,
                                    E::kSpeak,     E::kLose,   E::kReturn,
                                    E::kVanish,    E::kEnd};

// The whole table, written a second time: everything else changes nothing.
const std::map<std::pair<NodeState, NodeEvent>, NodeState>& Moves() {
  static const auto* const moves =
      new std::map<std::pair<NodeState, NodeEvent>, NodeState>{
          {{kAssigned, E::kTakeShare}, kReady},
          {{kAssigned, E::kSpeak}, kHeard},
          {{kAssigned, E::kEnd}, kGone},
          {{kReady, E::kForget}, kAssigned},
          {{kReady, E::kBegin}, kBegun},
          {{kReady, E::kSpeak}, kHeard},
          {{kReady, E::kEnd}, kGone},
          {{kBegun, E::kSpeak}, kHeard},
          {{kBegun, E::kLose}, kLost},
          {{kBegun, E::kEnd}, kGone},
          {{kHeard, E::kLose}, kLost},
          {{kHeard, E::kVanish}, kUnexplained},
          {{kHeard, E::kEnd}, kGone},
          {{kLost, E::kReturn}, kHeard},
          {{kLost, E::kEnd}, kGone}};
  return *moves;
}

TEST(NodeRunTest, ExactlyTheMovesOfTheTableExist) {
  for (NodeState state : kAllStates) {
    for (NodeEvent event : kAllEvents) {
      const auto move = Moves().find({state, event});
      EXPECT_EQ(NextState(state, event),
                move == Moves().end() ? state : move->second)
          << "state " << static_cast<int>(state) << ", event "
          << static_cast<int>(event);
    }
  }
}

TEST(NodeRunTest, NothingComesBackToLifeWhereTheAttemptIsGone) {
  for (NodeEvent event : kAllEvents) {
    for (NodeState state : {kUnexplained, kGone}) {
      EXPECT_EQ(NextState(state, event), state);
    }
  }
}

// Trainers may live from the word to begin until the end is confirmed: no event
// but the end takes a node back to where nobody waits for it.
TEST(NodeRunTest, TrainersAreForgottenOnlyWhenTheyAreGone) {
  for (NodeState state : kAllStates) {
    if (!MayHaveTrainers(state)) continue;
    for (NodeEvent event : kAllEvents) {
      const NodeState next = NextState(state, event);
      EXPECT_TRUE(MayHaveTrainers(next) ||
                  (IsGone(next) && (event == E::kEnd || event == E::kVanish)));
    }
  }
}

TEST(NodeRunTest, ANodeIsGoneOrUnheardOrMayHaveTrainers) {
  for (NodeState state : kAllStates) {
    EXPECT_EQ(IsGone(state), !IsUnheard(state) && !MayHaveTrainers(state));
    if (HoldsShare(state)) {
      EXPECT_FALSE(IsGone(state));
    }
  }
}

TEST(NodeRunTest, NodesAreFoundByName) {
  NodeRuns nodes = {{{"a", 0, 2}}, {{"b", 2, 1}}};
  EXPECT_EQ(FindNode(nodes, "b"), &nodes[1]);
  EXPECT_EQ(FindNode(nodes, "c"), nullptr);
  EXPECT_FALSE(AllGone(nodes));
  for (NodeRun& node : nodes) node.Apply(E::kEnd);
  EXPECT_TRUE(AllGone(nodes));
}

}  // namespace
}  // namespace evenstep::coordinator
