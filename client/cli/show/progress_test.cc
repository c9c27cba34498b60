#include "client/cli/show/progress.h"

#include "client/cli/show/format_value.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace evenstep::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

client::StepSummary Step(int64_t step) {
  client::StepSummary summary;
  summary.step = step;
  summary.loss = 3.14159;
  summary.step_seconds = 0.5;
  summary.trained_tokens = 6150;
  summary.idle_share = 0.0312;
  return summary;
}

ProgressView HalfWay() {
  ProgressView view(100);
  for (int64_t step = 0; step < 50; ++step) view.Add(Step(step));
  return view;
}

TEST(Progress, ShowsStepLossSpeedImbalanceAndTimeToGo) {
  EXPECT_EQ(HalfWay().Line(),
            "50/100 steps  loss 3.1416  12.3k tokens/s  imbalance 3.1%  ETA "
            "25s");
}

TEST(Progress, ABarFillsInProportion) {
  EXPECT_EQ(HalfWay().Bar(100),
            "50/100 steps  [=============>              ]  loss 3.1416  ETA 25s"
            "  12.3k tokens/s  imbalance 3.1%");
}

TEST(Progress, NoLineIsWiderThanTheTerminal) {
  const ProgressView view = HalfWay();
  for (int columns = 0; columns < 140; ++columns) {
    EXPECT_LE(view.Bar(columns).size(), static_cast<size_t>(columns));
  }
}

TEST(Progress, ANarrowTerminalKeepsTheStep) {
  EXPECT_THAT(HalfWay().Bar(40), HasSubstr("50/100 steps"));
  EXPECT_THAT(HalfWay().Bar(40), Not(HasSubstr("imbalance")));
  EXPECT_EQ(HalfWay().Bar(12), "50/100 steps");
}

TEST(Progress, BeforeTheFirstStepThereIsNothingToPredict) {
  const ProgressView view(10);
  EXPECT_EQ(view.Line(), "0/10 steps");
  EXPECT_EQ(view.Bar(80), "0/10 steps  [                            ]");
}

TEST(Progress, TheLastStepFillsTheBar) {
  ProgressView view(1);
  view.Add(Step(0));
  EXPECT_TRUE(view.finished());
  EXPECT_THAT(view.Bar(120), HasSubstr("[============================]"));
  EXPECT_THAT(view.Line(), HasSubstr("ETA 0.0s"));
}

TEST(Progress, TheNewestEvaluationStandsBesideTheLoss) {
  ProgressView view(4);
  client::StepSummary step = Step(0);
  EXPECT_THAT((view.Add(step), view.Line()), Not(HasSubstr("held out")));
  step.evaluation = client::Evaluation{.step = 0, .loss = 2.25};
  view.Add(step);
  view.Add(Step(1));
  EXPECT_THAT(view.Line(), HasSubstr(" (held out 2.2500)  "));
  EXPECT_THAT(view.Bar(120), HasSubstr("(held out 2.2500)"));
}

TEST(Progress, ANewAttemptStartsAtZero) {
  ProgressView view = HalfWay();
  view.Restart();
  EXPECT_EQ(view.Line(), "0/100 steps");
}

TEST(FormatValue, CountsHaveThreeDigits) {
  EXPECT_EQ(FormatCount(0), "0");
  EXPECT_EQ(FormatCount(999), "999");
  EXPECT_EQ(FormatCount(1000), "1.00k");
  EXPECT_EQ(FormatCount(12345), "12.3k");
  EXPECT_EQ(FormatCount(999999), "1.00M");
  EXPECT_EQ(FormatCount(4560000000.0), "4.56G");
}

TEST(FormatValue, SpansShowTheTwoLargestUnits) {
  EXPECT_EQ(FormatSpan(absl::Milliseconds(840)), "0.8s");
  EXPECT_EQ(FormatSpan(absl::Seconds(42)), "42s");
  EXPECT_EQ(FormatSpan(absl::Seconds(192)), "3m12s");
  EXPECT_EQ(FormatSpan(absl::Minutes(125)), "2h05m");
  EXPECT_EQ(FormatSpan(absl::Hours(76)), "3d4h");
}

}  // namespace
}  // namespace evenstep::cli
