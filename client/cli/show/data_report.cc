#include "client/cli/show/data_report.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "client/cli/show/format_value.h"
#include "client/cli/show/job_views.h"
#include "client/cli/show/table.h"
#include "data/index/length_index.h"
#include "data/sample_rules.h"
#include "jobspec/job_keys.h"

namespace evenstep::cli {
namespace {

constexpr int kMostBarColumns = 40;
constexpr int kLeastBarColumns = 10;
constexpr int kFigureColumns = 48;  // of a histogram's row, beside the bar

// The power of two at or below a length of at least 1.
int64_t BucketStart(int64_t length) {
  int64_t start = 1;
  while (start <= length / 2) start *= 2;
  return start;
}

void AddToHistogram(int64_t length, std::vector<LengthBucket>* histogram) {
  const int64_t start = BucketStart(length);
  auto bucket = std::lower_bound(
      histogram->begin(), histogram->end(), start,
      [](const LengthBucket& b, int64_t value) { return b.from < value; });
  if (bucket == histogram->end() || bucket->from != start) {
    bucket = histogram->insert(bucket, {start, 2 * start, 0, 0});
  }
  ++bucket->num_samples;
  bucket->num_tokens += length;
}

// Powers of two between the shortest and the longest that no sample has.
void FillGaps(std::vector<LengthBucket>* histogram) {
  for (size_t i = 1; i < histogram->size(); ++i) {
    const int64_t next = (*histogram)[i - 1].until;
    if ((*histogram)[i].from == next) continue;
    histogram->insert(histogram->begin() + i, {next, 2 * next, 0, 0});
  }
}

void ApplyRules(int64_t length, DataReport* report) {
  if (report->max_length == 0 || length <= report->max_length) return;
  ++report->num_too_long;
  report->tokens_too_long += length;
  if (report->on_too_long == data::OnTooLong::kTruncate) {
    report->tokens_cut += length - report->max_length;
  } else if (report->on_too_long == data::OnTooLong::kSkip) {
    report->tokens_cut += length;
  }
}

std::string Share(int64_t part, int64_t whole) {
  if (whole == 0) return "0.0%";
  return FormatShare(static_cast<double>(part) / static_cast<double>(whole));
}

std::string Histogram(const DataReport& report, int columns) {
  int64_t most = 1;
  for (const LengthBucket& bucket : report.histogram) {
    most = std::max(most, bucket.num_samples);
  }
  const int width =
      std::clamp(columns - kFigureColumns, kLeastBarColumns, kMostBarColumns);
  std::vector<Row> rows = {{"tokens", "samples", "of tokens"}};
  for (const LengthBucket& bucket : report.histogram) {
    // Any sample is seen.
    const int64_t bar = (bucket.num_samples * width + most - 1) / most;
    rows.push_back({absl::StrCat(bucket.from, "-", bucket.until - 1),
                    absl::StrCat(bucket.num_samples),
                    Share(bucket.num_tokens, report.num_tokens)});
    if (bar > 0) rows.back().push_back(std::string(bar, '#'));
  }
  return FormatTable(rows, ColourMode::kPlain);
}

// How each value of a rule treats the samples that break it.
std::string WhatRulesDo(absl::string_view rule) {
  return absl::StrCat("; ", rule,
                      ": fail (the default of job files) refuses a job, skip "
                      "(the default of evenstep local) skips them");
}

// What the rule does with those that are too long.
std::string TooLongText(const DataReport& report) {
  std::string count =
      absl::StrCat(Counted(report.num_too_long, "sample"), " (",
                   Share(report.num_too_long, report.num_samples), ", with ",
                   Share(report.tokens_too_long, report.num_tokens),
                   " of the tokens)", report.num_too_long == 1 ? " is" : " are",
                   " longer than ", report.max_length, " tokens");
  if (report.num_too_long == 0) return count;
  if (!report.is_job) {
    return absl::StrCat(count, WhatRulesDo("on_too_long"),
                        ", truncate cuts them");
  }
  switch (report.on_too_long) {
    case data::OnTooLong::kFail:
      return absl::StrCat(count,
                          ": the job is refused unless it says on_too_long: "
                          "truncate or skip");
    case data::OnTooLong::kSkip:
      return absl::StrCat(count, ": skipped, with ", report.tokens_cut, " of ",
                          Counted(report.num_tokens, "token"));
    case data::OnTooLong::kTruncate:
      return absl::StrCat(count, ": cut, by ", report.tokens_cut, " of ",
                          Counted(report.num_tokens, "token"));
  }
  return count;
}

// "8x6x6 patches of 2 x 2 latent pixels, "; nothing of text.
std::string ClipText(const DataReport& report) {
  if (report.patch == 0) return "";
  const data::ClipShape& clip = report.longest_clip;
  return absl::StrCat(clip.frames, "x", clip.height, "x", clip.width,
                      " patches of ", report.patch, " x ", report.patch,
                      " latent pixels, ");
}

// With a line that names them.
std::string BadText(const DataReport& report) {
  std::string count = Counted(report.num_bad, "bad sample");
  if (report.num_bad == 0) return count;
  if (!report.is_job) return absl::StrCat(count, WhatRulesDo("on_bad_sample"));
  if (report.on_bad_sample == data::OnBadSample::kSkip) {
    return absl::StrCat(count, ": skipped");
  }
  return absl::StrCat(
      count, ": the job is refused unless it says on_bad_sample: skip");
}

// A line for each that is named, and one for the others of `count`.
std::string Names(const std::vector<std::string>& notes, int64_t count) {
  std::string text;
  for (const std::string& note : notes) {
    absl::StrAppend(&text, "  ", note, "\n");
  }
  const int64_t more = count - static_cast<int64_t>(notes.size());
  if (more == 0) return text;
  const bool is_short = notes.size() <= data::kMostNamedSamples;
  return absl::StrCat(text, "  and ", more, " more",
                      is_short ? "; --list-bad names all" : "", "\n");
}

std::string VocabText(const DataReport& report) {
  if (report.vocab > 0) return absl::StrCat(", model.vocab ", report.vocab);
  return absl::StrCat(": a model needs a vocab of ", report.largest_token + 1,
                      " or more");
}

std::string HeldOutText(const HeldOutReport& held_out) {
  if (!held_out.refused.empty()) {
    return absl::StrCat("a job is refused: ", held_out.refused, "\n");
  }
  const std::string from =
      held_out.source.empty() ? "" : absl::StrCat(" of ", held_out.source);
  return absl::StrCat(Counted(held_out.num_samples, "sample"), from,
                      held_out.num_samples == 1 ? " is" : " are", " held out, ",
                      Counted(held_out.num_tokens, "token"),
                      "\na job's data: ", FormatData(held_out.job), "\n");
}

// Null where no job says it: commands have defaults of their own.
Json RuleName(const DataReport& report, absl::string_view name) {
  return report.is_job ? Json(std::string(name)) : Json();
}

Json HeldOutToJson(const std::optional<HeldOutReport>& held_out) {
  if (!held_out.has_value()) return nullptr;
  if (!held_out->refused.empty()) return {{"refused", held_out->refused}};
  return {
      {"source", held_out->source.empty() ? Json() : Json(held_out->source)},
      {"samples", held_out->num_samples},
      {"tokens", held_out->num_tokens},
      {"job", ToJson(held_out->job)}};
}

}  // namespace

DataReport MakeDataReport(const data::Dataset& dataset,
                          const data::DatasetOptions& rules) {
  DataReport report;
  report.source = rules.source;
  report.num_samples = dataset.summary().num_samples;
  report.num_bad = dataset.summary().num_bad;
  report.largest_token = dataset.summary().largest_token;
  report.vocab = rules.vocab;
  report.left_out = dataset.summary().left_out;
  report.num_beyond_limit = dataset.summary().num_too_long;
  report.max_length = rules.max_length;
  report.on_too_long = rules.on_too_long;
  report.on_bad_sample = rules.on_bad_sample;
  std::vector<int64_t> lengths;
  lengths.reserve(report.num_samples);
  int64_t longest = -1;
  for (int64_t i = 0; i < report.num_samples; ++i) {
    const int64_t length = dataset.Length(i);
    const int64_t trained = dataset.TrainedTokens(i);
    lengths.push_back(length);
    report.num_tokens += length;
    report.num_trained += trained;
    if (trained == 0) ++report.num_masked;
    if (length > report.longest) {
      report.longest = length;
      longest = i;
    }
    AddToHistogram(length, &report.histogram);
    ApplyRules(length, &report);
  }
  FillGaps(&report.histogram);
  if (longest < 0) return report;
  report.longest_name = dataset.Name(longest);
  report.longest_clip = dataset.Shape(longest);
  if (report.longest_clip.frames > 0) report.patch = rules.patch;
  const auto middle = lengths.begin() + (lengths.size() - 1) / 2;
  std::nth_element(lengths.begin(), middle, lengths.end());
  report.median = *middle;
  return report;
}

std::string FormatDataReport(const DataReport& report, int columns) {
  std::string text = absl::StrCat(
      report.source, ": ", Counted(report.num_samples, "sample"), ", ",
      Counted(report.num_tokens, "token"), ", ", report.num_trained,
      " of them trained (", Share(report.num_trained, report.num_tokens),
      ")\nmedian ", report.median, ", longest ", report.longest,
      " tokens: ", ClipText(report), report.longest_name, "\n\n",
      Histogram(report, columns), "\n");
  if (report.max_length > 0) absl::StrAppend(&text, TooLongText(report), "\n");
  absl::StrAppend(&text, BadText(report), "\n",
                  Names(report.bad_samples, report.num_bad));
  if (report.num_beyond_limit > 0) {
    absl::StrAppend(&text, Counted(report.num_beyond_limit, "sample"),
                    " longer than any may be (", data::kHashedBytes,
                    " tokens): left out\n");
  }
  const std::string left_out = data::DescribeLeftOut(report.left_out);
  if (!left_out.empty()) {
    absl::StrAppend(&text, "left out: ", left_out, "\n",
                    Names(report.json_files, report.left_out.json));
  }
  if (report.largest_token >= 0) {
    absl::StrAppend(&text, "largest token id ", report.largest_token,
                    VocabText(report), "\n");
  }
  if (report.num_masked > 0) {
    absl::StrAppend(&text, Counted(report.num_masked, "sample"),
                    " without a trained token\n");
  }
  if (report.held_out) absl::StrAppend(&text, HeldOutText(*report.held_out));
  for (const std::string& warning : report.warnings) {
    absl::StrAppend(&text, "Warning: ", warning, "\n");
  }
  return text;
}

Json ToJson(const DataReport& report) {
  Json histogram = Json::array();
  for (const LengthBucket& bucket : report.histogram) {
    histogram.push_back({{"from", bucket.from},
                         {"until", bucket.until},
                         {"samples", bucket.num_samples},
                         {"tokens", bucket.num_tokens}});
  }
  Json rules = nullptr;
  if (report.max_length > 0) {
    rules = {
        {"max_length", report.max_length},
        {"on_too_long", RuleName(report, jobspec::WordOf("data.on_too_long",
                                                         report.on_too_long))},
        {"on_bad_sample",
         RuleName(report,
                  jobspec::WordOf("data.on_bad_sample", report.on_bad_sample))},
        {"too_long", report.num_too_long},
        {"tokens_too_long", report.tokens_too_long},
        {"tokens_cut", report.tokens_cut}};
  }
  Json json = {{"source", report.source},
               {"samples", report.num_samples},
               {"bad", report.num_bad},
               {"bad_samples", report.bad_samples},
               {"hidden", report.left_out.hidden},
               {"own", report.left_out.own},
               {"tools", report.left_out.tools},
               {"links", report.left_out.links},
               {"json", report.left_out.json},
               {"json_files", report.json_files},
               {"tokens", report.num_tokens},
               {"trained_tokens", report.num_trained},
               {"samples_without_trained_tokens", report.num_masked},
               {"median", report.median},
               {"longest", report.longest},
               {"longest_name", report.longest_name},
               {"largest_token",
                report.largest_token < 0 ? Json() : Json(report.largest_token)},
               {"histogram", histogram},
               {"rules", rules},
               {"held_out", HeldOutToJson(report.held_out)},
               {"warnings", report.warnings}};
  if (report.patch > 0) json["patch"] = report.patch;
  return json;
}

}  // namespace evenstep::cli
