#include "client/resume.h"

#include <deque>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace evenstep::client {
namespace {

using ::testing::ElementsAre;

// "e1" for an event, "s0" for a step.
std::string NameOf(const WatchItem& item) {
  if (const auto* event = std::get_if<JobEvent>(&item)) {
    return absl::StrCat("e", event->sequence);
  }
  return absl::StrCat("s", std::get<StepSummary>(item).step);
}

// A coordinator that knows all events and steps of one job, and whose
// connections break after a given number of messages.
class FlakyServer {
 public:
  void AddEvent(int64_t sequence, JobState state, int attempt) {
    JobEvent event;
    event.sequence = sequence;
    event.state = state;
    event.attempt = attempt;
    messages_.push_back(event);
  }
  void AddStep(int64_t step) {
    StepSummary summary;
    summary.step = step;
    messages_.push_back(summary);
  }

  // Messages per connection before it breaks; then none breaks.
  std::deque<size_t> breaks;
  // Ends streams with OK instead of an error.
  bool break_politely = false;
  int num_opened = 0;

  absl::Status Open(const WatchCursor& cursor, const WatchHandler& deliver) {
    ++num_opened;
    size_t left = messages_.size();
    bool breaks_now = false;
    if (!breaks.empty()) {
      left = breaks.front();
      breaks.pop_front();
      breaks_now = true;
    }
    for (const WatchItem& message : Selected(cursor)) {
      if (left-- == 0) break;
      if (deliver(message) == Follow::kStop) return absl::OkStatus();
    }
    if (breaks_now && !break_politely) return absl::UnavailableError("cut");
    return absl::OkStatus();
  }

  bool ended = true;

  WatchSource Source() {
    return {.open =
                [this](const WatchCursor& cursor, const WatchHandler& deliver) {
                  return Open(cursor, deliver);
                },
            .has_ended = [this]() -> absl::StatusOr<bool> { return ended; }};
  }

 private:
  // As the protocol says: events after the cursor; steps of the last attempt
  // after the cursor.
  std::vector<WatchItem> Selected(const WatchCursor& cursor) const {
    std::vector<WatchItem> selected;
    for (const WatchItem& message : messages_) {
      const auto* event = std::get_if<JobEvent>(&message);
      const bool wanted =
          event != nullptr
              ? event->sequence > cursor.after_sequence
              : std::get<StepSummary>(message).step > cursor.after_step;
      if (wanted) selected.push_back(message);
    }
    return selected;
  }

  std::vector<WatchItem> messages_;
};

class ResumeTest : public ::testing::Test {
 protected:
  Retry MakeRetry(std::stop_token stop = {}) {
    RetryOptions options;
    options.first_budget = absl::Seconds(10);
    options.reconnect_budget = absl::Seconds(10);
    options.stop = stop;
    return Retry(options, clock_,
                 [this](absl::Duration wait) { clock_.Advance(wait); });
  }

  absl::Status Watch(FlakyServer& server, WatchCursor* cursor) {
    Retry retry = MakeRetry();
    return ResumeWatch(server.Source(), cursor, &retry,
                       [this](const WatchItem& item) {
                         seen_.push_back(NameOf(item));
                         return Follow::kContinue;
                       });
  }

