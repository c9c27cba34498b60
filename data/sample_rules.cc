#include "data/sample_rules.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "base/counted.h"
#include "base/log.h"

namespace evenstep::data {
namespace {

absl::string_view Ellipsis(int64_t count,
                           const std::vector<std::string>& named) {
  return count > static_cast<int64_t>(named.size()) ? "; ..." : "";
}

// Names the first of those that are bad.
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
                    Ellipsis(num_bad, notes));
  }
  return absl::FailedPreconditionError(text);
}

}  // namespace

void SampleRules::AddBad(const std::string& name, const std::string& reason) {
  ++num_bad_;
  if (notes_.size() < most_notes_) {
    notes_.push_back(absl::StrCat(name, ": ", reason));
  }
}

void SampleRules::AddTooLong(int64_t tokens,
                             const std::function<std::string()>& name) {
  if (options_.on_too_long == OnTooLong::kTruncate) {
    ++num_truncated_;
    return;
  }
  ++num_too_long_;
  if (too_long_.size() < kMostNamedSamples) {
    too_long_.push_back(absl::StrCat(name(), ": ", tokens, " tokens"));
  }
}

absl::Status SampleRules::Check(int64_t num_left) const {
  if (num_bad_ > 0 && options_.on_bad_sample == OnBadSample::kFail) {
    return absl::FailedPreconditionError(absl::StrCat(
        Counted(num_bad_, "bad sample"), " in ", options_.source, ": ",
        absl::StrJoin(notes_, "; "), Ellipsis(num_bad_, notes_),
        " (data.on_bad_sample: skip leaves them out)"));
  }
  if (num_too_long_ > 0 && options_.on_too_long == OnTooLong::kFail) {
    return absl::FailedPreconditionError(absl::StrCat(
        num_too_long_, " samples of ", options_.source,
        " are longer than max_length ", options_.max_length, ": ",
        absl::StrJoin(too_long_, "; "), Ellipsis(num_too_long_, too_long_),
        " (raise data.max_length, or data.on_too_long: skip or truncate)"));
  }
  if (num_left > 0) return absl::OkStatus();
  return NoSampleLeft(options_, num_bad_, num_too_long_, notes_);
}

std::string DescribeLeftOut(const LeftOut& left_out) {
  std::vector<std::string> parts;
  const auto add = [&](int64_t count, absl::string_view one,
                       absl::string_view many) {
    if (count == 0) return;
    parts.push_back(absl::StrCat(count, " ", count == 1 ? one : many));
  };
  add(left_out.hidden, "hidden entry", "hidden entries");
  add(left_out.own, "entry of an earlier run", "entries of earlier runs");
  add(left_out.tools, "entry of a tool or a model",
      "entries of tools or models");
  add(left_out.links, "link that is not followed",
      "links that are not followed");
  return absl::StrJoin(parts, ", ");
}

void LogIndexed(const DatasetOptions& options, size_t num_files,
                const LeftOut& left_out, const DatasetSummary& summary,
                const std::vector<std::string>& notes) {
  Log(LogLevel::kInfo, "data_indexed",
      {{"source", options.source},
       {"files", num_files},
       {"hidden_left_out", left_out.hidden},
       {"own_left_out", left_out.own},
       {"tools_left_out", left_out.tools},
       {"links_left_out", left_out.links},
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
