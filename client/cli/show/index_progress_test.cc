#include "client/cli/show/index_progress.h"

#include <sstream>
#include <stop_token>

#include "base/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace evenstep::cli {
namespace {

using ::testing::HasSubstr;

constexpr data::IndexProgress kHalf = {6'150'000'000, 12'300'000'000};

TEST(IndexProgressTest, ShowsShareSizeRateAndTimeToGo) {
  EXPECT_EQ(FormatIndexProgress(kHalf, absl::Seconds(15), 0),
            "Indexing 50% of 12.3 GB  410 MB/s  ETA 15s");
  EXPECT_EQ(FormatIndexProgress(kHalf, absl::Seconds(15), 80),
            "Indexing 50% of 12.3 GB  [=============>              ]  410 MB/s "
            " ETA 15s");
  EXPECT_EQ(FormatIndexProgress({0, 900}, absl::ZeroDuration(), 0),
            "Indexing 0% of 900 B");
}

TEST(IndexProgressTest, NoLineIsWiderThanTheTerminal) {
  for (int columns = 1; columns < 120; ++columns) {
    EXPECT_LE(FormatIndexProgress(kHalf, absl::Seconds(15), columns).size(),
              static_cast<size_t>(columns));
  }
}

class IndexProgressViewTest : public ::testing::Test {
 protected:
  IndexProgressViewTest() : environment_(out_, err_) {
    environment_.clock = &clock_;
    environment_.columns = [] { return 80; };
    environment_.interrupted = stop_.get_token();
  }
  std::string TakeErr() {
    std::string text = err_.str();
    err_.str("");
    return text;
  }

  std::ostringstream out_;
  std::ostringstream err_;
  FakeClock clock_;
  std::stop_source stop_;
  Environment environment_;
};

TEST_F(IndexProgressViewTest, NothingIsSaidOfWhatIsDoneAtOnce) {
  environment_.err_is_terminal = true;
  IndexProgressView view(environment_, false);
  EXPECT_TRUE(view.Show(kHalf).ok());
  view.Finish();
  EXPECT_EQ(TakeErr(), "");
}

TEST_F(IndexProgressViewTest, ATerminalHasABarThatGoes) {
  environment_.err_is_terminal = true;
  IndexProgressView view(environment_, false);
  clock_.Advance(absl::Seconds(1));
  EXPECT_TRUE(view.Show(kHalf).ok());
  EXPECT_THAT(TakeErr(), HasSubstr("\r\033[KIndexing 50%"));
  EXPECT_TRUE(view.Show(kHalf).ok());
  EXPECT_EQ(TakeErr(), "");
  view.Finish();
  EXPECT_EQ(TakeErr(), "\r\033[K");
}

TEST_F(IndexProgressViewTest, AFileHasALineNowAndThen) {
  IndexProgressView view(environment_, false);
  int lines = 0;
  for (int i = 0; i < 120; ++i) {
    clock_.Advance(absl::Milliseconds(100));
    EXPECT_TRUE(view.Show(kHalf).ok());
    lines += TakeErr().empty() ? 0 : 1;
  }
  EXPECT_EQ(lines, 3);
}

TEST_F(IndexProgressViewTest, AnInterruptEndsTheIndexing) {
  environment_.ends_at_once = true;
  IndexProgressView view(environment_, true);
  EXPECT_TRUE(view.Show(kHalf).ok());
  EXPECT_FALSE(environment_.ends_at_once);
  stop_.request_stop();
  EXPECT_TRUE(absl::IsCancelled(view.Show(kHalf)));
  EXPECT_EQ(TakeErr(), "");
}

}  // namespace
}  // namespace evenstep::cli