  FakeClock clock_;
  std::vector<std::string> seen_;
};

FlakyServer OneAttempt() {
  FlakyServer server;
  server.AddEvent(1, JobState::kQueued, 0);
  server.AddEvent(2, JobState::kRunning, 1);
  server.AddStep(0);
  server.AddStep(1);
  server.AddEvent(3, JobState::kSucceeded, 1);
  return server;
}

TEST_F(ResumeTest, ACursorThatIsUsedAgainKnowsWhoseStepsItCounts) {
  FlakyServer before, after;
  before.AddEvent(1, JobState::kRunning, 1);
  before.AddStep(0);
  before.AddStep(1);
  before.AddEvent(2, JobState::kQueued, 1);
  after.AddEvent(3, JobState::kRunning, 2);
  after.AddStep(0);
  after.AddEvent(4, JobState::kSucceeded, 2);
  WatchCursor cursor;
  Retry retry = MakeRetry();
  const WatchHandler until_queued = [](const WatchItem& item) {
    return NameOf(item) == "e2" ? Follow::kStop : Follow::kContinue;
  };
  ASSERT_TRUE(ResumeWatch(before.Source(), &cursor, &retry, until_queued).ok());
  ASSERT_TRUE(Watch(after, &cursor).ok());
  EXPECT_THAT(seen_, ElementsAre("e3", "s0", "e4"));
}

TEST_F(ResumeTest, AnUnbrokenStreamIsDeliveredOnce) {
  FlakyServer server = OneAttempt();
  WatchCursor cursor;
  EXPECT_TRUE(Watch(server, &cursor).ok());
  EXPECT_THAT(seen_, ElementsAre("e1", "e2", "s0", "s1", "e3"));
  EXPECT_EQ(server.num_opened, 1);
}

TEST_F(ResumeTest, AStreamThatBreaksAnywhereLosesAndRepeatsNothing) {
  for (size_t first = 0; first <= 5; ++first) {
    for (size_t second = 0; second <= 5; ++second) {
      FlakyServer server = OneAttempt();
      server.breaks = {first, second};
      WatchCursor cursor;
      seen_.clear();
      EXPECT_TRUE(Watch(server, &cursor).ok());
      EXPECT_THAT(seen_, ElementsAre("e1", "e2", "s0", "s1", "e3"))
          << "breaks after " << first << " and " << second;
    }
  }
}

TEST_F(ResumeTest, AStreamThatEndsEarlyWithoutAnErrorIsOpenedAgain) {
  FlakyServer server = OneAttempt();
  server.breaks = {3};
  server.break_politely = true;
  server.ended = false;
  WatchCursor cursor;
  EXPECT_TRUE(Watch(server, &cursor).ok());
  EXPECT_THAT(seen_, ElementsAre("e1", "e2", "s0", "s1", "e3"));
}

TEST_F(ResumeTest, ANewAttemptsStepsAreSeenFromItsFirst) {
  FlakyServer before;
  before.AddEvent(1, JobState::kRunning, 1);
  before.AddStep(0);
  before.AddStep(1);
  before.breaks = {3};
  FlakyServer after;
  after.AddEvent(2, JobState::kQueued, 1);
  after.AddEvent(3, JobState::kRunning, 2);
  after.AddStep(0);
  after.AddStep(1);
  after.AddStep(2);
  after.AddEvent(4, JobState::kSucceeded, 2);
  int num_opened = 0;
  WatchSource source = {
      .open =
          [&](const WatchCursor& cursor, const WatchHandler& deliver) {
            return num_opened++ == 0 ? before.Open(cursor, deliver)
                                     : after.Open(cursor, deliver);
          },
      .has_ended = []() -> absl::StatusOr<bool> { return false; }};
  WatchCursor cursor;
  Retry retry = MakeRetry();
  EXPECT_TRUE(ResumeWatch(source, &cursor, &retry, [&](const WatchItem& item) {
                seen_.push_back(NameOf(item));
                return Follow::kContinue;
              }).ok());
  EXPECT_THAT(
      seen_, ElementsAre("e1", "s0", "s1", "e2", "e3", "s0", "s1", "s2", "e4"));
}

TEST_F(ResumeTest, ACoordinatorThatStaysAwayEndsInUnavailable) {
  FlakyServer server = OneAttempt();
  server.breaks.assign(1000, 0);
  WatchCursor cursor;
  const absl::Status status = Watch(server, &cursor);
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_GT(server.num_opened, 5);
  EXPECT_LT(server.num_opened, 50);
}

TEST_F(ResumeTest, AnErrorThatIsNotUnavailableIsReturnedAtOnce) {
  WatchSource source = {
      .open = [](const WatchCursor&,
                 const WatchHandler&) { return absl::NotFoundError("no job"); },
      .has_ended = []() -> absl::StatusOr<bool> {
        return absl::NotFoundError("no job");
      }};
  WatchCursor cursor;
  Retry retry = MakeRetry();
  EXPECT_TRUE(absl::IsNotFound(
      ResumeWatch(source, &cursor, &retry,
                  [](const WatchItem&) { return Follow::kContinue; })));
}

TEST_F(ResumeTest, AHandlerThatStopsEndsTheWatch) {
  FlakyServer server = OneAttempt();
  WatchCursor cursor;
  Retry retry = MakeRetry();
  int num_seen = 0;
  EXPECT_TRUE(
      ResumeWatch(server.Source(), &cursor, &retry, [&](const WatchItem&) {
        return ++num_seen == 2 ? Follow::kStop : Follow::kContinue;
      }).ok());
  EXPECT_EQ(num_seen, 2);
  EXPECT_EQ(cursor.after_sequence, 2);
}

TEST_F(ResumeTest, LogsGoOnAfterTheLastLineSeen) {
  std::vector<int64_t> opened_after;
  int num_opened = 0;
  LogSource source = {
      .open = [&](const LogCursor& from,
                  const LogHandler& deliver) -> absl::Status {
        const int64_t after = from.after_sequence;
        opened_after.push_back(after);
        LogLine line;
        // The second connection repeats a line.
        for (int64_t s = std::max<int64_t>(1, after); s <= after + 2; ++s) {
          line.sequence = s;
          if (deliver(line) == Follow::kStop) return absl::OkStatus();
        }
        if (++num_opened < 3) return absl::UnavailableError("cut");
        return absl::OkStatus();
      },
      .has_ended = []() -> absl::StatusOr<bool> { return true; }};
  std::vector<int64_t> lines;
  LogCursor cursor;
  Retry retry = MakeRetry();
  const LogHandler note = [&](const LogLine& line) {
    lines.push_back(line.sequence);
    return line.sequence == 7 ? Follow::kStop : Follow::kContinue;
  };
  EXPECT_TRUE(ResumeLogs(source, &cursor, LogMode::kFollow, &retry, note).ok());
  EXPECT_THAT(lines, ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(opened_after, ElementsAre(0, 2, 4));
  // A reader that comes back with the cursor gets what follows, once.
  EXPECT_TRUE(ResumeLogs(source, &cursor, LogMode::kSoFar, &retry, note).ok());
  EXPECT_THAT(lines, ElementsAre(1, 2, 3, 4, 5, 6, 7));
  EXPECT_EQ(cursor.after_sequence, 7);
}

TEST_F(ResumeTest, AStopRequestEndsTheRetries) {
  std::stop_source stop;
  stop.request_stop();
  Retry retry = MakeRetry(stop.get_token());
  EXPECT_TRUE(absl::IsCancelled(
      retry.WaitBeforeNextTry(absl::UnavailableError("gone"))));
}

TEST_F(ResumeTest, ProgressRenewsTheBudget) {
  Retry retry = MakeRetry();
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(retry.WaitBeforeNextTry(absl::UnavailableError("gone")).ok());
    retry.Progress();
  }
}

}  // namespace
}  // namespace evenstep::client
