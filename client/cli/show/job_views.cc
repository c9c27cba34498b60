#include "client/cli/show/job_views.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/text.h"
#include "client/cli/show/format_value.h"
#include "client/cli/show/printable_text.h"
#include "data/sample_rules.h"

namespace evenstep::cli {
namespace {

using client::Job;
using client::StepSummary;

constexpr size_t kStepsShown = 5;

// Not measured or not predicted: a dash.
std::string FormatMib(std::optional<int64_t> bytes) {
  constexpr double kMib = 1 << 20;
  if (!bytes.has_value()) return "-";
  return absl::StrFormat("%.1f MiB", static_cast<double>(*bytes) / kMib);
}

std::string Dash(const std::string& text) { return text.empty() ? "-" : text; }

std::string Steps(const Job& job) {
  return absl::StrCat(job.steps_done, "/", job.num_steps);
}

std::string Age(const Job& job, absl::Time now) {
  return FormatSpan(now - job.submitted);
}

std::string RunTime(const Job& job, absl::Time now) {
  if (!job.started) return "-";
  return FormatSpan(job.ended.value_or(now) - *job.started);
}

std::string Nodes(const Job& job) {
  return Dash(
      absl::StrJoin(job.placements, ",",
                    [](std::string* out, const client::Placement& placement) {
                      absl::StrAppend(out, placement.node);
                      if (placement.num_ranks > 1) {
                        absl::StrAppend(out, " x", placement.num_ranks);
                      }
                    }));
}

void AddEvaluation(const client::Totals& totals, std::vector<Row>* rows) {
  if (!totals.last_evaluation || !totals.best_evaluation) return;
  const client::Evaluation& last = *totals.last_evaluation;
  const client::Evaluation& best = *totals.best_evaluation;
  std::string text = absl::StrFormat("loss %.4f after step %d, in %.1f s",
                                     last.loss, last.step, last.seconds);
  if (best.step != last.step) {
    absl::StrAppendFormat(&text, "; least %.4f after step %d", best.loss,
                          best.step);
  }
  rows->push_back({"Evaluation:", text});
}

void AddTotals(const Job& job, std::vector<Row>* rows) {
  const client::Totals& totals = job.totals;
  if (totals.step_seconds <= 0) return;
  AddEvaluation(totals, rows);
  rows->push_back(
      {"Speed:", absl::StrFormat(
                     "%.3f s/step, %s tokens/s",
                     totals.step_seconds / std::max<int64_t>(1, job.steps_done),
                     FormatCount(static_cast<double>(totals.trained_tokens) /
                                 totals.step_seconds))});
  rows->push_back({"Imbalance:", FormatShare(totals.idle_share) +
                                     " of the ranks' time spent waiting"});
  rows->push_back({"Padding:", FormatShare(totals.padding_ratio)});
  rows->push_back(
      {"Prediction:",
       absl::StrFormat("%s off the step times; computing %+.1f%% against the "
                       "first costs",
                       FormatShare(totals.prediction_error),
                       totals.cost_drift * 100)});
  rows->push_back(
      {"Coordination:", absl::StrFormat("%.2f%% of step time",
                                        totals.coordination_share * 100)});
  if (totals.plans_refused > 0) {
    rows->push_back({"Refused plans:", absl::StrCat(totals.plans_refused,
                                                    " (replaced by static)")});
  }
}

std::vector<Row> Head(const Job& job, absl::Time now) {
  Cell state = StateCell(job.state);
  std::vector<Row> rows = {{"Job:", Cell(job.id, Colour::kBold)},
                           {"Name:", Dash(job.name)},
                           {"State:", state}};
  if (!job.reason.empty()) rows.push_back({"Reason:", job.reason});
  if (!job.message.empty()) rows.push_back({"Message:", job.message});
  if (job.queue_position > 0) {
    rows.push_back(
        {"In queue:", absl::StrCat("position ", job.queue_position)});
  }
  rows.push_back({"Steps:", Steps(job)});
  rows.push_back({"Policy:", Dash(job.policy)});
  rows.push_back({"Ranks:", absl::StrCat(job.ranks)});
  rows.push_back({"Nodes:", Nodes(job)});
  rows.push_back({"Submitted:", FormatInstant(job.submitted)});
  rows.push_back({"Started:", FormatInstant(job.started)});
  rows.push_back({"Ended:", FormatInstant(job.ended)});
  rows.push_back({"Run time:", RunTime(job, now)});
  if (!job.emulated_link.empty()) rows.push_back({"Link:", job.emulated_link});
  return rows;
}

std::vector<Row> StepTable(const std::vector<StepSummary>& steps) {
  // What was measured, and beside it what was predicted.
  std::vector<Row> rows = {{"  STEP", "LOSS", "SECONDS", "PREDICTED",
                            "IMBALANCE", "PREDICTED", "MEMORY", "PREDICTED",
                            "TOKENS", "PADDING", "DEGREE", "PLAN LEAD"}};
  const size_t first =
      steps.size() > kStepsShown ? steps.size() - kStepsShown : 0;
  for (size_t i = first; i < steps.size(); ++i) {
    const StepSummary& step = steps[i];
    rows.push_back(
        {absl::StrCat("  ", step.step), absl::StrFormat("%.4f", step.loss),
         absl::StrFormat("%.3f", step.step_seconds),
         absl::StrFormat("%.3f", step.predicted_seconds),
         FormatShare(step.idle_share), FormatShare(step.predicted_imbalance),
         FormatMib(step.peak_activation_bytes),
         FormatMib(step.predicted_activation_bytes),
         absl::StrCat(step.trained_tokens), FormatShare(step.padding_ratio),
         absl::StrCat(step.highest_degree), absl::StrCat(step.plan_lead)});
  }
  return rows;
}

// "; 3 skipped as too long; 1 without a loss".
std::string LeftOut(
    const std::vector<std::pair<int64_t, const char*>>& counts) {
  std::string text;
  for (const auto& [count, what] : counts) {
    if (count > 0) absl::StrAppend(&text, "; ", count, " ", what);
  }
  return text;
}

constexpr char kTooLong[] = "skipped as too long";
constexpr char kCut[] = "cut to max_length";
constexpr char kBad[] = "skipped as bad";

// "; left out: 1 hidden entry, 2 entries of earlier runs".
std::string FormatNoData(const client::DataSummary& data) {
  const std::string left_out = data::DescribeLeftOut(
      {data.num_hidden_files, data.num_own_files, data.num_tool_files,
       data.num_links, data.num_json_files});
  return left_out.empty() ? "" : absl::StrCat("; left out: ", left_out);
}

std::string FormatHeldOut(const client::DataSummary& data) {
  std::string left_out =
      LeftOut({{data.evaluation_too_long, kTooLong},
               {data.evaluation_truncated, kCut},
               {data.evaluation_bad, kBad},
               {data.evaluation_untrained, "without a loss"}});
  if (!left_out.empty()) left_out = absl::StrCat(" (", left_out.substr(2), ")");
  return absl::StrCat("; ", data.evaluation_samples, " more for evaluation, ",
                      FormatCount(static_cast<double>(data.evaluation_tokens)),
                      " tokens", left_out);
}

}  // namespace

std::string FormatData(const client::DataSummary& data) {
  if (data.bytes_to_index > 0) {
    return absl::StrCat(
        "indexing: ", FormatPercent(data.indexed_bytes, data.bytes_to_index),
        " of ", FormatBytes(static_cast<double>(data.bytes_to_index)));
  }
  return absl::StrCat(Counted(data.num_samples, "document"), ", ",
                      FormatCount(static_cast<double>(data.total_tokens)),
                      " tokens, longest ", data.longest_tokens,
                      LeftOut({{data.num_too_long, kTooLong},
                               {data.num_truncated, kCut},
                               {data.num_bad, kBad}}),
                      FormatNoData(data),
                      data.evaluation_samples > 0 ? FormatHeldOut(data) : "");
}

std::string FormatDataAndWarnings(const client::DataSummary& data) {
  std::string text = absl::StrCat("Data: ", FormatData(data));
  for (const std::string& warning : data.warnings) {
    absl::StrAppend(&text, "\nWarning: ", PrintableText(warning));
  }
  return text;
}

std::string FormatJobList(const std::vector<Job>& jobs, Detail detail,
                          absl::Time now, ColourMode mode) {
  std::vector<Row> rows = {{"ID", "NAME", "STATE", "STEPS", "RANKS", "AGE"}};
  if (detail == Detail::kWide) {
    for (const char* title : {"POLICY", "RUN TIME", "NODES", "REASON"}) {
      rows[0].emplace_back(title);
    }
  }
  for (const Job& job : jobs) {
    Row row = {job.id,     Dash(job.name),          StateCell(job.state),
               Steps(job), absl::StrCat(job.ranks), Age(job, now)};
    if (detail == Detail::kWide) {
      for (const std::string& text : {Dash(job.policy), RunTime(job, now),
                                      Nodes(job), Dash(job.reason)}) {
        row.emplace_back(text);
      }
    }
    rows.push_back(row);
  }
  return FormatTable(rows, mode);
}

std::string FormatJob(const Job& job, Detail detail, absl::Time now,
                      ColourMode mode) {
  std::vector<Row> rows = Head(job, now);
  AddTotals(job, &rows);
  if (job.data) {
    rows.push_back({"Data:", FormatData(*job.data)});
    for (const std::string& warning : job.data->warnings) {
      rows.push_back({"Warning:", PrintableText(warning)});
    }
  }
  const std::string weights = FormatWeights(job);
  if (!weights.empty()) rows.push_back({"Weights:", weights});
  if (detail == Detail::kWide) {
    rows.push_back({"Attempt:", absl::StrCat(job.attempt)});
    rows.push_back({"Generation:", absl::StrCat(job.generation)});
  }
  std::string text = FormatTable(rows, mode);
  if (!job.recent_steps.empty()) {
    absl::StrAppend(&text, "Last steps:\n",
                    FormatTable(StepTable(job.recent_steps), mode));
  }
  if (detail == Detail::kWide) {
    absl::StrAppend(&text, "Job file:\n", PrintableText(job.job_yaml));
  }
  return text;
}

std::string FormatEvent(const client::JobEvent& event, ColourMode mode) {
  const Cell state = StateCell(event.state);
  std::string line = absl::StrCat(
      FormatInstant(event.time), "  ",
      Paint(absl::StrFormat("%-10s", state.text), state.colour, mode));
  if (!event.reason.empty()) absl::StrAppend(&line, "  ", event.reason);
  if (!event.message.empty()) {
    absl::StrAppend(&line, "  ", PrintableText(event.message));
  }
  return line;
}

std::string FormatLogLine(const client::LogLine& line, Detail detail) {
  const std::string who =
      line.rank < 0 ? "agent" : absl::StrCat("rank ", line.rank);
  std::string text = absl::StrCat("[", who, "] ", PrintableText(line.text));
  if (detail == Detail::kNarrow) return text;
  return absl::StrCat(FormatInstant(line.time), "  ", text);
}

std::string FormatWeights(const Job& job) {
  if (job.weights_path.empty()) {
    if (!client::IsFinal(job.state) || !job.started) return "";
    return absl::StrCat("none were written",
                        job.weights_note.empty() ? "" : ": ", job.weights_note);
  }
  std::string text = job.weights_path;
  if (!job.weights_node.empty()) {
    absl::StrAppend(&text, " on node ", job.weights_node);
  }
  if (job.weights_steps > 0 && job.weights_steps < job.num_steps) {
    absl::StrAppend(&text, " (after ", job.weights_steps, " of ", job.num_steps,
                    " steps)");
  }
  if (!job.weights_note.empty()) absl::StrAppend(&text, "; ", job.weights_note);
  return text;
}

std::string FormatOutcome(const Job& job) {
  std::string text =
      absl::StrCat(client::JobStateName(job.state), " after ", job.steps_done,
                   " of ", Counted(job.num_steps, "step"));
  if (!job.reason.empty() && job.state != client::JobState::kSucceeded) {
    absl::StrAppend(&text, " (", job.reason, ")");
  }
  if (!job.message.empty() && job.state != client::JobState::kSucceeded) {
    absl::StrAppend(&text, ": ", job.message);
  }
  return text;
}

}  // namespace evenstep::cli
