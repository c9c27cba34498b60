#include "coordinator/server/message_check.h"

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "coordinator/testing/test_run.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wire/job_spec_proto.h"

namespace evenstep::coordinator {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kSteps = 20;

v1::AttemptId Id() {
  v1::AttemptId id;
  id.set_job_id("job");
  id.set_attempt(1);
  id.set_generation(1);
  return id;
}

// Node a runs rank 0, node b runs rank 1; two steps are planned, the first of
// them is committed.
class MessageCheckTest : public ::testing::Test {
 protected:
  MessageCheckTest() {
    planner::TimeModel costs;
    costs.linear_ns_per_token = 100;
    run_.steps().SetCosts(costs);
    run_.steps().OpenForData();
    for (int64_t step = 0; step < 2; ++step) {
      for (int rank : {0, 1}) {
        EXPECT_TRUE(
            run_.steps()
                .AddLengths(
                    testing::Lengths(Id(), rank, 2, step).lengths().report())
                .ok());
      }
      PlanOutcome outcome = PlanStep(*run_.steps().NextWork(),
                                     planner::RealPlanner(), RealClock());
      EXPECT_TRUE(run_.steps().Accept(std::move(outcome)).ok());
    }
    run_.steps().Forget(0);
  }

  MessageVerdict Check(const v1::AgentMessage& message,
                       const std::string& node) {
    return CheckAgentMessage(message, {node, &run_, true});
  }
  Verdict VerdictOf(const v1::AgentMessage& message, const std::string& node) {
    return Check(message, node).verdict;
  }
  // For an attempt whose costs are not known yet.
  Verdict VerdictOfCosts(const v1::AgentMessage& message) {
    const testing::TestRun fresh(Id(), {"a", "b"}, kSteps);
    return CheckAgentMessage(message, {"a", &fresh.run, true}).verdict;
  }
  v1::AgentMessage StepOf(int rank) {
    return testing::Step(Id(), rank, *run_.steps().Find(1));
  }

