#include "client/plan/plan_report.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/text.h"
#include "client/plan/axis.h"
#include "client/plan/column_chart.h"
#include "client/plan/plan_table.h"
#include "client/plan/report_style.h"
#include "client/plan/svg.h"
#include "client/plan/timeline_chart.h"

namespace evenstep::plan {
namespace {

using planner::MicroBatch;
using planner::PlanRequest;

constexpr int kMaxMemoryColumns = 128;
constexpr int kBinsPerDoubling = 2;
// The time axis goes up to the slowest that takes at most so many times the
// fastest; slower ones are cut off.
constexpr int64_t kMostOfFastest = 2;

std::string Name(const PolicyRun& run) {
  const auto name = planner::PolicyName(run.policy);
  return std::string(name.data(), name.size());
}

double Seconds(int64_t ns) { return static_cast<double>(ns) * 1e-9; }

// The runs that have a plan, and a timeline for each.
struct Drawn {
  const PolicyRun* run = nullptr;
  planner::SimulatedStep step;
};

std::vector<Drawn> DrawnRuns(const Comparison& comparison) {
  std::vector<Drawn> drawn;
  for (const PolicyRun* run : FastestFirst(comparison)) {
    Drawn one{run, {}};
    auto exact = planner::Simulate(comparison.RequestOf(*run), run->plan, {});
    if (run->simulated.has_value()) {
      one.step = *run->simulated;
    } else if (exact.ok()) {
      one.step = *std::move(exact);
    } else {
      continue;
    }
    drawn.push_back(std::move(one));
  }
  return drawn;
}

// One time axis for all, unless a slow policy would press the others flat.
TimelineScale ScaleOf(const std::vector<Drawn>& drawn) {
  TimelineScale scale;
  std::set<int> degrees;
  int64_t least_ns = INT64_MAX;
  for (const Drawn& one : drawn) {
    least_ns = std::min(least_ns, one.step.step_ns);
    // Elastic batches have bounds of their own.
    scale.bound_ns =
        one.run->drawn.has_value() ? 0 : one.run->plan.lower_bound_ns;
    for (const MicroBatch& batch : one.run->plan.micro_batches) {
      degrees.insert(batch.degree);
    }
  }
  for (const Drawn& one : drawn) {
    if (one.step.step_ns / kMostOfFastest > least_ns) continue;
    scale.end_ns = std::max(scale.end_ns, one.step.step_ns);
  }
  scale.degrees.assign(degrees.begin(), degrees.end());
  return scale;
}

std::string TableHtml(const Comparison& comparison) {
  const TextRows rows = ComparisonTable(comparison);
  std::string html = "<div class=\"scroll\"><table>\n";
  for (size_t i = 0; i < rows.size(); ++i) {
    const char* cell = i == 0 ? "th" : "td";
    absl::StrAppend(&html, i == 0 ? "<thead>" : "",
                    rows[i][0] == "even" ? "<tr class=\"even\">" : "<tr>");
    for (const std::string& text : rows[i]) {
      absl::StrAppend(&html, "<", cell, ">", EscapeHtml(text), "</", cell, ">");
    }
    absl::StrAppend(&html, "</tr>", i == 0 ? "</thead><tbody>" : "", "\n");
  }
  return html + "</tbody></table></div>\n";
}

std::string StepTimes(const std::vector<Drawn>& drawn) {
  std::vector<Bar> bars;
  for (const Drawn& one : drawn) {
    const auto& plan = one.run->plan;
    std::string text = absl::StrFormat(
        "%s, %.3f of the bound", FormatTime(Seconds(plan.predicted_step_ns)),
        RatioToBound(plan));
    if (one.run->simulated.has_value()) {
      absl::StrAppend(&text, "; simulated ",
                      FormatTime(Seconds(one.step.step_ns)));
    }
    bars.push_back(
        {Name(*one.run), Seconds(plan.predicted_step_ns), text,
         one.run->policy == planner::Policy::kEven ? "bar-even" : "plain"});
  }
  if (drawn.empty()) return "";
  const bool elastic = drawn[0].run->drawn.has_value();
  const int64_t bound_ns = elastic ? 0 : drawn[0].run->plan.lower_bound_ns;
  return BarChart(bars, Seconds(bound_ns), "lower bound",
                  "Predicted step time by policy");
}

// Half-octave bins from the shortest to the longest sample.
struct LengthBins {
  int first = 0;
  std::vector<int64_t> samples;
  std::vector<int64_t> tokens;
};

int BinOf(int64_t length) {
  return static_cast<int>(
      std::floor(std::log2(static_cast<double>(length)) * kBinsPerDoubling));
}

LengthBins BinLengths(const PlanRequest& request) {
  LengthBins bins;
  int last = 0;
  bins.first = 1 << 20;
  for (const auto& sample : request.samples) {
    bins.first = std::min(bins.first, BinOf(sample.length));
    last = std::max(last, BinOf(sample.length));
  }
  bins.samples.resize(last - bins.first + 1);
  bins.tokens.resize(last - bins.first + 1);
  for (const auto& sample : request.samples) {
    ++bins.samples[BinOf(sample.length) - bins.first];
    bins.tokens[BinOf(sample.length) - bins.first] += sample.length;
  }
  return bins;
}

// Powers of two as they are said: 512, 1k, 128k.
std::string BinaryCount(int64_t count) {
  if (count < 1024) return absl::StrCat(count);
  if (count < 1 << 20) return absl::StrCat(count >> 10, "k");
  return absl::StrCat(count >> 20, "M");
}

std::string LengthChart(const LengthBins& bins,
                        const std::vector<int64_t>& counts,
                        const std::string& what) {
  std::vector<Column> columns;
  for (size_t i = 0; i < counts.size(); ++i) {
    const double power =
        (bins.first + static_cast<double>(i)) / kBinsPerDoubling;
    const auto from = static_cast<int64_t>(std::ceil(std::exp2(power)));
    const auto to = static_cast<int64_t>(
        std::ceil(std::exp2(power + 1.0 / kBinsPerDoubling)) - 1);
    const bool whole =
        (bins.first + static_cast<int>(i)) % kBinsPerDoubling == 0;
    columns.push_back(
        {static_cast<double>(counts[i]), whole ? BinaryCount(from) : "",
         absl::StrCat(WithCommas(counts[i]), " ", what, " of ",
                      WithCommas(from), " to ", WithCommas(to), " tokens"),
         "plain", ""});
  }
  ColumnChartOptions options;
  options.title = absl::StrCat(what == "samples" ? "Samples" : "Tokens",
                               " by length of their sample");
  options.axis = "tokens of a sample (log scale)";
  options.width = 560;
  options.height = 190;
  return ColumnChart(columns, options);
}

std::string DegreeChart(const PlanRequest& request, const PolicyRun& run,
                        const TimelineScale& scale) {
  struct Use {
    double rank_ns = 0;
    size_t samples = 0;
    int micro_batches = 0;
  };
  std::map<int, Use> uses;
  double all_ns = 0;
  for (const MicroBatch& batch : run.plan.micro_batches) {
    Use& use = uses[batch.degree];
    const double rank_ns =
        static_cast<double>(batch.predicted_ns) * batch.degree;
    use.rank_ns += rank_ns;
    all_ns += rank_ns;
    use.samples += batch.samples.size();
    ++use.micro_batches;
  }
  std::vector<Column> columns;
  for (int degree : scale.degrees) {
    const Use& use = uses[degree];
    columns.push_back(
        {all_ns > 0 ? use.rank_ns / all_ns : 0, absl::StrCat(degree),
         absl::StrFormat("Degree %d: %s in %s, %.1f%% of the ranks' busy time",
                         degree,
                         Counted(static_cast<int64_t>(use.samples), "sample"),
                         Counted(use.micro_batches, "micro-batch"),
                         100 * use.rank_ns / std::max(1.0, all_ns)),
         DegreeClass(scale.degrees, degree),
         use.samples == 0 ? "" : ShortCount(static_cast<double>(use.samples))});
  }
  ColumnChartOptions options;
  options.title = absl::StrCat(
      "Busy time by degree (on top: of the ",
      WithCommas(static_cast<int64_t>(request.samples.size())), " samples)");
  options.axis = "degree (ranks that share a micro-batch)";
  options.width = 540;
  options.height = 160;
  options.most = 1.15;
  options.unit = ColumnChartOptions::Unit::kPercent;
  return ColumnChart(columns, options);
}

std::string MemoryChart(const PlanRequest& request, const PolicyRun& run) {
  const std::vector<double> shares = MemoryShares(request, run.plan);
  const int num_ranks = static_cast<int>(shares.size());
  const int count = std::min(num_ranks, kMaxMemoryColumns);
  std::vector<Column> columns;
  for (int i = 0; i < count; ++i) {
    const int first = static_cast<int>(int64_t{i} * num_ranks / count);
    const int end = static_cast<int>(int64_t{i + 1} * num_ranks / count);
    const double most =
        *std::max_element(shares.begin() + first, shares.begin() + end);
    const bool labelled = count <= 16 || i % (count / 4) == 0;
    columns.push_back({most, labelled ? absl::StrCat(first) : "",
                       absl::StrFormat("Rank %d: at most %.1f%% of its memory "
                                       "for activations",
                                       first, most * 100),
                       "plain", ""});
  }
  ColumnChartOptions options;
  options.title = "Peak activation memory, as a share of the limit";
  options.axis = "rank";
  options.width = 540;
  options.height = 160;
  options.most = 1.15;
  options.line = 1;
  options.line_label = "cap";
  options.unit = ColumnChartOptions::Unit::kPercent;
  return ColumnChart(columns, options);
}

std::string PolicySection(const Comparison& comparison, const Drawn& drawn,
                          const TimelineScale& scale) {
  const PolicyRun& run = *drawn.run;
  const PlanRequest& request = comparison.RequestOf(run);
  std::string summary = absl::StrFormat(
      "%s, %.3f of the bound; %s; %.1f%% of the ranks' time is waiting",
      FormatTime(Seconds(drawn.step.step_ns)),
      static_cast<double>(drawn.step.step_ns) /
          static_cast<double>(std::max<int64_t>(1, run.plan.lower_bound_ns)),
      Counted(static_cast<int64_t>(run.plan.micro_batches.size()),
              "micro-batch"),
      drawn.step.idle_share * 100);
  if (run.simulated.has_value()) absl::StrAppend(&summary, "; simulated");
  return absl::StrCat(
      "<section class=\"policy\"><div class=\"head\"><h3>",
      EscapeHtml(Name(run)), "</h3><span class=\"soft\">", EscapeHtml(summary),
      "</span></div>\n", TimelineChart(request, run.plan, drawn.step, scale),
      "<div class=\"charts\"><div>", DegreeChart(request, run, scale),
      "</div><div>", MemoryChart(request, run), "</div></div></section>\n");
}

std::string Legend(const TimelineScale& scale) {
  auto entry = [](const std::string& style_class, const std::string& text) {
    return absl::StrCat(
        "<span><svg viewBox=\"0 0 16 14\"><rect width=\"16\" "
        "height=\"14\" rx=\"2\" class=\"",
        style_class, "\"/></svg>", text, "</span>");
  };
  std::string html = "<div class=\"legend\"><span class=\"soft\">degree</span>";
  for (int degree : scale.degrees) {
    html += entry(DegreeClass(scale.degrees, degree), absl::StrCat(degree));
  }
  html += entry("waiting", "waiting");
  if (scale.bound_ns == 0) return html + "</div>\n";
  html +=
      "<span><svg viewBox=\"0 0 16 14\"><line x1=\"8\" y1=\"0\" x2=\"8\" "
      "y2=\"14\" class=\"bound\"/></svg>lower bound of any plan</span>";
  return html + "</div>\n";
}

constexpr char kColumnsExplained[] = R"(<h2>Columns</h2>
<dl>
<dt>step s</dt><dd>predicted time of the step</dd>
<dt>ratio, bound</dt><dd>step time over the lower bound of any plan, and the
 argument that gives this bound</dd>
<dt>imbalance</dt><dd>1 - mean over ranks of busy time / step time</dd>
<dt>padding</dt><dd>share of the tokens computed that are padding</dd>
<dt>recompute</dt><dd>share of layers times tokens that are computed again in
 backward</dd>
<dt>vs best</dt><dd>the fastest policy other than even over this one: above 1
 is faster</dd>
<dt>plan ms</dt><dd>CPU time of planning, on one thread</dd>
</dl>
)";

std::string Head(const Comparison& comparison, const RequestNames& names) {
  const std::string bound = DescribeBound(comparison);
  const std::string settings = DescribeSettings(names);
  return absl::StrCat(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, "
      "initial-scale=1\">\n<title>Evenstep plan</title>\n<style>",
      kReportStyle, "</style></head><body>\n", kHatchPattern,
      "<h1>How this step would run</h1>\n<p>", EscapeHtml(names.lengths), ": ",
      EscapeHtml(DescribeRequest(comparison.request)),
      "</p>\n<p>Costs: ", EscapeHtml(names.costs), " <span class=\"soft\">(",
      EscapeHtml(names.costs_source), ")</span></p>\n",
      settings.empty() ? ""
                       : absl::StrCat("<p>", EscapeHtml(settings), "</p>\n"),
      "<p class=\"soft\">Predicted by a cost model, not "
      "measured. ",
      EscapeHtml(bound.empty() ? ""
                 : comparison.IsElastic()
                     ? absl::StrCat("Here ", bound, ".")
                     : absl::StrCat("Any plan: ", bound, ".")),
      "</p>\n");
}

}  // namespace

