// Logs, events, colour and what cannot be written, against a coordinator in
// memory.

#include <sstream>
#include <string>
#include <vector>

#include "client/cli/app_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace evenstep::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST_F(AppTest, ColourIsForTerminalsOnly) {
  fake_.PutJob(FullJob());
  EXPECT_EQ(Run({"list"}), 0);
  EXPECT_THAT(out(), Not(HasSubstr("\033[")));
  terminal_ = true;
  EXPECT_EQ(Run({"list"}), 0);
  EXPECT_THAT(out(), HasSubstr("\033[32mRUNNING\033[0m"));
  EXPECT_EQ(Run({"list", "-o", "json"}), 0);
  EXPECT_THAT(out(), Not(HasSubstr("\033[")));
}

TEST_F(AppTest, LogsShowRankAndText) {
  ASSERT_EQ(Run({"submit", job_file_, "--no-wait", "--id", "first"}), 0);
  client::LogLine line;
  line.rank = 1;
  line.text = "step=0 loss=5.5";
  fake_.AddLog("first", line);
  line.rank = -1;
  line.text = "trainer started";
  fake_.AddLog("first", line);
  EXPECT_EQ(Run({"logs", "first"}), 0);
  EXPECT_EQ(out(), "[rank 1] step=0 loss=5.5\n[agent] trainer started\n");
  EXPECT_EQ(Run({"logs", "-f", "first", "--rank", "1"}), 0);
  EXPECT_EQ(out(), "[rank 1] step=0 loss=5.5\n");
  EXPECT_EQ(Run({"logs", "first", "-o", "json"}), 0);
  EXPECT_EQ(out(), Golden("logs.json", out()));
}

// Libraries colour what they write, and a line has what data have.
TEST_F(AppTest, LogsDoNotCommandTheTerminal) {
  fake_.PutJob(FullJob());
  client::LogLine line;
  line.text =
      "a\tb \x1b[2Jc\r\xc2\x9b"
      "1md \xff \xc3\xa9";
  fake_.AddLog("books-1", line);
  for (const bool terminal : {false, true}) {
    terminal_ = terminal;
    EXPECT_EQ(Run({"logs", "books-1"}), 0);
    EXPECT_EQ(out(), "[rank 0] a\tb \\x1b[2Jc\\x0d\\u009b1md ? \xc3\xa9\n");
  }
  EXPECT_EQ(Run({"logs", "books-1", "-o", "json"}), 0);
  EXPECT_THAT(out(), Not(HasSubstr("\x1b")));
  const std::string text = Json::parse(out())["text"];
  EXPECT_THAT(text, HasSubstr("a\tb \x1b[2Jc\r\xc2\x9b"
                              "1md "));
}

TEST_F(AppTest, AJobFileDoesNotCommandTheTerminal) {
  client::Job job = FullJob();
  job.job_yaml = "name: a  # \x1b]0;title\x07\n";
  fake_.PutJob(job);
  EXPECT_EQ(Run({"describe", "books-1", "-o", "wide"}), 0);
  EXPECT_THAT(out(), HasSubstr("Job file:\nname: a  # \\x1b]0;title\\x07\n"));
}

TEST_F(AppTest, EventsAreShownInOrder) {
  ASSERT_EQ(Run({"submit", job_file_, "--no-wait", "--id", "first"}), 0);
  EXPECT_EQ(Run({"events", "first"}), 0);
  EXPECT_EQ(out(),
            "2023-11-14 22:13:20  RUNNING   \n"
            "2023-11-14 22:13:20  SUCCEEDED \n");
  EXPECT_EQ(Run({"events", "first", "-o", "json"}), 0);
  EXPECT_EQ(out(), Golden("events.json", out()));
}

TEST_F(AppTest, EventsOfARunningJobEndWithThePresent) {
  fake_.PutJob(FullJob());
  client::JobEvent event;
  event.state = JobState::kRunning;
  event.attempt = 1;
  event.message = "all ranks are in step";
  fake_.AddEvent("books-1", event);
  EXPECT_EQ(Run({"events", "books-1"}), 0) << err();
  EXPECT_THAT(out(), HasSubstr("all ranks are in step"));
}

TEST_F(AppTest, AnAnswerThatCannotBeWrittenIsAnError) {
  fake_.PutJob(FullJob());
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"list", "-o", "json"},
        {"describe", "books-1"},
        {"version"},
        {"--help"},
        {"submit", job_file_}}) {
    FailingBuffer full(0, ENOSPC);
    std::ostream stream(&full);
    stdout_ = &stream;
    EXPECT_EQ(Run(command), 6) << command[0];
    EXPECT_THAT(err(), HasSubstr("evenstep: cannot write to stdout: No space"));
    EXPECT_EQ(full.num_writes(), 1) << command[0];
  }
}

TEST_F(AppTest, AClosedPipeEndsAStreamSilently) {
  fake_.PutJob(FullJob());
  client::LogLine line;
  line.text = "a line";
  for (int i = 0; i < 5; ++i) fake_.AddLog("books-1", line);
  client::JobEvent event;
  event.state = JobState::kRunning;
  for (int i = 0; i < 5; ++i) fake_.AddEvent("books-1", event);
  for (const char* command : {"logs", "events"}) {
    FailingBuffer pipe(1, EPIPE);
    std::ostream stream(&pipe);
    stdout_ = &stream;
    // The job runs on: only the closed pipe ends this.
    EXPECT_EQ(Run({command, "-f", "books-1"}), 0) << command;
    EXPECT_THAT(err(), IsEmpty());
    EXPECT_EQ(pipe.num_writes(), 2) << command;
  }
}

TEST_F(AppTest, LogsOfARankThatIsNotThereAreAnError) {
  fake_.PutJob(FullJob());
  EXPECT_EQ(Run({"logs", "books-1", "--rank", "7"}), 2);
  EXPECT_THAT(err(), HasSubstr("--rank 7: job books-1 has the ranks 0 to 1"));
  EXPECT_EQ(Run({"logs", "books-1", "--rank", "-2"}), 2);
  EXPECT_EQ(Run({"logs", "books-1", "--rank", "-1"}), 0);
}

}  // namespace
}  // namespace evenstep::cli
