#include "planner/costs/fits.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "planner/costs/sample_size.h"
#include "planner/planner.h"
#include "planner/validate.h"

namespace evenstep::planner {
namespace {

std::string NameOf(const Sample& sample) {
  return absl::StrCat("sample ", sample.id);
}

// "what" is refused because the widest block is too small for its tokens.
absl::Status TooLong(const std::string& what, int64_t tokens,
                     const PlanRequest& request,
                     const std::vector<int>& degrees,
                     const LayerCounts& recompute) {
  const int widest = degrees.back();
  const int64_t tokens_per_rank = TokensPerRank(request, recompute, widest);
  return absl::FailedPreconditionError(absl::StrCat(
      what, " has ", tokens, " tokens; the widest legal degree on ",
      request.cluster.num_ranks(), " ranks, ", widest, " of {",
      absl::StrJoin(degrees, ", "), "}, holds ", widest, " x ", tokens_per_rank,
      " = ", tokens_per_rank * widest,
      " tokens. It fits with memory.tokens_per_rank of at least ",
      PaddedTokens(tokens, widest) / widest, ", or at a legal degree of ",
      PaddedTokens(tokens, std::max<int64_t>(1, tokens_per_rank)) /
          std::max<int64_t>(1, tokens_per_rank),
      " or more"));
}

// A video sample may fit no degree because the fitting ones would mostly pad.
absl::Status Unshared(const Sample& sample, const PlanRequest& request,
                      const LayerCounts& recompute) {
  return absl::FailedPreconditionError(absl::StrCat(
      NameOf(sample), " has ", sample.frames, " frames of ", sample.patches(),
      " patches: its degree is at most the lesser of both, and no legal degree "
      "of {",
      absl::StrJoin(LegalDegrees(request), ", "),
      "} up to there holds its share in ", TokensPerRank(request, recompute),
      " tokens a rank. It fits with more memory, or if model.sp_modes allows "
      "ulysses above model.max_switch_degree"));
}

absl::StatusOr<int> SmallestDegreeFor(const std::string& what,
                                      const Sample& sample,
                                      const PlanRequest& request,
                                      const LayerCounts& recompute) {
  const std::vector<int> degrees = LegalDegrees(request);
  for (int degree : degrees) {
    if (FitsAlone(request, degree, recompute, sample)) return degree;
  }
  if (!CanShare(SplitFor(request.model, degrees.back()), sample)) {
    return Unshared(sample, request, recompute);
  }
  return TooLong(what, sample.length, request, degrees, recompute);
}

const Sample& LongestSample(const PlanRequest& request) {
  return *std::max_element(
      request.samples.begin(), request.samples.end(),
      [](const Sample& a, const Sample& b) { return a.length < b.length; });
}

// A legal degree at which every sample of the step runs.
absl::StatusOr<int> StaticDegreeOfVideo(const PlanRequest& request) {
  const std::vector<int> degrees = LegalDegrees(request);
  const LayerCounts& recompute = request.options.recompute_layers;
  const Sample* refused = nullptr;
  for (int degree : degrees) {
    const auto found = std::find_if(
        request.samples.begin(), request.samples.end(), [&](const Sample& s) {
          return !FitsAlone(request, degree, recompute, s);
        });
    if (found == request.samples.end()) return degree;
    refused = &*found;
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "no single degree of {", absl::StrJoin(degrees, ", "),
      "} runs all samples; ", NameOf(*refused), " has ", refused->frames,
      " frames of ", refused->patches(), " patches and a rank holds ",
      TokensPerRank(request, recompute),
      " tokens. Policies that choose a degree for every sample may have a "
      "plan"));
}

// options.static_degree, if it is legal and holds what it must.
absl::StatusOr<int> AskedStaticDegree(const PlanRequest& request) {
  PlanRequest only = request;
  only.options.static_degree = 0;
  const int degree = request.options.static_degree;
  const std::vector<int> legal = LegalDegrees(request);
  if (std::find(legal.begin(), legal.end(), degree) == legal.end()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "options.static_degree is ", degree, ", not a legal degree of {",
        absl::StrJoin(legal, ", "), "}"));
  }
  EVENSTEP_ASSIGN_OR_RETURN(const int smallest, StaticDegree(only));
  if (degree < smallest) {
    return absl::FailedPreconditionError(
        absl::StrCat("options.static_degree is ", degree,
                     "; the longest sample needs a degree of ", smallest));
  }
  for (const Sample& sample : request.samples) {
    if (FitsAlone(request, degree, request.options.recompute_layers, sample)) {
      continue;
    }
    return absl::FailedPreconditionError(
        absl::StrCat(NameOf(sample), " with ", sample.length,
                     " tokens does not fit the degree ", degree,
                     " of options.static_degree"));
  }
  return degree;
}

}  // namespace

