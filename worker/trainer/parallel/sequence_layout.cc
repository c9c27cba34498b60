#include "worker/trainer/parallel/sequence_layout.h"

#include "absl/strings/str_cat.h"

namespace evenstep::trainer {
namespace {

int64_t RoundUp(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace

absl::StatusOr<SequenceLayout> MakeLayout(int degree, int ulysses_degree) {
  if (degree >= 1 && ulysses_degree >= 1 && degree % ulysses_degree == 0) {
    return SequenceLayout{ulysses_degree, degree / ulysses_degree};
  }
  return absl::InvalidArgumentError(
      absl::StrCat("ulysses degree ", ulysses_degree,
                   " does not divide the micro-batch's degree ", degree));
}

int64_t PaddedDocumentTokens(int64_t length, const SequenceLayout& layout) {
  if (layout.gather == 1) return length;
  return RoundUp(length, int64_t{2} * layout.degree());
}

int64_t PaddedTokens(absl::Span<const int64_t> lengths,
                     const SequenceLayout& layout) {
  int64_t tokens = 0;
  for (const int64_t length : lengths) {
    tokens += PaddedDocumentTokens(length, layout);
  }
  return RoundUp(tokens, layout.degree());
}

std::vector<TokenRun> RunsOfPart(absl::Span<const int64_t> lengths,
                                 const SequenceLayout& layout, int part) {
  std::vector<TokenRun> runs;
  for (int i = 0; i < static_cast<int>(lengths.size()); ++i) {
    if (layout.gather == 1) {
      runs.push_back({i, 0, lengths[i]});
      continue;
    }
    const int64_t last = int64_t{2} * layout.gather - 1;
    const int64_t chunk = PaddedDocumentTokens(lengths[i], layout) / (last + 1);
    for (const int64_t index : {int64_t{part}, last - part}) {
      runs.push_back({i, index * chunk, (index + 1) * chunk});
    }
  }
  return runs;
}

}  // namespace evenstep::trainer
