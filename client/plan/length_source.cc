#include "client/plan/length_source.h"

#include <algorithm>
#include <memory>
#include <sstream>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/atomic_file.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "data/dataset.h"
#include "data/length_list.h"
#include "data/sampler.h"
#include "data/source_kind.h"
#include "planner/limits.h"

namespace evenstep::plan {
namespace {

using data::LengthDraw;

constexpr absl::string_view kLatents = "latents:";
constexpr int64_t kMaxLengthFileBytes = data::kMaxLengthListBytes;
static_assert(data::kMaxListedLength == planner::kMaxLengthTokens,
              "a listed length can be planned");

absl::StatusOr<std::string> ReadInput(std::istream* input) {
  if (input == nullptr) {
    return absl::InvalidArgumentError("there is no standard input to read");
  }
  std::ostringstream text;
  std::string line;
  int64_t bytes = 0;
  while (std::getline(*input, line)) {
    bytes += static_cast<int64_t>(line.size()) + 1;
    if (bytes > kMaxLengthFileBytes) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "standard input has more than ", kMaxLengthFileBytes, " bytes"));
    }
    text << line << '\n';
  }
  return text.str();
}

absl::StatusOr<StepLengths> FromFile(const LengthSource& source) {
  const bool standard_input = source.lengths == "-";
  const absl::StatusOr<std::string> text =
      standard_input ? ReadInput(source.input)
                     : ReadWholeFile(source.lengths, kMaxLengthFileBytes);
  if (absl::IsNotFound(text.status())) {
    return absl::InvalidArgumentError(
        absl::StrCat(text.status().message(), "; nor is it a law",
                     KnownNamesHint(source.lengths, data::LengthLawNames())));
  }
  if (!text.ok()) return absl::InvalidArgumentError(text.status().message());
  StepLengths step;
  step.origin = standard_input ? "standard input" : source.lengths;
  auto samples = ParseLengths(*text);
  if (!samples.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(step.origin, ", ", samples.status().message()));
  }
  step.samples = *std::move(samples);
  const auto held = static_cast<int64_t>(step.samples.size());
  if (source.num_samples > held) {
    return absl::InvalidArgumentError(
        absl::StrCat(step.origin, " has ", held, " lengths; ",
                     source.num_samples, " were asked for"));
  }
  if (source.num_samples > 0 && source.num_samples < held) {
    step.note = absl::StrCat("the first ", source.num_samples, " of ", held,
                             " lengths");
    step.samples.resize(source.num_samples);
  }
  for (const LengthDraw& sample : step.samples) {
    step.has_clips |= sample.frames > 0;
  }
  return step;
}

int64_t CountOrDefault(const LengthSource& source) {
  return source.num_samples > 0 ? source.num_samples : kDefaultSamples;
}

absl::StatusOr<StepLengths> FromLaw(const LengthSource& source) {
  EVENSTEP_ASSIGN_OR_RETURN(const data::LengthLaw law,
                            data::ParseLengthLaw(source.lengths));
  StepLengths step;
  step.origin = absl::StrCat("law ", law.name, ", seed ", source.seed);
  step.samples = data::DrawLengths(law, CountOrDefault(source), source.seed);
  return step;
}

// The samples of the first step of a job with this seed.
absl::StatusOr<StepLengths> FromData(const LengthSource& source) {
  data::DatasetOptions options;
  options.source = data::TextIfPath(source.data);
  options.max_length =
      source.max_length > 0 ? source.max_length : planner::kMaxLengthTokens;
  options.on_too_long = data::OnTooLong::kSkip;
  options.on_bad_sample = data::OnBadSample::kSkip;
  options.patch = source.patch;
  options.progress = source.progress;
  const absl::StatusOr<std::unique_ptr<data::Dataset>> opened =
      data::OpenDataset(options);
  if (absl::IsCancelled(opened.status())) return opened.status();
  if (!opened.ok()) {
    return absl::InvalidArgumentError(opened.status().message());
  }
  const data::Dataset* const dataset = opened->get();
  const data::DatasetSummary& summary = dataset->summary();
  const data::Sampler sampler(source.seed, summary.num_samples,
                              CountOrDefault(source));
  StepLengths step;
  step.origin = absl::StrCat(source.data, ", seed ", source.seed);
  for (int64_t id : sampler.SampleIds(0)) {
    const int64_t document = sampler.Document(id);
    const data::ClipShape shape = dataset->Shape(document);
    step.samples.push_back(
        {dataset->Length(document), shape.frames, shape.height, shape.width});
    step.has_clips |= shape.frames > 0;
  }
  if (summary.num_too_long > 0 || summary.num_bad > 0) {
    step.note = absl::StrCat(
        Counted(summary.num_too_long, "document"), " longer than ",
        options.max_length, " tokens and ",
        Counted(summary.num_bad, "bad document"),
        summary.num_too_long + summary.num_bad == 1 ? " is" : " are",
        " left out");
    if (summary.num_bad > 0) {
      absl::StrAppend(&step.note,
                      " (`evenstep data inspect --list-bad` names them)");
    }
  }
  return step;
}

}  // namespace

absl::StatusOr<std::vector<LengthDraw>> ParseLengths(const std::string& text) {
  return data::ParseLengths(text);
}

absl::StatusOr<StepLengths> ReadStepLengths(const LengthSource& source) {
  if (source.lengths.empty() == source.data.empty()) {
    return absl::InvalidArgumentError(
        "name a file or law of lengths, or a data set, and not both");
  }
  if (source.num_samples < 0 || source.num_samples > planner::kMaxSamples) {
    return absl::InvalidArgumentError(
        absl::StrCat(source.num_samples, " samples were asked for; at most ",
                     planner::kMaxSamples));
  }
  if (source.patch != 1 && !absl::StartsWith(source.data, kLatents)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a patch of ", source.patch, " is of ", kLatents, " data"));
  }
  if (!source.data.empty()) return FromData(source);
  if (data::IsLengthLaw(source.lengths)) return FromLaw(source);
  return FromFile(source);
}

}  // namespace evenstep::plan
