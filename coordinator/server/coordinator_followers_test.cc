// What watchers, readers of logs and lists are shown of a job's life.

#include <memory>
#include <string>
#include <vector>

#include "coordinator/server/coordinator_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace evenstep::coordinator {
namespace {

using ::testing::HasSubstr;

TEST_F(CoordinatorTest, AWatcherSeesEventsAndStepsAndEndsWithTheJob) {
  auto sink = std::make_shared<RecordingSink<v1::WatchResponse>>();
  StartJob("job", 2);
  v1::WatchRequest request;
  request.set_job_id("job");
  request.set_after_step(-1);
  coordinator_->followers().Watch(request, sink);
  for (int64_t step : {0, 1}) ReportStep(step);
  Pass(absl::Seconds(1), {a_, b_});
  for (int rank : {0, 1}) {
    Say(AgentOf(rank), testing::CleanExit(Id(a_), rank, 2));
  }
  EndBoth();
  ASSERT_TRUE(sink->finished);
  EXPECT_TRUE(sink->end.ok());
  std::vector<int64_t> sequences, steps;
  for (const auto& message : sink->messages) {
    if (message.has_event()) sequences.push_back(message.event().sequence());
    if (message.has_step()) steps.push_back(message.step().step());
  }
  EXPECT_EQ(sequences, (std::vector<int64_t>{1, 2, 3, 4, 5}));
  EXPECT_EQ(steps, (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(sink->messages.back().event().state(), v1::JOB_STATE_SUCCEEDED);
}

TEST_F(CoordinatorTest, AWatcherThatComesLateSeesTheStepsWhereTheyBelong) {
  StartJob("job", 2);
  for (int64_t step : {0, 1}) ReportStep(step);
  for (int rank : {0, 1}) {
    Say(AgentOf(rank), testing::CleanExit(Id(a_), rank, 2));
  }
  EndBoth();
  auto sink = std::make_shared<RecordingSink<v1::WatchResponse>>();
  v1::WatchRequest request;
  request.set_job_id("job");
  request.set_after_step(-1);
  coordinator_->followers().Watch(request, sink);
  std::string order;
  for (const auto& message : sink->messages) {
    order += message.has_step()
                 ? "s"
                 : v1::JobState_Name(message.event().state()).substr(10, 2);
  }
  EXPECT_EQ(order, "QUSTRUssSTSU");
}

TEST_F(CoordinatorTest, AWatcherBehindTheLastEventEndsAtOnce) {
  Submit("job");
  Cancel("job");
  auto sink = std::make_shared<RecordingSink<v1::WatchResponse>>();
  v1::WatchRequest request;
  request.set_job_id("job");
  request.set_after_sequence(2);
  coordinator_->followers().Watch(request, sink);
  EXPECT_TRUE(sink->finished);
  EXPECT_TRUE(sink->messages.empty());
}

TEST_F(CoordinatorTest, ALogFollowerGoesOnFromItsCursorWithoutLossOrRepeats) {
  StartJob("job", 100);
  auto first = std::make_shared<RecordingSink<v1::LogsResponse>>();
  v1::LogsRequest request;
  request.set_job_id("job");
  request.set_follow(true);
  const int64_t follower = coordinator_->followers().FollowLog(request, first);
  Say(a_, testing::Log(Id(a_), 0, "one"));
  Say(b_, testing::Log(Id(a_), 1, "two"));
  Pass(absl::Seconds(1), {a_, b_});
  coordinator_->followers().Remove(follower);  // the connection is lost
  Say(a_, testing::Log(Id(a_), 0, "three"));
  Pass(absl::Seconds(1), {a_, b_});
  std::vector<std::string> seen;
  int64_t cursor = 0;
  const auto collect = [&](const auto& sink) {
    for (const auto& response : sink.messages) {
      for (const auto& line : response.lines()) {
        seen.push_back(line.text());
        cursor = line.sequence();
      }
    }
  };
  collect(*first);
  request.set_after_sequence(cursor);
  auto second = std::make_shared<RecordingSink<v1::LogsResponse>>();
  coordinator_->followers().FollowLog(request, second);
  Say(b_, testing::Killed(Id(a_), 1, 9));
  Say(a_, testing::Log(Id(a_), 0, "last words"));
  EXPECT_FALSE(second->finished);
  EndBoth();
  Pass(absl::Seconds(1), {a_, b_});
  collect(*second);
  EXPECT_TRUE(second->finished);
  EXPECT_EQ(seen,
            (std::vector<std::string>{"one", "two", "three", "last words"}));
}

TEST_F(CoordinatorTest, LogLinesThatComeTwiceAreShownOnceAndLostOnesCounted) {
  StartJob("job", 100);
  const v1::AttemptId id = Id(a_);
  const auto say = [&](const Agent& agent, int64_t first_line,
                       const std::vector<std::string>& texts) {
    v1::AgentMessage message = testing::Log(id, -1, texts[0]);
    for (size_t i = 1; i < texts.size(); ++i) {
      message.mutable_logs()->add_lines()->set_text(texts[i]);
      message.mutable_logs()->mutable_lines(static_cast<int>(i))->set_rank(-1);
    }
    message.mutable_logs()->set_first_line(first_line);
    Say(agent, message);
  };
  say(a_, 1, {"one", "two"});
  a_ = Join("a", {id});
  say(a_, 1, {"one", "two"});
  a_ = Join("a", {id});
  say(a_, 2, {"two", "three"});
  say(b_, 1, {"of the other node"});
  say(a_, 6, {"six"});
  Pass(absl::Seconds(1), {a_, b_});
  std::vector<std::string> texts;
  const auto page = store_->ReadLog("job", 0, 100);
  for (const auto& line : page->lines) texts.push_back(line.text());
  ASSERT_EQ(texts.size(), 6u);
  EXPECT_THAT(texts[4], HasSubstr("[2 lines of node a were lost"));
  texts.erase(texts.begin() + 4);
  EXPECT_EQ(texts, (std::vector<std::string>{"one", "two", "three",
                                             "of the other node", "six"}));
}

TEST_F(CoordinatorTest, NoLogLineIsSwallowedForAWrongNumber) {
  StartJob("job", 100);
  const v1::AttemptId id = Id(a_);
  const auto say = [&](int64_t first_line, const std::string& text) {
    v1::AgentMessage message = testing::Log(id, 0, text);
    message.mutable_logs()->set_first_line(first_line);
    Say(a_, message);
  };
  say(1, "one");
  say(int64_t{1} << 50, "far ahead");
  say(2, "two");
  say(3, "three");
  say(int64_t{1} << 50, "far ahead again");
  a_ = Join("a", {id});
  say(4, "four");
  say(INT64_MAX, "refused");
  say(-1, "refused");
  Pass(absl::Seconds(1), {a_, b_});
  std::vector<std::string> texts;
  const auto page = store_->ReadLog("job", 0, 100);
  for (const auto& line : page->lines) {
    if (line.text()[0] != '[') texts.push_back(line.text());
  }
  EXPECT_EQ(texts, (std::vector<std::string>{"one", "far ahead", "two", "three",
                                             "far ahead again", "four"}));
}

TEST_F(CoordinatorTest, ASlowFollowerIsFedAsItReads) {
  Submit("job", 6, 1);
  auto sink = std::make_shared<RecordingSink<v1::WatchResponse>>();
  sink->room = 0;
  v1::WatchRequest request;
  request.set_job_id("job");
  const int64_t follower = coordinator_->followers().Watch(request, sink);
  EXPECT_TRUE(sink->messages.empty());
  sink->room = 10;
  coordinator_->followers().Pump(follower);
  EXPECT_EQ(sink->messages.size(), 1u);
}

TEST_F(CoordinatorTest, ListsAreNewestFirstInPages) {
  for (const char* id : {"a", "b", "c"}) Submit(id);
  Cancel("b");
  v1::ListRequest request;
  request.set_page_size(2);
  auto page = coordinator_->List(request);
  ASSERT_EQ(page->jobs_size(), 2);
  EXPECT_EQ(page->num_jobs(), 3);
  EXPECT_EQ(page->jobs(0).job_id(), "c");
  EXPECT_EQ(page->jobs(1).job_id(), "b");
  request.set_page_token(page->next_page_token());
  page = coordinator_->List(request);
  ASSERT_EQ(page->jobs_size(), 1);
  EXPECT_EQ(page->jobs(0).job_id(), "a");
  EXPECT_TRUE(page->next_page_token().empty());
  request.clear_page_token();
  request.add_states(v1::JOB_STATE_CANCELLED);
  EXPECT_EQ(coordinator_->List(request)->jobs_size(), 1);
  EXPECT_EQ(coordinator_->List(request)->num_jobs(), 1);
  request.add_states(v1::JOB_STATE_QUEUED);
  EXPECT_EQ(coordinator_->List(request)->num_jobs(), 3);
  request.set_page_token("nonsense");
  EXPECT_FALSE(coordinator_->List(request).ok());
}

}  // namespace
}  // namespace evenstep::coordinator
