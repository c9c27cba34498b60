#include "client/plan/plan_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <string>

#include "client/plan/axis.h"
#include "client/plan/comparison_fixture.h"
#include "client/plan/plan_setup.h"
#include "client/plan/svg.h"
#include "client/plan/timeline_chart.h"
#include "data/length_law.h"
#include "planner/costs/degrees.h"

namespace evenstep::plan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

int Count(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos;
       at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

TEST(PlanReportTest, ThePageNeedsNothingElse) {
  const std::string html =
      ReportHtml(Compare(WikipediaRequest(64, 8), 1, "all"),
                 {"law <x>", "costs", "source"});
  for (const char* outside :
       {"http:", "https:", "src=", "href=", "@import", "<script", "url(//"}) {
    EXPECT_THAT(html, Not(HasSubstr(outside)));
  }
  EXPECT_THAT(html, HasSubstr("prefers-color-scheme: dark"));
  EXPECT_THAT(html, HasSubstr("law &lt;x&gt;"));
  EXPECT_EQ(Count(html, "<svg"), Count(html, "</svg>"));
  EXPECT_EQ(Count(html, "<section"), 8);
  EXPECT_EQ(Count(html, "<div"), Count(html, "</div>"));
}

TEST(PlanReportTest, EveryMicroBatchIsABoxWithATooltip) {
  const Comparison comparison = Compare(WikipediaRequest(64, 8), 1, "even");
  const std::string html = ReportHtml(comparison, {});
  EXPECT_EQ(Count(html, "class=\"box d"),
            static_cast<int>(comparison.runs[0].plan.micro_batches.size()));
  EXPECT_THAT(html, HasSubstr("<title>Micro-batch 0 on rank"));
  EXPECT_THAT(html, HasSubstr("cap"));
  EXPECT_THAT(html, HasSubstr("lower bound"));
}

TEST(PlanReportTest, LargeClustersAreDrawnAsCellsAndStaySmall) {
  const Comparison comparison = Compare(WikipediaRequest(600, 256), 1, "all");
  const std::string html = ReportHtml(comparison, {});
  EXPECT_EQ(Count(html, "class=\"box"), 0);
  EXPECT_THAT(html, HasSubstr("mostly degree"));
  EXPECT_LT(html.size(), 2'000'000u);
}

TEST(PlanReportTest, WithoutAPlanItSaysWhy) {
  PlanSetup setup;
  setup.num_gpus = 2;
  setup.recompute = RecomputeChoice::kFixed;
  setup.tokens_per_gpu = 100;
  auto request =
      BuildRequest(setup, *LoadCosts(setup.costs), {{5000, 0, 0, 0}});
  ASSERT_TRUE(request.ok()) << request.status();
  RunOptions options;
  options.policies = *PoliciesNamed("all");
  const std::string html =
      ReportHtml(*ComparePolicies(*request, options), {"file", "c", "s"});
  EXPECT_THAT(html, HasSubstr("no plan: "));
  EXPECT_THAT(html, HasSubstr("It fits with"));
  EXPECT_EQ(Count(html, "<section"), 0);
}

// The slow one is cut off where it would press the others flat.
TEST(TimelineChartTest, ALateStepIsCutOffAndSaysWhereItEnds) {
  const Comparison comparison = Compare(WikipediaRequest(64, 8), 1, "even");
  const auto& run = comparison.runs[0];
  const auto step = planner::Simulate(comparison.request, run.plan, {});
  ASSERT_TRUE(step.ok());
  TimelineScale scale;
  scale.degrees = planner::LegalDegrees(comparison.request);
  scale.end_ns = step->step_ns / 4;
  const std::string cut =
      TimelineChart(comparison.request, run.plan, *step, scale);
  EXPECT_THAT(cut, HasSubstr("cut off; ends at"));
  scale.end_ns = step->step_ns;
  const std::string whole =
      TimelineChart(comparison.request, run.plan, *step, scale);
  EXPECT_THAT(whole, Not(HasSubstr("cut off")));
  EXPECT_LT(Count(cut, "class=\"box"), Count(whole, "class=\"box"));
}

TEST(TimelineChartTest, DegreesKeepTheirColoursApart) {
  EXPECT_EQ(DegreeClass({1, 2, 8}, 1), "d0");
  EXPECT_EQ(DegreeClass({1, 2, 8}, 8), "d2");
  std::vector<int> many;
  for (int degree = 1; degree <= 64; ++degree) many.push_back(degree);
  EXPECT_EQ(DegreeClass(many, 1), "d0");
  EXPECT_EQ(DegreeClass(many, 64), "d9");
}

TEST(AxisTest, TicksAreRoundAndEndInTime) {
  std::vector<std::string> labels;
  for (const Tick& tick : RoundTicks(14.2, 7)) labels.push_back(tick.label);
  EXPECT_THAT(labels, ElementsAre("0", "2", "4", "6", "8", "10", "12", "14"));
  EXPECT_EQ(RoundTicks(0, 5).size(), 1u);
  EXPECT_EQ(FormatTime(0.0123), "12.3 ms");
  EXPECT_EQ(FormatTime(12.34), "12.3 s");
}

TEST(SvgTest, TextIsEscaped) {
  Svg svg(10, 20, "a \"b\"");
  svg.Text(1, 2.55, "start", "<&>");
  const std::string text = std::move(svg).Finish();
  EXPECT_THAT(text, HasSubstr("aria-label=\"a &quot;b&quot;\""));
  EXPECT_THAT(text, HasSubstr("&lt;&amp;&gt;"));
}

TEST(LabelLineTest, LabelsNeitherOverlapNorLeaveThePicture) {
  LabelLine line(0, 100);
  EXPECT_EQ(line.Place(20, "abcd"), 20);            // 6 to 34
  EXPECT_EQ(line.Place(40, "abcd"), std::nullopt);  // would begin at 26
  EXPECT_EQ(line.Place(60, "ab"), 60);
  EXPECT_EQ(line.Place(98, "abcd"), 86);  // moved inwards
  EXPECT_EQ(line.Place(99, "a"), std::nullopt);
}

// Where text ends, by the widths that the pictures reckon with.
TEST(PlanReportTest, NoTextIsCutAtTheRightEdge) {
  RunOptions options;
  options.policies = *PoliciesNamed("all");
  options.simulate.emplace().layer_noise = 0.3;
  planner::PlanRequest request = WikipediaRequest(64, 8);
  request.options.sync = planner::SyncMode::kPerRound;
  const auto comparison = ComparePolicies(request, options);
  ASSERT_TRUE(comparison.ok()) << comparison.status();
  const std::string html = ReportHtml(*comparison, {"law", "costs", "source"});
  const std::regex piece(
      "viewBox=\"0 0 ([0-9.]+)|<text x=\"([0-9.]+)\" y=\"[0-9.-]+\" "
      "text-anchor=\"([a-z]+)\"[^>]*>([^<]*)<");
  double width = 0;
  int texts = 0;
  for (std::sregex_iterator it(html.begin(), html.end(), piece), end; it != end;
       ++it) {
    if ((*it)[1].matched) {
      width = std::stod((*it)[1]);
      continue;
    }
    const double needed =
        LabelWidth(std::string((*it)[4])) * ((*it)[3] == "start"    ? 1
                                             : (*it)[3] == "middle" ? 0.5
                                                                    : 0);
    EXPECT_LE(std::stod((*it)[2]) + needed, width + 1) << (*it)[4];
    ++texts;
  }
  EXPECT_GT(texts, 100);
}

}  // namespace
}  // namespace evenstep::plan
