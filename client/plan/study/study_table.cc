// The study's statistics and tables (study.h).

#include <cmath>
#include <iterator>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/plan/study/study.h"

namespace evenstep::plan {
namespace {

// Two-sided 95 % of Student's t, by degrees of freedom from 1; the normal law
// above.
constexpr double kStudent[] = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365,
                               2.306,  2.262, 2.228, 2.201, 2.179, 2.160, 2.145,
                               2.131,  2.120, 2.110, 2.101, 2.093, 2.086};

std::string Format(const Interval& interval) {
  return absl::StrFormat("%.2f +- %.2f", interval.mean, interval.half_width);
}

std::string Percent(const Interval& interval) {
  return absl::StrFormat("%.0f%%", interval.mean * 100);
}

// A header of Markdown for the model, the law, and these columns.
std::string HeaderOf(const std::vector<std::string>& columns) {
  std::string header = "| model | law |";
  std::string rule = "|---|---|";
  for (const std::string& column : columns) {
    absl::StrAppend(&header, " ", column, " |");
    absl::StrAppend(&rule, "---|");
  }
  return absl::StrCat(header, "\n", rule, "\n");
}

std::string Throughput(const StudyTable& table) {
  std::vector<std::string> columns;
  for (const std::string& policy : table.policies) {
    if (policy != table.baseline) columns.push_back("`" + policy + "`");
  }
  columns.insert(columns.end(), {"`dcp-intra`'s step over `even`'s own: mean "
                                 "(least)",
                                 "`even` over bound", "drawn plan kept"});
  std::string text = HeaderOf(columns);
  for (const StudyRow& row : table.rows) {
    absl::StrAppend(&text, "| ", row.model, " | ", row.law, " |");
    if (!row.error.empty()) {
      absl::StrAppend(&text, " no plan: ", row.error, " |\n");
      continue;
    }
    for (const StudyRow::Cell& cell : row.cells) {
      if (cell.policy == table.baseline) continue;
      absl::StrAppend(&text, " ", Format(cell.speedup), " |");
    }
    absl::StrAppend(
        &text,
        absl::StrFormat(" %.3f (%.3f) | %.3f | ", row.even_over_intra.mean,
                        row.worst_even_over_intra, row.even_over_bound.mean),
        Percent(row.drawn_kept), " |\n");
  }
  return text;
}

std::string Shares(const StudyTable& table) {
  std::vector<std::string> columns;
  for (const std::string& policy : table.policies) {
    columns.push_back("`" + policy + "`");
  }
  std::string text = HeaderOf(columns);
  for (const StudyRow& row : table.rows) {
    if (!row.error.empty()) continue;
    absl::StrAppend(&text, "| ", row.model, " | ", row.law, " |");
    for (const StudyRow::Cell& cell : row.cells) {
      absl::StrAppend(&text, " ", Percent(cell.idle), ", ",
                      Percent(cell.recompute), ", ",
                      absl::StrFormat("%.1f", cell.degree.mean), " |");
    }
    text += "\n";
  }
  return text;
}

}  // namespace

Interval IntervalOf(const std::vector<double>& values) {
  const auto count = static_cast<double>(values.size());
  Interval interval;
  interval.mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  if (values.size() < 2) return interval;
  double squares = 0;
  for (double value : values) {
    squares += (value - interval.mean) * (value - interval.mean);
  }
  const size_t freedom = values.size() - 1;
  const double t =
      freedom <= std::size(kStudent) ? kStudent[freedom - 1] : 1.96;
  interval.half_width = t * std::sqrt(squares / (count - 1) / count);
  return interval;
}

std::string ToMarkdown(const StudyTable& table) {
  return absl::StrCat(
      "### ", table.title, "\n\nThroughput over `", table.baseline,
      "`'s, mean and 95 % interval over the seeds:\n\n", Throughput(table),
      "\nIdle share of the ranks, layers recomputed, mean "
      "degree by rank-time:\n\n",
      Shares(table));
}

}  // namespace evenstep::plan
