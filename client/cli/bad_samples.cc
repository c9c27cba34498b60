#include "client/cli/bad_samples.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/counted.h"
#include "planner/validate.h"

namespace evenstep::cli {

std::string NameBadSamples(data::DatasetOptions options, int64_t num_bad) {
  options.max_length = planner::kMaxLengthTokens;
  options.on_too_long = data::OnTooLong::kSkip;
  options.on_bad_sample = data::OnBadSample::kFail;
  // What a job says that takes none, without the count and the job file's key.
  const absl::Status refused = data::OpenDataset(options).status();
  absl::string_view names = refused.message();
  absl::ConsumePrefix(&names, absl::StrCat(Counted(num_bad, "bad sample"),
                                           " in ", options.source, ": "));
  absl::ConsumeSuffix(&names, " (data.on_bad_sample: skip leaves them out)");
  return std::string(names);
}

}  // namespace evenstep::cli
