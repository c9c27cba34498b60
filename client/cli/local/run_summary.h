#ifndef EVENSTEP_CLIENT_CLI_LOCAL_RUN_SUMMARY_H_
#define EVENSTEP_CLIENT_CLI_LOCAL_RUN_SUMMARY_H_

// What a run leaves behind beside its weights: summary.json, loss.csv and
// loss.json. Pure functions of the job and of its committed steps.

#include <string>
#include <vector>

#include "client/cli/show/to_json.h"
#include "evenstep/job.h"

namespace evenstep::cli {

// Steps at the start that medians and rates leave out: caches and threads are
// still cold.
inline constexpr size_t kWarmUpSteps = 2;

// Figures are over the steps after the warm-up (over all, if there are no
// more); `steps`, `losses` and `step_seconds_all` hold every step.
Json SummarizeRun(const client::Job& job,
                  const std::vector<client::StepSummary>& steps);

// One row per step, with a header.
std::string FormatLossCurve(const std::vector<client::StepSummary>& steps);
// The same as {"columns": [...], "rows": [[...], ...]}; null where no
// evaluation followed the step.
Json LossCurveJson(const std::vector<client::StepSummary>& steps);

}  // namespace evenstep::cli

#endif  // EVENSTEP_CLIENT_CLI_LOCAL_RUN_SUMMARY_H_
