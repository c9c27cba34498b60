#include "client/cli/local/run_summary.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace evenstep::cli {
namespace {

using client::StepSummary;
using Steps = std::vector<StepSummary>;

Steps Measured(const Steps& steps) {
  if (steps.size() <= kWarmUpSteps) return steps;
  return Steps(steps.begin() + kWarmUpSteps, steps.end());
}

template <typename Value>
double Sum(const Steps& steps, Value value) {
  double sum = 0;
  for (const StepSummary& step : steps) sum += value(step);
  return sum;
}

double Seconds(const StepSummary& step) { return step.step_seconds; }

double Tokens(const StepSummary& step) {
  return static_cast<double>(step.trained_tokens);
}

// Tokens with their padding.
double PaddedTokens(const StepSummary& step) {
  return step.padding_ratio < 1 ? Tokens(step) / (1 - step.padding_ratio) : 0;
}

Json Ratio(double part, double whole) {
  return whole > 0 ? Json(part / whole) : Json();
}

Json MedianSeconds(const Steps& steps) {
  if (steps.empty()) return nullptr;
  std::vector<double> seconds;
  for (const StepSummary& step : steps) seconds.push_back(step.step_seconds);
  std::sort(seconds.begin(), seconds.end());
  const size_t middle = seconds.size() / 2;
  if (seconds.size() % 2 == 1) return seconds[middle];
  return (seconds[middle - 1] + seconds[middle]) / 2;
}

template <typename Value>
Json Column(const Steps& steps, Value value) {
  Json column = Json::array();
  for (const StepSummary& step : steps) column.push_back(value(step));
  return column;
}

Json Evaluations(const Steps& steps) {
  Json list = Json::array();
  for (const StepSummary& step : steps) {
    if (step.evaluation) list.push_back(ToJson(step.evaluation));
  }
  return list;
}

void AddFigures(const client::Job& job, const Steps& steps, Json* summary) {
  const Steps measured = Measured(steps);
  const double seconds = Sum(measured, Seconds);
  Json& json = *summary;
  json["step_seconds"] = MedianSeconds(measured);
  json["tokens_per_second"] = Ratio(Sum(measured, Tokens), seconds);
  json["idle_share"] = Ratio(Sum(measured,
                                 [](const StepSummary& step) {
                                   return step.idle_share * step.step_seconds;
                                 }),
                             seconds);
  const double padded = Sum(measured, PaddedTokens);
  json["padding_ratio"] = Ratio(padded - Sum(measured, Tokens), padded);
  json["first_loss"] = steps.empty() ? Json() : Json(steps.front().loss);
  json["final_loss"] = steps.empty() ? Json() : Json(steps.back().loss);
  json["coordination_share"] = job.totals.coordination_share;
  json["plan_lead_share"] =
      Ratio(static_cast<double>(job.totals.steps_with_plan_lead),
            static_cast<double>(job.totals.steps_after_fourth));
  json["cpu_seconds"] = Sum(steps, [&](const StepSummary& step) {
    return step.mean_cpu_seconds * job.ranks;
  });
  json["slowest_rank_cpu_seconds"] = Sum(
      steps, [](const StepSummary& step) { return step.slowest_cpu_seconds; });
}

}  // namespace

Json SummarizeRun(const client::Job& job, const Steps& steps) {
  Json summary = {{"job_id", job.id},
                  {"name", job.name},
                  {"state", std::string(client::JobStateName(job.state))},
                  {"reason", job.reason},
                  {"message", job.message},
                  {"policy", job.policy},
                  {"ranks", job.ranks},
                  {"num_steps", job.num_steps},
                  {"steps_done", job.steps_done},
                  {"weights_steps", job.weights_steps},
                  {"weights_note", job.weights_note},
                  {"emulated_link", job.emulated_link}};
  AddFigures(job, steps, &summary);
  summary["data"] = job.data ? ToJson(*job.data) : Json();
  summary["costs"] = job.costs ? ToJson(*job.costs) : Json();
  summary["totals"] = ToJson(job.totals);
  summary["losses"] =
      Column(steps, [](const StepSummary& step) { return step.loss; });
  summary["evaluations"] = Evaluations(steps);
  summary["step_seconds_all"] = Column(steps, Seconds);
  summary["steps"] =
      Column(steps, [](const StepSummary& step) { return ToJson(step); });
  return summary;
}

std::string FormatLossCurve(const Steps& steps) {
  std::string csv =
      "step,loss,step_seconds,trained_tokens,idle_share,padding_ratio,"
      "evaluation_loss\n";
  for (const StepSummary& step : steps) {
    absl::StrAppendFormat(&csv, "%d,%.9g,%.6f,%d,%.6f,%.6f,", step.step,
                          step.loss, step.step_seconds, step.trained_tokens,
                          step.idle_share, step.padding_ratio);
    if (step.evaluation) {
      absl::StrAppendFormat(&csv, "%.9g", step.evaluation->loss);
    }
    csv += '\n';
  }
  return csv;
}

Json LossCurveJson(const Steps& steps) {
  Json rows = Json::array();
  for (const StepSummary& step : steps) {
    rows.push_back({step.step, step.loss, step.step_seconds,
                    step.trained_tokens, step.idle_share, step.padding_ratio,
                    step.evaluation ? Json(step.evaluation->loss) : Json()});
  }
  return {{"columns",
           {"step", "loss", "step_seconds", "trained_tokens", "idle_share",
            "padding_ratio", "evaluation_loss"}},
          {"rows", std::move(rows)}};
}

}  // namespace evenstep::cli
