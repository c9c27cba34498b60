#include "data/sample_rules.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "base/log.h"

namespace evenstep::data {
namespace {

// Bad or too long samples that are named; the rest are counted.
constexpr size_t kMaxNamed = 5;

absl::string_view Ellipsis(int64_t count) {
  return count > static_cast<int64_t>(kMaxNamed) ? "; ..." : "";
}

}  // namespace

void SampleRules::AddBad(const std::string& name, const std::string& reason) {
  ++num_bad_;
  if (notes_.size() < kMaxNamed) {
    notes_.push_back(absl::StrCat(name, ": ", reason));
  }
}

void SampleRules::AddTooLong(const std::string& name, int64_t tokens) {
  if (options_.on_too_long == OnTooLong::kTruncate) {
    ++num_truncated_;
    return;
  }
  ++num_too_long_;
  if (too_long_.size() < kMaxNamed) {
    too_long_.push_back(absl::StrCat(name, ": ", tokens, " tokens"));
  }
}

absl::Status SampleRules::Check(int64_t num_left) const {
  if (num_bad_ > 0 && options_.on_bad_sample == OnBadSample::kFail) {
    return absl::FailedPreconditionError(
        absl::StrCat(num_bad_, " bad samples in ", options_.source, ": ",
                     absl::StrJoin(notes_, "; "), Ellipsis(num_bad_),
                     " (data.on_bad_sample: skip leaves them out)"));
  }
  if (num_too_long_ > 0 && options_.on_too_long == OnTooLong::kFail) {
    return absl::FailedPreconditionError(absl::StrCat(
        num_too_long_, " samples of ", options_.source,
        " are longer than max_length ", options_.max_length, ": ",
        absl::StrJoin(too_long_, "; "), Ellipsis(num_too_long_),
        " (raise data.max_length, or data.on_too_long: skip or truncate)"));
  }
  if (num_left > 0) return absl::OkStatus();
  return NoSampleLeft(options_, num_bad_, num_too_long_, notes_);
}

absl::Status NoSampleLeft(const DatasetOptions& options, int64_t num_bad,
                          int64_t num_too_long,
                          const std::vector<std::string>& notes) {
  std::string text = absl::StrCat("no sample is left in ", options.source);
  if (num_too_long > 0) {
    absl::StrAppend(&text, "; ", num_too_long, " longer than max_length ",
                    options.max_length);
  }
  if (num_bad > 0) {
    absl::StrAppend(&text, "; ", num_bad, " bad: ", absl::StrJoin(notes, "; "),
                    Ellipsis(num_bad));
  }
  return absl::FailedPreconditionError(text);
}

void LogIndexed(const DatasetOptions& options, size_t num_files,
                int64_t num_links, const DatasetSummary& summary,
                const std::vector<std::string>& notes) {
  Log(LogLevel::kInfo, "data_indexed",
      {{"source", options.source},
       {"files", num_files},
       {"links_left_out", num_links},
       {"samples", summary.num_samples},
       {"too_long", summary.num_too_long},
       {"bad", summary.num_bad},
       {"truncated", summary.num_truncated},
       {"longest", summary.longest},
       {"tokens", summary.total_tokens},
       {"content_key", absl::StrCat(absl::Hex(summary.content_key))}});
  for (const std::string& note : notes) {
    Log(LogLevel::kWarning, "data_bad_sample", {{"sample", note}});
  }
}

}  // namespace evenstep::data
