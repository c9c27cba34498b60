#include "worker/trainer/parallel/shard.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/trainer/parallel/sequence_layout.h"

namespace evenstep::trainer {
namespace {

absl::Status CheckSamples(absl::Span<const data::SampleTokens> samples) {
  if (samples.empty()) {
    return absl::InvalidArgumentError("a micro-batch without samples");
  }
  for (size_t i = 0; i < samples.size(); ++i) {
    const size_t tokens = samples[i].tokens.size();
    const size_t targets = samples[i].targets.size();
    if (tokens > 0 && tokens == targets) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("sample ", i, " of the micro-batch has ", tokens,
                     " tokens and ", targets, " targets"));
  }
  return absl::OkStatus();
}

static_assert(kIgnoredTarget == data::kIgnoredTarget);

// Copies what of one run of a document, which starts at row `start` of the
// part, lies in the share that begins at `own_start`. Positions beyond the
// document's end are padding, and stay as they are.
void CopyRun(const data::SampleTokens& sample, const TokenRun& run,
             int64_t start, int64_t own_start, PackedShard* shard) {
  const int64_t own_tokens = shard->tokens_T.size(0);
  const int64_t length = static_cast<int64_t>(sample.tokens.size());
  const int64_t shift = own_start - start + run.begin;  // position of row 0
  const int64_t begin = std::max(run.begin, shift);
  const int64_t end = std::min({length, run.end, shift + own_tokens});
  int64_t* tokens = shard->tokens_T.mutable_data_ptr<int64_t>();
  int64_t* positions = shard->positions_T.mutable_data_ptr<int64_t>();
  int64_t* targets = shard->targets_T.mutable_data_ptr<int64_t>();
  for (int64_t i = begin; i < end; ++i) {
    tokens[i - shift] = sample.tokens[i];
    positions[i - shift] = i;
    targets[i - shift] = sample.targets[i];
    if (sample.targets[i] != data::kIgnoredTarget) ++shard->trained_tokens;
  }
}

}  // namespace

absl::StatusOr<PackedShard> MakeShard(
    absl::Span<const data::SampleTokens> samples, const SequenceLayout& layout,
    int rank) {
  const int degree = layout.degree();
  if (layout.ulysses < 1 || layout.gather < 1 || rank < 0 || rank >= degree) {
    return absl::InvalidArgumentError(
        absl::StrCat("part ", rank, " of ", degree, " of a micro-batch"));
  }
  EVENSTEP_RETURN_IF_ERROR(CheckSamples(samples));
  PackedShard shard;
  shard.degree = degree;
  shard.ulysses_degree = layout.ulysses;
  shard.gather_degree = layout.gather;
  for (const data::SampleTokens& sample : samples) {
    const int64_t length = static_cast<int64_t>(sample.tokens.size());
    shard.document_lengths.push_back(length);
    shard.real_tokens += length;
  }
  shard.padded_tokens = PaddedTokens(shard.document_lengths, layout);
  const int64_t own_tokens = shard.padded_tokens / degree;
  shard.tokens_T = at::zeros({own_tokens}, at::kLong);
  shard.positions_T = at::zeros({own_tokens}, at::kLong);
  shard.targets_T = at::full({own_tokens}, data::kIgnoredTarget, at::kLong);
  const int64_t own_start = rank % layout.ulysses * own_tokens;
  int64_t start = 0;
  for (const TokenRun& run :
       RunsOfPart(shard.document_lengths, layout, rank / layout.ulysses)) {
    CopyRun(samples[run.document], run, start, own_start, &shard);
    start += run.size();
  }
  return shard;
}

}  // namespace evenstep::trainer
