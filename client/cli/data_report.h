#ifndef EVENSTEP_CLIENT_CLI_DATA_REPORT_H_
#define EVENSTEP_CLIENT_CLI_DATA_REPORT_H_

// What `evenstep data inspect` finds out about a data set, and how it is shown:
// counts, a histogram of lengths, and what a job's rules would do. Pure but for
// the data set's index, which is already open.

#include <cstdint>
#include <string>
#include <vector>

#include "client/cli/to_json.h"
#include "data/dataset.h"

namespace evenstep::cli {

// Samples of at least `from` and less than `until` tokens.
struct LengthBucket {
  int64_t from = 0;
  int64_t until = 0;
  int64_t num_samples = 0;
  int64_t num_tokens = 0;
};

struct DataReport {
  std::string source;
  int64_t num_samples = 0;  // of any length; bad ones are not among them
  int64_t num_bad = 0;
  int64_t num_tokens = 0;
  int64_t num_trained = 0;  // tokens with a loss
  int64_t num_masked = 0;   // samples without any
  int64_t longest = 0;
  std::string longest_name;
  int patch = 0;  // of clips: a token's side in latent pixels; 0: no clips
  data::ClipShape longest_clip;
  int64_t median = 0;
  std::vector<LengthBucket> histogram;  // by powers of two, ascending
  // The job's rules; max_length of 0: none were given.
  int64_t max_length = 0;
  data::OnTooLong on_too_long = data::OnTooLong::kFail;
  data::OnBadSample on_bad_sample = data::OnBadSample::kFail;
  int64_t num_too_long = 0;
  int64_t tokens_cut = 0;  // by the rule, of samples that are too long
};

// `dataset` was opened without a limit of length; the rules are those that
// `rules` has.
DataReport MakeDataReport(const data::Dataset& dataset,
                          const data::DatasetOptions& rules);

// At most `columns` wide.
std::string FormatDataReport(const DataReport& report, int columns);
Json ToJson(const DataReport& report);

}  // namespace evenstep::cli

#endif  // EVENSTEP_CLIENT_CLI_DATA_REPORT_H_
