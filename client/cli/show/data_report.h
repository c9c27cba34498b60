#ifndef EVENSTEP_CLIENT_CLI_SHOW_DATA_REPORT_H_
#define EVENSTEP_CLIENT_CLI_SHOW_DATA_REPORT_H_

// What `evenstep data inspect` finds out about a data set, and how it is shown:
// counts, a histogram of lengths, what a job's rules would do, and what a job
// would hold out. Pure but for the data set's index, which is already open.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/cli/show/to_json.h"
#include "data/dataset.h"
#include "evenstep/job.h"

namespace evenstep::cli {

// Samples of at least `from` and less than `until` tokens.
struct LengthBucket {
  int64_t from = 0;
  int64_t until = 0;
  int64_t num_samples = 0;
  int64_t num_tokens = 0;
};

// What a job that is evaluated makes of its data.
struct HeldOutReport {
  std::string source;       // empty: a share of the job's data
  int64_t num_samples = 0;  // held out: never trained on
  int64_t num_tokens = 0;
  client::DataSummary job;  // as its ranks would report it
  std::string refused;      // not empty: why the job would not start
};

struct DataReport {
  std::string source;
  int64_t num_samples = 0;  // of any length; bad ones are not among them
  int64_t num_bad = 0;
  std::vector<std::string> bad_samples;  // "NAME: reason" of the first or all
  data::LeftOut left_out;                // entries of the folder
  std::vector<std::string> json_files;   // left_out.json: the first or all
  int64_t num_beyond_limit = 0;  // longer than any sample may be; left out
  int64_t num_tokens = 0;
  int64_t num_trained = 0;  // tokens with a loss
  int64_t num_masked = 0;   // samples without any
  int64_t longest = 0;
  std::string longest_name;
  int patch = 0;  // of clips: a token's side in latent pixels; 0: no clips
  data::ClipShape longest_clip;
  int64_t median = 0;
  int64_t largest_token = -1;           // where the source has ids of its own
  int64_t vocab = 0;                    // the job's; 0: none was given
  std::vector<LengthBucket> histogram;  // by powers of two, ascending
  bool is_job = false;  // the rules are a job file's; else its defaults
  // The job's rules; max_length of 0: none were given.
  int64_t max_length = 0;
  data::OnTooLong on_too_long = data::OnTooLong::kFail;
  data::OnBadSample on_bad_sample = data::OnBadSample::kFail;
  int64_t num_too_long = 0;
  int64_t tokens_too_long = 0;  // of these samples
  int64_t tokens_cut = 0;       // by the rule, of samples that are too long
  std::optional<HeldOutReport> held_out;  // absent: nothing is held out
  std::vector<std::string> warnings;      // of a job (jobspec/job_warnings.h)
};

// `dataset` was opened without a limit of length; the rules are those that
// `rules` has.
DataReport MakeDataReport(const data::Dataset& dataset,
                          const data::DatasetOptions& rules);

// At most `columns` wide.
std::string FormatDataReport(const DataReport& report, int columns);
Json ToJson(const DataReport& report);

}  // namespace evenstep::cli

#endif  // EVENSTEP_CLIENT_CLI_SHOW_DATA_REPORT_H_
