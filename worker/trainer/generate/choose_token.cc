#include "worker/trainer/generate/choose_token.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/counter_random.h"
#include "base/status_macros.h"

namespace evenstep::trainer {
namespace {

struct Candidate {
  int32_t token = 0;
  double weight = 0;  // in proportion to its probability
};

absl::Status CheckFinite(absl::Span<const float> scores) {
  for (size_t i = 0; i < scores.size(); ++i) {
    if (std::isfinite(scores[i])) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("the model gives token ", i, " a score of ", scores[i]));
  }
  if (!scores.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError("no scores to choose from");
}

// Tokens from the likeliest on, the first of equals first; at most `most`.
std::vector<int32_t> Likeliest(absl::Span<const float> scores, size_t most) {
  std::vector<int32_t> tokens(scores.size());
  std::iota(tokens.begin(), tokens.end(), 0);
  const auto end = tokens.begin() + static_cast<int64_t>(most);
  std::partial_sort(
      tokens.begin(), end, tokens.end(), [&](int32_t a, int32_t b) {
        return scores[a] != scores[b] ? scores[a] > scores[b] : a < b;
      });
  tokens.erase(end, tokens.end());
  return tokens;
}

std::vector<Candidate> CandidatesOf(absl::Span<const float> scores,
                                    const ChoiceOptions& options) {
  const size_t most =
      options.top_k > 0
          ? std::min<size_t>(scores.size(), static_cast<size_t>(options.top_k))
          : scores.size();
  std::vector<Candidate> candidates;
  for (const int32_t token : Likeliest(scores, most)) {
    const double below_best =
        candidates.empty()
            ? 0
            : static_cast<double>(scores[token]) -
                  static_cast<double>(scores[candidates.front().token]);
    candidates.push_back({token, std::exp(below_best / options.temperature)});
  }
  return candidates;
}

double TotalOf(const std::vector<Candidate>& candidates) {
  double total = 0;
  for (const Candidate& candidate : candidates) total += candidate.weight;
  return total;
}

// Leaves the fewest that sum to the share; at least one.
void KeepShare(double share, std::vector<Candidate>* candidates) {
  if (share >= 1) return;
  const double wanted = share * TotalOf(*candidates);
  double sum = 0;
  size_t kept = 0;
  while (kept < candidates->size() && sum < wanted) {
    sum += (*candidates)[kept++].weight;
  }
  candidates->resize(std::max<size_t>(1, kept));
}

}  // namespace

absl::Status ValidateChoice(const ChoiceOptions& options) {
  if (!(options.temperature >= 0 && std::isfinite(options.temperature))) {
    return absl::InvalidArgumentError(
        absl::StrCat("temperature: ", options.temperature, " is below 0"));
  }
  if (options.top_k < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("top-k: ", options.top_k, " is below 0"));
  }
  if (options.top_p > 0 && options.top_p <= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("top-p: ", options.top_p, " is not above 0 and at most 1"));
}

absl::StatusOr<int32_t> ChooseToken(absl::Span<const float> scores,
                                    const ChoiceOptions& options,
                                    int64_t place) {
  EVENSTEP_RETURN_IF_ERROR(CheckFinite(scores));
  if (options.temperature == 0) return Likeliest(scores, 1).front();
  std::vector<Candidate> candidates = CandidatesOf(scores, options);
  KeepShare(options.top_p, &candidates);
  double left =
      CounterRandom(options.seed).Uniform(static_cast<uint64_t>(place)) *
      TotalOf(candidates);
  for (const Candidate& candidate : candidates) {
    left -= candidate.weight;
    if (left < 0) return candidate.token;
  }
  return candidates.back().token;
}

}  // namespace evenstep::trainer
