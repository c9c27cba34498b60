#include "planner/costs/fits.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "planner/costs/sample_size.h"
#include "planner/limits.h"

namespace evenstep::planner {
namespace {

// Of the one degree with contiguous blocks, over what the samples need.
constexpr int kMaxWidening = 2;

std::string NameOf(const Sample& sample) {
  return absl::StrCat("sample ", sample.id);
}

// ", or at degree 64 on 64 ranks": the narrowest degree that the model allows
// on a larger cluster and that holds the sample; empty if none does.
std::string WiderDegree(const PlanRequest& request,
                        const LayerCounts& recompute, const Sample& sample) {
  const bool aligned = request.options.blocks == BlockShape::kAligned;
  PlanRequest larger = request;
  larger.samples = {sample};
  larger.cluster.ranks_per_node = {aligned ? kMaxRanks : kMaxContiguousRanks};
  for (int degree : LegalDegrees(larger)) {
    if (!FitsAlone(larger, degree, recompute, sample)) continue;
    return absl::StrCat(", or at degree ", degree, " on ", degree, " ranks");
  }
  return "";
}

// "216000 tokens (54000 with nothing recomputed)".
std::string RoomNeeded(const PlanRequest& request, const LayerCounts& recompute,
                       int64_t tokens, int degree) {
  const int64_t needed = PaddedTokens(tokens, degree) / degree;
  std::string text = absl::StrCat(needed, " tokens");
  const int64_t most_bytes = BytesPerToken(request, {}, 1);
  const int64_t bytes = BytesPerToken(request, recompute, degree);
  if (request.memory.tokens_per_rank > 0 || most_bytes == bytes) return text;
  const auto plain = static_cast<int64_t>(
      (int128{needed} * bytes + most_bytes - 1) / most_bytes);
  absl::StrAppend(&text, " (", plain, " with nothing recomputed)");
  return text;
}

// "what" is refused because the widest block is too small for its tokens.
absl::Status TooLong(const std::string& what, const Sample& sample,
                     const PlanRequest& request,
                     const std::vector<int>& degrees,
                     const LayerCounts& recompute) {
  const int widest = degrees.back();
  const int64_t tokens_per_rank = TokensPerRank(request, recompute, widest);
  const int layers = recompute.total();
  return absl::FailedPreconditionError(absl::StrCat(
      what, " has ", sample.length, " tokens; the widest legal degree on ",
      request.cluster.num_ranks(), " ranks, ", widest, " of {",
      absl::StrJoin(degrees, ", "), "}, holds ", widest, " x ", tokens_per_rank,
      " = ", tokens_per_rank * widest, " tokens",
      layers > 0 ? absl::StrCat(" with ", layers, " layers recomputed") : "",
      ". It fits with room on a rank for ",
      RoomNeeded(request, recompute, sample.length, widest),
      WiderDegree(request, recompute, sample)));
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
  return TooLong(what, sample, request, degrees, recompute);
}

const Sample& LongestSample(const PlanRequest& request) {
  return *std::max_element(
      request.samples.begin(), request.samples.end(),
      [](const Sample& a, const Sample& b) { return a.length < b.length; });
}

absl::Status NoDegreeRunsAll(const PlanRequest& request,
                             const Sample& refused) {
  return absl::FailedPreconditionError(absl::StrCat(
      "no single degree of {", absl::StrJoin(LegalDegrees(request), ", "),
      "} runs all samples; ", NameOf(refused), " has ", refused.frames,
      " frames of ", refused.patches(), " patches and a rank holds ",
      TokensPerRank(request, request.options.recompute_layers),
      " tokens. Policies that choose a degree for every sample may have a "
      "plan"));
}

// Legal degrees at which every sample of the step runs; ascending, not empty.
absl::StatusOr<std::vector<int>> StaticDegreesOfVideo(
    const PlanRequest& request) {
  const LayerCounts& recompute = request.options.recompute_layers;
  std::vector<int> holding;
  const Sample* refused = nullptr;
  for (int degree : LegalDegrees(request)) {
    const auto found = std::find_if(
        request.samples.begin(), request.samples.end(), [&](const Sample& s) {
          return !FitsAlone(request, degree, recompute, s);
        });
    if (found == request.samples.end()) {
      holding.push_back(degree);
    } else {
      refused = &*found;
    }
  }
  if (holding.empty()) return NoDegreeRunsAll(request, *refused);
  return holding;
}

// Ascending, not empty.
absl::StatusOr<std::vector<int>> DegreesThatHold(const PlanRequest& request) {
  if (request.model.is_video()) return StaticDegreesOfVideo(request);
  const LayerCounts& recompute = request.options.recompute_layers;
  const Sample& longest = LongestSample(request);
  const bool stated = request.run.max_length > 0;
  Sample sample;
  sample.length = stated ? request.run.max_length : longest.length;
  EVENSTEP_RETURN_IF_ERROR(
      SmallestDegreeFor(
          stated ? "the run's longest possible sample (run.max_length)"
                 : NameOf(longest),
          sample, request, recompute)
          .status());
  std::vector<int> holding;
  for (int degree : LegalDegrees(request)) {
    if (FitsAlone(request, degree, recompute, sample)) {
      holding.push_back(degree);
    }
  }
  return holding;
}

// options.static_degree, if it is legal and holds what it must.
absl::StatusOr<int> AskedStaticDegree(const PlanRequest& request) {
  const int degree = request.options.static_degree;
  const std::vector<int> legal = LegalDegrees(request);
  if (std::find(legal.begin(), legal.end(), degree) == legal.end()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "options.static_degree is ", degree, ", not a legal degree of {",
        absl::StrJoin(legal, ", "), "}"));
  }
  EVENSTEP_ASSIGN_OR_RETURN(const std::vector<int> holding,
                            DegreesThatHold(request));
  if (degree < holding[0]) {
    return absl::FailedPreconditionError(
        absl::StrCat("options.static_degree is ", degree,
                     "; the longest sample needs a degree of ", holding[0]));
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
  EVENSTEP_ASSIGN_OR_RETURN(const std::vector<int> holding,
                            DegreesThatHold(request));
  if (request.options.blocks == BlockShape::kAligned) return holding[0];
  const int num_ranks = request.cluster.num_ranks();
  int best = holding[0];
  for (int degree : holding) {
    if (degree > kMaxWidening * holding[0]) break;
    if (num_ranks % degree < num_ranks % best) best = degree;
  }
  return best;
}

std::vector<int> StaticDegrees(const PlanRequest& request) {
  return DegreesThatHold(request).value_or(std::vector<int>());
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

absl::Status CheckLongestFits(const PlanRequest& request) {
  return SmallestDegreeFor("a sample of max_length", request.samples[0],
                           request, RoomiestMode(request))
      .status();
}

}  // namespace evenstep::planner
