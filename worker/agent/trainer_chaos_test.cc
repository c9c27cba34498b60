// Trainers that behave well up to a random frame and then change what they say,
// send bytes that are no frames, or leave, against a whole agent. One of two
// ranks is broken; nothing that it sends may speak for the other one, and
// everything that reaches the coordinator must be in bounds. At the end an
// honest job must succeed.
//
// EVENSTEP_CHAOS_RUNS and EVENSTEP_CHAOS_SEED choose more trainers (`make
// chaos-messages RUNS=N SEED=S`).

#include <cstdlib>
#include <iostream>
#include <map>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wire/message_bounds.h"
#include "worker/agent/agent.h"
#include "worker/agent/agent_fixture.h"

namespace evenstep::agent {
namespace {

int64_t FromEnvironment(const char* name, int64_t otherwise) {
  const char* const text = std::getenv(name);
  int64_t value = 0;
  return text != nullptr && absl::SimpleAtoi(text, &value) ? value : otherwise;
}

class TrainerChaosTest : public AgentTest {
 protected:
  void RunTrainers(int index, uint64_t seed) {
    const std::string job = absl::StrCat("job-", index);
    v1::CoordinatorMessage message;
    v1::Assignment* const assignment = message.mutable_assignment();
    *assignment->mutable_attempt() = Id(job);
    assignment->set_num_ranks(2);
    assignment->add_placements()->set_num_ranks(2);
    v1::JobSpec* const spec = assignment->mutable_spec();
    spec->set_name("chaos");
    spec->set_steps(2);
    spec->set_seed(seed);
    spec->mutable_data()->set_source("text:/usr");
    spec->mutable_timeouts()->set_stop_ms(100);
    ASSERT_TRUE(coordinator_.Send(std::move(message)));
    SendBegin(job);
    for (int64_t step = 0; step < 2; ++step) {
      v1::CoordinatorMessage plan;
      *plan.mutable_plan()->mutable_attempt() = Id(job);
      plan.mutable_plan()->mutable_plan()->set_step(step);
      plan.mutable_plan()->mutable_plan()->set_generation(Id().generation());
      ASSERT_TRUE(coordinator_.Send(std::move(plan)));
    }
    // What a coordinator does when a rank cannot go on. A broken trainer may
    // also wait for an answer to what it has not sent.
    coordinator_.Await(
        [](const v1::AgentMessage& m) {
          return m.has_abandon() || m.has_exited();
        },
        1, absl::Milliseconds(300));
    const auto ended = [&job](const v1::AgentMessage& m) {
      return m.has_ended() && m.ended().attempt().job_id() == job;
    };
    if (!coordinator_.Await(ended, 1, absl::Milliseconds(20))) {
      v1::CoordinatorMessage end;
      *end.mutable_end()->mutable_attempt() = Id(job);
      ASSERT_TRUE(coordinator_.Send(std::move(end)));
    }
    ASSERT_TRUE(coordinator_.Await(ended)) << job;
    Check(job, static_cast<int>(1 - seed % 2));
  }

  void Check(const std::string& job, int honest_rank) {
    int length_reports = 0, exits = 0;
    for (const v1::AgentMessage& m : coordinator_.Take()) {
      if (m.has_hello() || m.has_heartbeat() || m.has_ready()) continue;
      // One that ended by itself says so again when it is told to end.
      if (m.has_ended()) continue;
      ++kinds_[m.what_case()];
      CheckAttempt(job, m);
      if (m.has_lengths()) {
        const v1::LengthReport& report = m.lengths().report();
        length_reports += report.rank() == honest_rank ? 1 : 0;
        CheckRank(report.rank());
        EXPECT_GE(report.step(), 0);
        EXPECT_LT(report.step(), 2);
      }
      if (m.has_step()) CheckRank(m.step().report().rank());
      if (m.has_abandon()) {
        EXPECT_TRUE(wire::CheckReason(m.abandon().reason()).ok());
        EXPECT_LE(m.abandon().message().size(), wire::kMaxPersonTextBytes + 99);
        num_refused_ += m.abandon().reason() == "INVALID_REPORT" ? 1 : 0;
      }
      if (!m.has_exited()) continue;
      ++exits;
      CheckRank(m.exited().rank());
      EXPECT_LE(m.exited().weights_path().size(), wire::kMaxPathBytes);
      EXPECT_GE(m.exited().steps_done(), 0);
      EXPECT_LE(m.exited().steps_done(), 2);
    }
    EXPECT_LE(length_reports, 1)
        << job << ": somebody spoke for the other rank";
    EXPECT_EQ(exits, 2) << job;
  }

  static void CheckRank(int rank) { EXPECT_TRUE(rank == 0 || rank == 1); }
  void CheckAttempt(const std::string& job, const v1::AgentMessage& message) {
    const auto& what = *message.GetDescriptor()->FindFieldByNumber(
        static_cast<int>(message.what_case()));
    const auto& inner = message.GetReflection()->GetMessage(message, &what);
    const auto& attempt = inner.GetReflection()->GetMessage(
        inner, inner.GetDescriptor()->FindFieldByName("attempt"));
    EXPECT_EQ(attempt.SerializeAsString(), Id(job).SerializeAsString());
  }

  std::map<int, int> kinds_;
  int num_refused_ = 0;
};

TEST_F(TrainerChaosTest, ABrokenTrainerHarmsNeitherItsAgentNorItsPeer) {
  const int64_t runs = FromEnvironment("EVENSTEP_CHAOS_RUNS", 20);
  const auto seed =
      static_cast<uint64_t>(FromEnvironment("EVENSTEP_CHAOS_SEED", 1));
  std::cout << "seed " << seed << ", " << runs << " trainers" << std::endl;
  StartAgent();
  coordinator_.Take();
  for (int64_t i = 0; i < runs && !HasFailure(); ++i) {
    RunTrainers(static_cast<int>(i), seed * 1'000'003 + i);
  }
  std::cout << num_refused_ << " trainers refused\n";
  // Or nothing that may not be said was tried.
  if (runs >= 20) {
    EXPECT_GT(num_refused_, 0);
  }
  Assign("finish", 2);
  ASSERT_TRUE(coordinator_.Await(IsStarted, 2));
  SendPlan(0);
  SendPlan(1);
  ASSERT_TRUE(coordinator_.Await(IsExit, 2));
  EXPECT_TRUE(ExitOf(0).clean()) << ExitOf(0).message();
  EXPECT_TRUE(ExitOf(1).clean()) << ExitOf(1).message();
}

}  // namespace
}  // namespace evenstep::agent
