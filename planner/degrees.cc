#include "planner/degrees.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "planner/planner.h"
#include "planner/validate.h"

namespace evenstep::planner {
namespace {

bool ModelAllows(const ModelShape& model, int degree) {
  if (degree == 1) return true;
  if (model.forced_degrees.empty()) return HeadsAllow(model, degree);
  return std::find(model.forced_degrees.begin(), model.forced_degrees.end(),
                   degree) != model.forced_degrees.end();
}

// "what" is refused because the widest block is too small for its tokens.
absl::Status TooLong(const std::string& what, int64_t tokens, int num_ranks,
                     const std::vector<int>& degrees, int64_t tokens_per_rank) {
  const int widest = degrees.back();
  return absl::FailedPreconditionError(absl::StrCat(
      what, " has ", tokens, " tokens; the widest legal degree on ", num_ranks,
      " ranks, ", widest, " of {", absl::StrJoin(degrees, ", "), "}, holds ",
      widest, " x ", tokens_per_rank, " = ", tokens_per_rank * widest,
      " tokens. It fits with memory.tokens_per_rank of at least ",
      PaddedTokens(tokens, widest) / widest, ", or at a legal degree of ",
      PaddedTokens(tokens, tokens_per_rank) / tokens_per_rank, " or more"));
}

absl::StatusOr<int> SmallestDegreeFor(const std::string& what, int64_t tokens,
                                      const PlanRequest& request,
                                      int64_t tokens_per_rank) {
  const std::vector<int> degrees = LegalDegrees(request);
  for (int degree : degrees) {
    if (tokens <= tokens_per_rank * degree) return degree;
  }
  return TooLong(what, tokens, request.cluster.num_ranks(), degrees,
                 tokens_per_rank);
}

const Sample& LongestSample(const PlanRequest& request) {
  return *std::max_element(
      request.samples.begin(), request.samples.end(),
      [](const Sample& a, const Sample& b) { return a.length < b.length; });
}

}  // namespace

bool HeadsAllow(const ModelShape& model, int degree) {
  if (model.heads % degree != 0) return false;
  return model.kv_heads % degree == 0 || degree % model.kv_heads == 0;
}

std::vector<int> LegalDegreesFor(int num_ranks, const ModelShape& model,
                                 BlockShape shape) {
  std::vector<int> degrees;
  if (shape == BlockShape::kContiguous) {
    for (int degree = 1; degree <= num_ranks; ++degree) {
      if (ModelAllows(model, degree)) degrees.push_back(degree);
    }
    return degrees;
  }
  int degree = 1;
  for (; degree <= num_ranks; degree *= 2) {
    if (ModelAllows(model, degree)) degrees.push_back(degree);
  }
  const bool power_of_two = degree / 2 == num_ranks;
  if (!power_of_two && ModelAllows(model, num_ranks)) {
    degrees.push_back(num_ranks);
  }
  return degrees;
}

std::vector<int> LegalDegrees(const PlanRequest& request) {
  return LegalDegreesFor(request.cluster.num_ranks(), request.model,
                         request.options.blocks);
}

std::vector<Block> AlignedBlocks(int num_ranks, int degree) {
  std::vector<Block> blocks;
  for (int first = 0; first + degree <= num_ranks; first += degree) {
    blocks.push_back({first, degree});
  }
  return blocks;
}

std::vector<Block> BlocksOf(int num_ranks, int degree, BlockShape shape) {
  if (shape == BlockShape::kAligned) return AlignedBlocks(num_ranks, degree);
  std::vector<Block> blocks;
  for (int first = 0; first + degree <= num_ranks; ++first) {
    blocks.push_back({first, degree});
  }
  return blocks;
}

int64_t PaddedTokens(int64_t tokens, int64_t degree) {
  return (tokens + degree - 1) / degree * degree;
}

std::vector<int> RecomputeModes(const PlanRequest& request) {
  std::vector<int> modes = request.options.recompute_choices;
  modes.push_back(request.options.recompute_layers);
  std::sort(modes.begin(), modes.end());
  modes.erase(std::unique(modes.begin(), modes.end()), modes.end());
  return modes;
}

int64_t TokensPerRank(const PlanRequest& request, int recompute_layers) {
  const MemoryModel& memory = request.memory;
  if (memory.tokens_per_rank > 0) return memory.tokens_per_rank;
  const int64_t whole_layers = request.model.num_layers - recompute_layers +
                               (recompute_layers > 0 ? 1 : 0);
  const int64_t bytes_per_token =
      whole_layers * memory.layer_bytes_per_token +
      recompute_layers * memory.kept_bytes_per_token +
      memory.head_bytes_per_token;
  return std::min(kMaxTokensPerRank, memory.activation_bytes /
                                         std::max<int64_t>(1, bytes_per_token));
}

int64_t MostTokensPerRank(const PlanRequest& request) {
  int64_t most = 0;
  for (int mode : RecomputeModes(request)) {
    most = std::max(most, TokensPerRank(request, mode));
  }
  return most;
}

absl::StatusOr<int> StaticDegree(const PlanRequest& request) {
  const int64_t stated = request.run.max_length;
  const Sample& longest = LongestSample(request);
  const std::string what =
      stated > 0 ? "the run's longest possible sample (run.max_length)"
                 : absl::StrCat("sample ", longest.id);
  return SmallestDegreeFor(
      what, stated > 0 ? stated : longest.length, request,
      TokensPerRank(request, request.options.recompute_layers));
}

absl::Status CheckSamplesFit(const PlanRequest& request) {
  const Sample& longest = LongestSample(request);
  return SmallestDegreeFor(absl::StrCat("sample ", longest.id), longest.length,
                           request, MostTokensPerRank(request))
      .status();
}

absl::Status CheckFits(int64_t max_length, const Cluster& cluster,
                       const ModelShape& model, const MemoryModel& memory) {
  PlanRequest request;
  request.samples.push_back({0, max_length, max_length});
  request.cluster = cluster;
  request.model = model;
  request.memory = memory;
  EVENSTEP_RETURN_IF_ERROR(ValidateRequest(request));
  return SmallestDegreeFor("a sample of max_length", max_length, request,
                           MostTokensPerRank(request))
      .status();
}

}  // namespace evenstep::planner
