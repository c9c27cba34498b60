#include "data/sample_rules.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "base/log.h"
#include "base/text.h"
#include "data/index/length_index.h"

namespace evenstep::data {
namespace {

// How to see those that a message does not name.
constexpr absl::string_view kWhereAllAre =
    "`evenstep data inspect --list-bad` names all";

// Parts that a large file is split into: longer samples gain little.
constexpr int64_t kMostPartBytes = 4000;

// Consecutive records of a file, or a file.
struct NamedSamples {
  absl::string_view file;
  int64_t first = 0;  // 0: the whole file
  int64_t last = 0;
};

// Samples that are bad for the same reason.
struct SameReason {
  absl::string_view reason;
  std::vector<NamedSamples> samples;  // the first kMostNamedSamples
  int64_t num_more = 0;
};

// "FILE:LINE" or "FILE" of a note.
NamedSamples ParseName(absl::string_view name) {
  const size_t colon = name.rfind(':');
  int64_t line = 0;
  if (colon == absl::string_view::npos ||
      !absl::SimpleAtoi(name.substr(colon + 1), &line) || line < 1) {
    return {name};
  }
  return {name.substr(0, colon), line, line};
}

void AddName(const NamedSamples& name, SameReason* reason) {
  if (reason->num_more == 0 && !reason->samples.empty()) {
    NamedSamples& last = reason->samples.back();
    if (name.first > 0 && name.file == last.file &&
        name.first == last.last + 1) {
      last.last = name.first;
      return;
    }
  }
  if (reason->samples.size() < kMostNamedSamples) {
    reason->samples.push_back(name);
  } else {
    ++reason->num_more;
  }
}

// False: its reason is beyond the first ones.
bool AddToReasons(absl::string_view note, std::vector<SameReason>* reasons) {
  const size_t colon = note.find(": ");
  const bool has_reason = colon != absl::string_view::npos;
  const absl::string_view text = has_reason ? note.substr(colon + 2) : "";
  auto same = std::find_if(
      reasons->begin(), reasons->end(),
      [text](const SameReason& reason) { return reason.reason == text; });
  if (same == reasons->end()) {
    if (reasons->size() == kMostNamedSamples) return false;
    same = reasons->insert(reasons->end(), SameReason{text, {}, 0});
  }
  AddName(ParseName(note.substr(0, colon)), &*same);
  return true;
}

std::string TextOf(const SameReason& reason) {
  std::vector<std::string> names;
  for (const NamedSamples& samples : reason.samples) {
    names.push_back(std::string(samples.file));
    if (samples.first > 0) absl::StrAppend(&names.back(), ":", samples.first);
    if (samples.last > samples.first) {
      absl::StrAppend(&names.back(), "-", samples.last);
    }
  }
  return absl::StrCat(absl::StrJoin(names, ", "),
                      reason.num_more > 0
                          ? absl::StrCat(" and ", reason.num_more, " more")
                          : "",
                      reason.reason.empty() ? "" : ": ", reason.reason);
}

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

void SampleRules::AddTooLong(int64_t tokens, bool is_file,
                             const std::function<std::string()>& name) {
  if (is_file && absl::StartsWith(options_.source, "text:")) ++num_long_files_;
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
        Counted(num_too_long_, "sample"), " of ", options_.source,
        num_too_long_ == 1 ? " is" : " are", " longer than max_length ",
        options_.max_length, ": ", NameFirst(too_long_, num_too_long_),
        " (raise data.max_length, or data.on_too_long: skip or truncate)",
        SplitHint()));
  }
  if (num_left > 0 || options_.may_be_empty) return absl::OkStatus();
  return NoSampleLeft(left_out);
}

std::string SampleRules::SplitHint() const {
  return num_long_files_ == 0 ? "" : HowToSplit(options_.max_length);
}

// Names the first of those that are too long or bad.
absl::Status SampleRules::NoSampleLeft(const LeftOut& left_out) const {
  std::string text = absl::StrCat("no sample is left in ", options_.source);
  if (num_too_long_ > 0) {
    // Without a job's limit there is that of all samples.
    const bool is_limit = options_.max_length >= kHashedBytes;
    absl::StrAppend(&text, "; ", num_too_long_, " longer than ",
                    is_limit ? "any sample may be, " : "max_length ",
                    options_.max_length, is_limit ? " tokens: " : ": ",
                    NameFirst(too_long_, num_too_long_), SplitHint());
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

std::string HowToSplit(int64_t max_length) {
  const int64_t bytes = std::clamp<int64_t>(max_length - 1, 1, kMostPartBytes);
  return absl::StrCat(
      ". A file of text is one document: split a large one (`split -C ", bytes,
      " FILE part-`), or write its pieces as JSONL");
}

std::vector<std::string> NamedFirst(absl::Span<const std::string> notes,
                                    int64_t count) {
  std::vector<SameReason> reasons;
  int64_t more = count - static_cast<int64_t>(notes.size());
  for (const std::string& note : notes) {
    if (!AddToReasons(note, &reasons)) ++more;
  }
  std::vector<std::string> named;
  named.reserve(reasons.size() + 1);
  for (const SameReason& reason : reasons) named.push_back(TextOf(reason));
  if (more > 0) named.push_back(absl::StrCat("and ", more, " more"));
  return named;
}

std::string NameFirst(absl::Span<const std::string> notes, int64_t count) {
  return absl::StrJoin(NamedFirst(notes, count), "; ");
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