bool FitsAlone(const PlanRequest& request, int degree,
               const LayerCounts& recompute, const Sample& sample) {
  const SequenceSplit split = SplitFor(request.model, degree);
  if (!CanShare(split, sample)) return false;
  const int64_t tokens =
      PaddedTokens(SizeOf(request.model, split, sample).tokens, degree);
  return tokens / degree <= TokensPerRank(request, recompute, degree);
}

bool FitsSomeDegree(const PlanRequest& request, const LayerCounts& recompute,
                    const Sample& sample) {
  for (int degree : LegalDegrees(request)) {
    if (FitsAlone(request, degree, recompute, sample)) return true;
  }
  return false;
}

LayerCounts RoomiestMode(const PlanRequest& request) {
  const std::vector<LayerCounts> modes = RecomputeModes(request);
  return *std::max_element(
      modes.begin(), modes.end(), [&](const auto& a, const auto& b) {
        return TokensPerRank(request, a) < TokensPerRank(request, b);
      });
}

bool Fits(const PlanRequest& request, int degree, const LayerCounts& recompute,
          const std::vector<int>& samples) {
  const SequenceSplit split = SplitFor(request.model, degree);
  int64_t tokens = 0;
  for (int index : samples) {
    const Sample& sample = request.samples[index];
    if (!CanShare(split, sample)) return false;
    tokens += SizeOf(request.model, split, sample).tokens;
  }
  return PaddedTokens(tokens, degree) / degree <=
         TokensPerRank(request, recompute, degree);
}

absl::StatusOr<int> StaticDegree(const PlanRequest& request) {
  if (request.options.static_degree != 0) return AskedStaticDegree(request);
  if (request.model.is_video()) return StaticDegreeOfVideo(request);
  const Sample& longest = LongestSample(request);
  const bool stated = request.run.max_length > 0;
  Sample sample;
  sample.length = stated ? request.run.max_length : longest.length;
  return SmallestDegreeFor(
      stated ? "the run's longest possible sample (run.max_length)"
             : NameOf(longest),
      sample, request, request.options.recompute_layers);
}

absl::Status CheckSamplesFit(const PlanRequest& request) {
  const LayerCounts mode = RoomiestMode(request);
  if (!request.model.is_video()) {
    const Sample& longest = LongestSample(request);
    return SmallestDegreeFor(NameOf(longest), longest, request, mode).status();
  }
  for (const Sample& sample : request.samples) {
    EVENSTEP_RETURN_IF_ERROR(
        SmallestDegreeFor(NameOf(sample), sample, request, mode).status());
  }
  return absl::OkStatus();
}

absl::Status CheckFits(int64_t max_length, const Cluster& cluster,
                       const ModelShape& model, const MemoryModel& memory) {
  PlanRequest request;
  request.samples.push_back({0, max_length, max_length});
  request.cluster = cluster;
  request.model = model;
  request.memory = memory;
  EVENSTEP_RETURN_IF_ERROR(ValidateRequest(request));
  return SmallestDegreeFor("a sample of max_length", request.samples[0],
                           request, RoomiestMode(request))
      .status();
}

}  // namespace evenstep::planner