  testing::TestRun test_{Id(), {"a", "b"}, kSteps};
  AttemptRun& run_ = test_.run;
};

TEST_F(MessageCheckTest, WhatAnHonestAgentSaysIsTaken) {
  v1::AgentMessage abandon = testing::CollectiveFailed(Id(), 0);
  abandon.mutable_abandon()->set_step(3);
  for (const v1::AgentMessage& message :
       {testing::Ready(Id()), testing::Data(Id(), 0),
        testing::Lengths(Id(), 0, 2, 2), testing::Started(Id(), 0), StepOf(0),
        testing::Log(Id(), 0, "line"), testing::Log(Id(), -1, "agent"),
        testing::CleanExit(Id(), 0, kSteps), testing::Killed(Id(), 0, 9),
        abandon, testing::AgentStopping(Id()), testing::Ended(Id())}) {
    const MessageVerdict verdict = Check(message, "a");
    EXPECT_EQ(verdict.verdict, Verdict::kTake)
        << message.ShortDebugString() << verdict.error;
  }
  EXPECT_EQ(VerdictOfCosts(testing::Costs(Id())), Verdict::kTake);
  EXPECT_EQ(VerdictOf(testing::Costs(Id()), "a"), Verdict::kRepeat);
}

TEST_F(MessageCheckTest, NobodySpeaksForARankOfAnotherNode) {
  for (int rank : {0, 2, 77, -1, -5, std::numeric_limits<int>::min(),
                   std::numeric_limits<int>::max()}) {
    std::vector<v1::AgentMessage> messages = {
        testing::Data(Id(), rank), testing::Started(Id(), rank),
        testing::CleanExit(Id(), rank, kSteps), testing::Killed(Id(), rank, 9)};
    v1::AgentMessage lengths = testing::Lengths(Id(), 1, 2, 0);  // is planned
    lengths.mutable_lengths()->mutable_report()->set_rank(rank);
    messages.push_back(lengths);
    lengths = testing::Lengths(Id(), 1, 2, 2);
    lengths.mutable_lengths()->mutable_report()->set_rank(rank);
    messages.push_back(lengths);
    v1::AgentMessage step = StepOf(1);
    step.mutable_step()->mutable_report()->set_rank(rank);
    messages.push_back(step);
    if (rank != -1) {  // the agent itself
      messages.push_back(testing::CollectiveFailed(Id(), rank));
      messages.push_back(testing::Log(Id(), rank, "line"));
    }
    for (const v1::AgentMessage& message : messages) {
      const MessageVerdict verdict = Check(message, "b");
      EXPECT_EQ(verdict.verdict, Verdict::kRefuse)
          << message.ShortDebugString();
      EXPECT_STREQ(verdict.reason, "rank");
      EXPECT_THAT(std::string(verdict.error.message()), HasSubstr("node b"));
    }
  }
  EXPECT_EQ(VerdictOf(testing::Costs(Id()), "b"), Verdict::kRefuse)
      << "rank 0 measures";
}

TEST_F(MessageCheckTest, OtherAttemptsAreStaleAndForeignOnesRefused) {
  v1::AttemptId old = Id();
  old.set_generation(0);
  EXPECT_EQ(VerdictOf(testing::Started(old, 0), "a"), Verdict::kStale);
  const std::string node = "a";
  EXPECT_EQ(CheckAgentMessage(testing::Started(Id(), 0), {node, nullptr, false})
                .verdict,
            Verdict::kStale);
  EXPECT_EQ(CheckAgentMessage(testing::Started(Id(), 0), {node, &run_, false})
                .verdict,
            Verdict::kStale)
      << "another agent has the name now";
  EXPECT_EQ(VerdictOf(testing::Ended(Id()), "c"), Verdict::kRefuse);
  for (const std::string& job : {std::string(), std::string(64, 'a'),
                                 std::string("a\nb"), std::string("../x")}) {
    v1::AttemptId id = Id();
    id.set_job_id(job);
    EXPECT_EQ(VerdictOf(testing::Ended(id), "a"), Verdict::kRefuse) << job;
  }
  EXPECT_EQ(VerdictOf({}, "a"), Verdict::kRefuse);
}

TEST_F(MessageCheckTest, ReportsOfFinishedStepsAreRepeatsOfUnplannedOnesNot) {
  EXPECT_EQ(VerdictOf(testing::Lengths(Id(), 0, 2, 1), "a"), Verdict::kRepeat);
  v1::AgentMessage step = StepOf(0);
  step.mutable_step()->mutable_report()->set_step(0);
  EXPECT_EQ(VerdictOf(step, "a"), Verdict::kRepeat);
  for (int64_t later : {int64_t{2}, kSteps, int64_t{1} << 62, int64_t{-1}}) {
    step.mutable_step()->mutable_report()->set_step(later);
    EXPECT_EQ(VerdictOf(step, "a"), Verdict::kRefuse) << later;
  }
  v1::AgentMessage lengths = testing::Lengths(Id(), 0, 2, 2);
  for (int64_t other : {int64_t{-1}, int64_t{19}, int64_t{1} << 62}) {
    lengths.mutable_lengths()->mutable_report()->set_step(other);
    EXPECT_EQ(VerdictOf(lengths, "a"), Verdict::kFail) << other;
  }
}

// So it is with every attempt after a restart of the coordinator.
TEST_F(MessageCheckTest, LateReportsOfAStoppingAttemptAreNoErrors) {
  run_.ending().Begin(JobState::kFailed, "", absl::InfiniteDuration());
  v1::AgentMessage step = StepOf(0);
  step.mutable_step()->mutable_report()->set_step(17);
  EXPECT_EQ(VerdictOf(step, "a"), Verdict::kRepeat);
  EXPECT_EQ(VerdictOf(testing::Lengths(Id(), 0, 2, 19), "a"), Verdict::kRepeat);
  EXPECT_EQ(VerdictOf(testing::Lengths(Id(), 1, 2, 19), "a"), Verdict::kRefuse);
}

TEST_F(MessageCheckTest, OwnReportsThatCannotBeTrueFailTheAttempt) {
  const auto verdict = [&](v1::AgentMessage message, auto spoil) {
    spoil(message);
    return Check(message, "a");
  };
  const auto spoiled_lengths = [&](auto spoil) {
    return verdict(testing::Lengths(Id(), 0, 2, 2),
                   [&](auto& message) {
                     spoil(*message.mutable_lengths()->mutable_report());
                   })
        .verdict;
  };
  EXPECT_EQ(spoiled_lengths([](auto& r) { r.set_lengths(0, 65); }),
            Verdict::kFail);
  EXPECT_EQ(spoiled_lengths([](auto& r) { r.clear_sample_ids(); }),
            Verdict::kFail);
  const auto spoiled_step = [&](auto spoil) {
    return verdict(StepOf(0),
                   [&](auto& message) {
                     spoil(*message.mutable_step()->mutable_report());
                   })
        .verdict;
  };
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(spoiled_step([](auto& r) { r.set_step_ns(kHuge); }),
            Verdict::kFail);
  EXPECT_EQ(spoiled_step([](auto& r) { r.set_cpu_ns(kHuge); }), Verdict::kFail);
  EXPECT_EQ(spoiled_step([](auto& r) { r.set_padded_tokens(kHuge); }),
            Verdict::kFail);
  EXPECT_EQ(spoiled_step([](auto& r) { r.set_peak_tensor_bytes(kHuge); }),
            Verdict::kFail);
  EXPECT_EQ(spoiled_step([](auto& r) { r.set_plan_lead(-2); }), Verdict::kFail);
  EXPECT_EQ(spoiled_step([](auto& r) { r.set_trained_tokens(1); }),
            Verdict::kFail);
  EXPECT_EQ(spoiled_step([](auto& r) {
              r.set_gradient_norm(std::numeric_limits<double>::quiet_NaN());
            }),
            Verdict::kFail);
  v1::AgentMessage data = testing::Data(Id(), 0);
  data.mutable_data()->mutable_data()->set_total_tokens(-1);
  EXPECT_EQ(VerdictOf(data, "a"), Verdict::kFail);
  v1::AgentMessage costs = testing::Costs(Id());
  costs.mutable_costs()->mutable_costs()->set_linear_ns_per_token(-1);
  EXPECT_EQ(VerdictOfCosts(costs), Verdict::kTake) << "estimates are replaced";
  costs = testing::Costs(Id());
  v1::CostModel& video = *costs.mutable_costs()->mutable_costs();
  video.mutable_spatial()->set_linear_ns_per_token(1);
  EXPECT_EQ(VerdictOfCosts(costs), Verdict::kFail);
}

TEST_F(MessageCheckTest, TextsAndNumbersAreBounded) {
  const auto refused = [&](v1::AgentMessage message, const auto& spoil) {
    spoil(message);
    return VerdictOf(message, "a") == Verdict::kRefuse;
  };
  const v1::AgentMessage exit = testing::CleanExit(Id(), 0, kSteps);
  EXPECT_TRUE(refused(
      exit, [](auto& m) { m.mutable_exited()->set_steps_done(kSteps + 1); }));
  EXPECT_TRUE(
      refused(exit, [](auto& m) { m.mutable_exited()->set_steps_done(-1); }));
  EXPECT_TRUE(refused(exit, [](auto& m) { m.mutable_exited()->set_signal(9); }))
      << "and clean";
  EXPECT_TRUE(refused(exit, [](auto& m) {
    m.mutable_exited()->set_weights_path(std::string(5000, 'a'));
  }));
  EXPECT_TRUE(refused(exit, [](auto& m) {
    m.mutable_exited()->set_message(std::string(2 << 20, 'a'));
  }));
  EXPECT_TRUE(refused(testing::Started(Id(), 0), [](auto& m) {
    m.mutable_started()->set_emulated_link(std::string(2000, 'a'));
  }));
  const v1::AgentMessage abandon = testing::CollectiveFailed(Id(), 0);
  EXPECT_TRUE(refused(abandon, [](auto& m) {
    m.mutable_abandon()->set_reason("not a reason");
  }));
  EXPECT_TRUE(
      refused(abandon, [](auto& m) { m.mutable_abandon()->set_step(-2); }));
  const v1::AgentMessage log = testing::Log(Id(), 0, "line");
  EXPECT_TRUE(refused(log, [](auto& m) {
    m.mutable_logs()->set_first_line(std::numeric_limits<int64_t>::max());
  }));
  EXPECT_TRUE(
      refused(log, [](auto& m) { m.mutable_logs()->set_first_line(-1); }));
  EXPECT_TRUE(refused(log, [](auto& m) {
    m.mutable_logs()->mutable_lines(0)->mutable_time()->set_seconds(
        std::numeric_limits<int64_t>::max());
  }));
}

TEST_F(MessageCheckTest, AHelloIsBounded) {
  const v1::AgentHello good = testing::Hello("a", "one", 4).hello();
  EXPECT_TRUE(CheckHello(good).ok());
  const auto refused = [&](const std::function<void(v1::AgentHello&)>& spoil) {
    v1::AgentHello hello = good;
    spoil(hello);
    return absl::IsInvalidArgument(CheckHello(hello));
  };
  EXPECT_TRUE(refused([](auto& h) { h.clear_node(); }));
  EXPECT_TRUE(refused([](auto& h) { h.set_node("a\nb"); }));
  EXPECT_TRUE(refused([](auto& h) { h.set_node(std::string(254, 'a')); }));
  EXPECT_TRUE(refused([](auto& h) { h.clear_incarnation(); }));
  EXPECT_TRUE(refused([](auto& h) { h.set_slots(0); }));
  EXPECT_TRUE(refused([](auto& h) { h.set_slots(1025); }));
  EXPECT_TRUE(refused([](auto& h) { h.set_version(std::string(200, 'a')); }));
  EXPECT_TRUE(
      refused([](auto& h) { h.set_metrics_address(std::string(999, 'a')); }));
  EXPECT_TRUE(refused([](auto& h) { h.add_running()->set_job_id("A"); }));
  EXPECT_TRUE(refused([](auto& h) {
    for (int i = 0; i < 1025; ++i) h.add_running()->set_job_id("job");
  }));
}

}  // namespace
}  // namespace evenstep::coordinator
