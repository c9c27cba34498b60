#include "data/sample_rules.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "base/log.h"
#include "base/text.h"

namespace evenstep::data {
namespace {

// How to see those that a message does not name.
constexpr absl::string_view kWhereAllAre =
    "`evenstep data inspect --list-bad` names all";

bool NamesAll(int64_t num_bad) {
  return num_bad <= static_cast<int64_t>(kMostNamedSamples);
}

}  // namespace

void SampleRules::AddBad(const std::string& name, const std::string& reason) {
  ++num_bad_;
  if (note_bytes_ > kMostNoteBytes) return;
  notes_.push_back(absl::StrCat(name, ": ", reason));
  note_bytes_ += notes_.back().size();
}

void SampleRules::AddBadForAll(int64_t count, std::vector<std::string> notes) {
  num_bad_ += count;
  std::move(notes.begin(), notes.end(), std::back_inserter(notes_));
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

absl::Status SampleRules::Check(int64_t num_left,
                                const LeftOut& left_out) const {
  if (num_bad_ > 0 && options_.on_bad_sample == OnBadSample::kFail) {
    return absl::FailedPreconditionError(
        absl::StrCat(Counted(num_bad_, "bad sample"), " in ", options_.source,
                     ": ", NameFirst(notes_, num_bad_), " (",
                     NamesAll(num_bad_) ? "" : absl::StrCat(kWhereAllAre, "; "),
                     "data.on_bad_sample: skip leaves them out)"));
  }
  if (num_too_long_ > 0 && options_.on_too_long == OnTooLong::kFail) {
    return absl::FailedPreconditionError(absl::StrCat(
        num_too_long_, " samples of ", options_.source,
        " are longer than max_length ", options_.max_length, ": ",
        NameFirst(too_long_, num_too_long_),
        " (raise data.max_length, or data.on_too_long: skip or truncate)"));
  }
  if (num_left > 0 || options_.may_be_empty) return absl::OkStatus();
  return NoSampleLeft(left_out);
}

// Names the first of those that are bad.
absl::Status SampleRules::NoSampleLeft(const LeftOut& left_out) const {
  std::string text = absl::StrCat("no sample is left in ", options_.source);
  if (num_too_long_ > 0) {
    absl::StrAppend(&text, "; ", num_too_long_, " longer than max_length ",
                    options_.max_length);
  }
  if (num_bad_ > 0) {
    absl::StrAppend(&text, "; ", num_bad_,
                    " bad: ", NameFirst(notes_, num_bad_));
  }
  if (!NamesAll(num_bad_)) absl::StrAppend(&text, " (", kWhereAllAre, ")");
  const std::string no_data = DescribeLeftOut(left_out);
  if (!no_data.empty()) absl::StrAppend(&text, "; left out: ", no_data);
  return absl::FailedPreconditionError(text);
}

std::string NameFirst(absl::Span<const std::string> notes, int64_t count) {
  const auto named = notes.subspan(0, kMostNamedSamples);
  const int64_t more = count - static_cast<int64_t>(named.size());
  std::string text = absl::StrJoin(named, "; ");
  if (more > 0) absl::StrAppend(&text, "; and ", more, " more");
  return text;
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
  add(left_out.json, "JSON file without records", "JSON files without records");
  return absl::StrJoin(parts, ", ");
}

void LogIndexed(const DatasetOptions& options, size_t num_files,
                const DatasetSummary& summary) {
  const LeftOut& left_out = summary.left_out;
  Log(LogLevel::kInfo, "data_indexed",
      {{"source", options.source},
       {"files", num_files},
       {"hidden_left_out", left_out.hidden},
       {"own_left_out", left_out.own},
       {"tools_left_out", left_out.tools},
       {"links_left_out", left_out.links},
       {"json_left_out", left_out.json},
       {"samples", summary.num_samples},
       {"too_long", summary.num_too_long},
       {"bad", summary.num_bad},
       {"truncated", summary.num_truncated},
       {"longest", summary.longest},
       {"tokens", summary.total_tokens},
       {"content_key", absl::StrCat(absl::Hex(summary.content_key))}});
}

void LogBadSamples(const Dataset& dataset) {
  const auto logged = dataset.BadSamples().subspan(0, kMostLoggedSamples);
  for (const std::string& note : logged) {
    Log(LogLevel::kWarning, "data_bad_sample", {{"sample", note}});
  }
  const int64_t more =
      dataset.summary().num_bad - static_cast<int64_t>(logged.size());
  if (more == 0) return;
  Log(LogLevel::kWarning, "data_bad_samples_not_named",
      {{"count", more}, {"named_by", "evenstep data inspect --list-bad"}});
}

}  // namespace evenstep::data
