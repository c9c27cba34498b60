#include "coordinator/server/node_table.h"

#include "gtest/gtest.h"

namespace evenstep::coordinator {
namespace {

class FakeLink : public AgentLink {
 public:
  void Send(const v1::CoordinatorMessage&) override { ++num_sent; }
  void Close(const absl::Status& status) override { closed = status; }
  int num_sent = 0;
  absl::Status closed;
};

v1::AgentHello Hello(const std::string& node, const std::string& incarnation,
                     const std::string& folder = "one") {
  v1::AgentHello hello;
  hello.set_folder_id(folder);
  hello.set_node(node);
  hello.set_incarnation(incarnation);
  hello.set_slots(4);
  return hello;
}

constexpr absl::Duration kStart = absl::Seconds(100);

class NodeTableTest : public ::testing::Test {
 protected:
  std::shared_ptr<FakeLink> Join(const std::string& node,
                                 const std::string& incarnation) {
    auto link = std::make_shared<FakeLink>();
    kind_ = *table_.Hello(Hello(node, incarnation), link, kStart);
    return link;
  }
  NodeTable table_{absl::Seconds(5), absl::Seconds(15)};
  HelloKind kind_ = HelloKind::kNew;
};

TEST_F(NodeTableTest, AReconnectIsToldFromARestart) {
  Join("a", "1");
  EXPECT_EQ(kind_, HelloKind::kNew);
  const auto link = Join("a", "1");
  EXPECT_EQ(kind_, HelloKind::kReconnected);
  table_.Disconnect(link.get(), kStart);
  Join("a", "2");
  EXPECT_EQ(kind_, HelloKind::kRestarted);
}

TEST_F(NodeTableTest, ASecondStreamReplacesTheFirst) {
  const auto first = Join("a", "1");
  const auto second = Join("a", "1");
  EXPECT_EQ(first->closed.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(table_.NodeOf(first.get()), nullptr);
  table_.Disconnect(first.get(), kStart);  // its late end changes nothing
  EXPECT_TRUE(table_.Send("a", {}));
  EXPECT_EQ(second->num_sent, 1);
}

TEST_F(NodeTableTest, TwoAgentsNeverShareAName) {
  const auto first = Join("a", "1");
  const auto second = std::make_shared<FakeLink>();
  const v1::AgentHello other = Hello("a", "2", "two");
  EXPECT_TRUE(
      absl::IsAlreadyExists(table_.Hello(other, second, kStart).status()));
  EXPECT_TRUE(first->closed.ok());
  EXPECT_NE(table_.NodeOf(first.get()), nullptr);
  // Its stream is down, it may be stopped: the name is its own for a lease.
  table_.Disconnect(first.get(), kStart);
  EXPECT_TRUE(
      absl::IsAlreadyExists(table_.Hello(other, second, kStart).status()));
  const absl::Duration later = kStart + absl::Seconds(5);
  EXPECT_EQ(table_.TakeLost(later).size(), 1u);
  const auto kind = table_.Hello(other, second, later);
  ASSERT_TRUE(kind.ok()) << kind.status();
  EXPECT_EQ(*kind, HelloKind::kNew);
}

TEST_F(NodeTableTest, AnAgentWithoutAFolderIsKnownByItsIncarnation) {
  auto link = std::make_shared<FakeLink>();
  ASSERT_TRUE(table_.Hello(Hello("a", "1", ""), link, kStart).ok());
  EXPECT_EQ(*table_.Hello(Hello("a", "1", ""), link, kStart),
            HelloKind::kReconnected);
  EXPECT_FALSE(table_.Hello(Hello("a", "2", ""), link, kStart).ok());
}

TEST_F(NodeTableTest, ALeaseOutlivesABrokenStreamButNotSilence) {
  const auto link = Join("a", "1");
  table_.Disconnect(link.get(), kStart);
  EXPECT_FALSE(table_.Send("a", {}));
  EXPECT_TRUE(table_.TakeLost(kStart + absl::Seconds(4)).empty());
  const auto lost = table_.TakeLost(kStart + absl::Seconds(5));
  ASSERT_EQ(lost.size(), 1u);
  EXPECT_EQ(lost[0].name, "a");
  EXPECT_EQ(lost[0].silence, absl::Seconds(5));
  EXPECT_TRUE(table_.TakeLost(kStart + absl::Seconds(6)).empty()) << "once";
}

TEST_F(NodeTableTest, MessagesRenewTheLease) {
  const auto link = Join("a", "1");
  table_.Renew(*table_.NodeOf(link.get()), kStart + absl::Seconds(3));
  EXPECT_TRUE(table_.TakeLost(kStart + absl::Seconds(22)).empty());
  const auto lost = table_.TakeLost(kStart + absl::Seconds(23));
  ASSERT_EQ(lost.size(), 1u);
  EXPECT_EQ(lost[0].silence, absl::Seconds(20));
  EXPECT_FALSE(link->closed.ok());
}

TEST_F(NodeTableTest, ANodeThatIsLateOnAnOpenStreamIsKeptButGetsNoWork) {
  const auto link = Join("a", "1");
  EXPECT_EQ(table_.Free({}, kStart + absl::Seconds(4))[0].free, 4);
  EXPECT_EQ(table_.Free({}, kStart + absl::Seconds(5))[0].free, 0);
  EXPECT_TRUE(table_.TakeLost(kStart + absl::Seconds(19)).empty());
  // Its stream broke at last: it has one lease to come back.
  table_.Disconnect(link.get(), kStart + absl::Seconds(19));
  EXPECT_TRUE(table_.TakeLost(kStart + absl::Seconds(23)).empty());
  EXPECT_EQ(table_.TakeLost(kStart + absl::Seconds(24)).size(), 1u);
}

TEST_F(NodeTableTest, ANodeWithLeftoversGetsNoNewWork) {
  const auto link = Join("a", "1");
  v1::AttemptId id;
  id.set_job_id("job");
  id.set_attempt(2);
  table_.AddLeftover("a", id);
  EXPECT_EQ(table_.Free({}, kStart)[0].free, 0);
  const absl::Duration interval = absl::Seconds(2);
  table_.EndLeftovers(kStart, interval);
  table_.EndLeftovers(kStart, interval);
  EXPECT_EQ(link->num_sent, 1);
  table_.EndLeftovers(kStart + interval, interval);
  EXPECT_EQ(link->num_sent, 2);
  v1::AttemptId other = id;
  other.set_attempt(1);
  table_.RemoveLeftover("a", other);
  EXPECT_EQ(table_.Free({}, kStart)[0].free, 0);
  table_.RemoveLeftover("a", id);
  EXPECT_EQ(table_.Free({}, kStart)[0].free, 4);
}

TEST_F(NodeTableTest, OnlyConnectedNodesHaveFreeSlots) {
  const auto a = Join("a", "1");
  Join("b", "1");
  EXPECT_EQ(table_.Free({{"b", 3}}, kStart).size(), 2u);
  EXPECT_EQ(table_.Free({{"b", 3}}, kStart)[1].free, 1);
  table_.Disconnect(a.get(), kStart);
  EXPECT_EQ(table_.Free({}, kStart).size(), 1u);
}

TEST_F(NodeTableTest, ANodeThatIsLeavingGetsNoNewWorkUntilItsAgentIsAnother) {
  auto link = Join("a", "1");
  table_.NodeOf(link.get())->leaving = true;
  EXPECT_TRUE(table_.Free({}, kStart).empty());
  table_.Disconnect(link.get(), kStart);
  link = Join("a", "1");
  EXPECT_TRUE(table_.Free({}, kStart).empty());
  table_.Disconnect(link.get(), kStart);
  Join("a", "2");
  EXPECT_EQ(table_.Free({}, kStart).size(), 1u);
}

TEST_F(NodeTableTest, LostNodesAreForgottenOnceTheyHoldNothing) {
  Join("a", "1");
  table_.TakeLost(kStart + absl::Seconds(20));
  table_.ForgetLost({{"a", 1}});
  EXPECT_NE(table_.Find("a"), nullptr);
  table_.ForgetLost({});
  EXPECT_EQ(table_.Find("a"), nullptr);
}

TEST_F(NodeTableTest, BadHellosAreRefused) {
  auto link = std::make_shared<FakeLink>();
  v1::AgentHello hello = Hello("a", "1");
  hello.set_slots(0);
  EXPECT_FALSE(table_.Hello(hello, link, kStart).ok());
  EXPECT_FALSE(table_.Hello(Hello("", "1"), link, kStart).ok());
  EXPECT_FALSE(table_.Hello(Hello("a", ""), link, kStart).ok());
  EXPECT_FALSE(
      table_.Hello(Hello(std::string(300, 'a'), "1"), link, kStart).ok());
  EXPECT_EQ(table_.Find("a"), nullptr);
}

}  // namespace
}  // namespace evenstep::coordinator