std::string ReportHtml(const Comparison& comparison,
                       const RequestNames& names) {
  const std::vector<Drawn> drawn = DrawnRuns(comparison);
  const TimelineScale scale = ScaleOf(drawn);
  const LengthBins bins = BinLengths(comparison.request);
  std::string html = Head(comparison, names);
  absl::StrAppend(&html, "<h2>Policies</h2>\n");
  if (!drawn.empty()) {
    absl::StrAppend(&html, TableHtml(comparison), "<div class=\"gap\"></div>\n",
                    StepTimes(drawn));
  }
  for (const std::string& line : Failures(comparison)) {
    absl::StrAppend(&html, "<p class=\"problem\">", EscapeHtml(line), "</p>\n");
  }
  absl::StrAppend(&html, "<h2>Lengths</h2>\n<div class=\"charts\"><div>",
                  LengthChart(bins, bins.samples, "samples"), "</div><div>",
                  LengthChart(bins, bins.tokens, "tokens in samples"),
                  "</div></div>\n");
  if (!drawn.empty()) {
    absl::StrAppend(&html, "<h2>Timelines</h2>\n", Legend(scale));
  }
  for (const Drawn& one : drawn) {
    absl::StrAppend(&html, PolicySection(comparison, one, scale));
  }
  return absl::StrCat(html, kColumnsExplained, "</body></html>\n");
}

}  // namespace evenstep::plan
