#ifndef EVENSTEP_CLIENT_CLI_SHOW_JOB_VIEWS_H_
#define EVENSTEP_CLIENT_CLI_SHOW_JOB_VIEWS_H_

// Jobs, events and log lines as text for people. Pure functions; the time now
// is given.

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/cli/show/table.h"
#include "evenstep/job.h"

namespace evenstep::cli {

enum class Detail { kNarrow, kWide };

std::string FormatJobList(const std::vector<client::Job>& jobs, Detail detail,
                          absl::Time now, ColourMode mode);
std::string FormatJob(const client::Job& job, Detail detail, absl::Time now,
                      ColourMode mode);
std::string FormatEvent(const client::JobEvent& event, ColourMode mode);
std::string FormatLogLine(const client::LogLine& line, Detail detail);

// "FAILED after 12 of 100 steps (NOT_FINITE): loss is not finite in step 12".
std::string FormatOutcome(const client::Job& job);
// Where the weights are, on which node, and after how many steps if the job
// ended early; "none were written: WHY" of a job that left none. Empty before.
std::string FormatWeights(const client::Job& job);
// "thousands of documents, 3 skipped as too long": what is left out is shown.
std::string FormatData(const client::DataSummary& data);
// "Data: ...", and a line for each warning.
std::string FormatDataAndWarnings(const client::DataSummary& data);

}  // namespace evenstep::cli

#endif  // EVENSTEP_CLIENT_CLI_SHOW_JOB_VIEWS_H_
