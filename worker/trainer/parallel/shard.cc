#include "worker/trainer/parallel/shard.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

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

// Copies what of one document, which starts at token `start` of the
// micro-batch, lies in the part that begins at `own_start`.
void CopyDocument(const data::SampleTokens& sample, int64_t start,
                  int64_t own_start, PackedShard* shard) {
  const int64_t own_tokens = shard->tokens_T.size(0);
  const int64_t length = static_cast<int64_t>(sample.tokens.size());
  const int64_t begin = std::max<int64_t>(0, own_start - start);
  const int64_t end = std::min(length, own_start + own_tokens - start);
  int64_t* tokens = shard->tokens_T.mutable_data_ptr<int64_t>();
  int64_t* positions = shard->positions_T.mutable_data_ptr<int64_t>();
  int64_t* targets = shard->targets_T.mutable_data_ptr<int64_t>();
  for (int64_t i = begin; i < end; ++i) {
    const int64_t at = start + i - own_start;
    tokens[at] = sample.tokens[i];
    positions[at] = i;
    targets[at] = sample.targets[i];
    if (sample.targets[i] != data::kIgnoredTarget) ++shard->trained_tokens;
  }
}

}  // namespace

absl::StatusOr<PackedShard> MakeShard(
    absl::Span<const data::SampleTokens> samples, int degree, int rank) {
  if (degree < 1 || rank < 0 || rank >= degree) {
    return absl::InvalidArgumentError(
        absl::StrCat("part ", rank, " of ", degree, " of a micro-batch"));
  }
  EVENSTEP_RETURN_IF_ERROR(CheckSamples(samples));
  PackedShard shard;
  shard.degree = degree;
  for (const data::SampleTokens& sample : samples) {
    const int64_t length = static_cast<int64_t>(sample.tokens.size());
    shard.document_lengths.push_back(length);
    shard.real_tokens += length;
  }
  const int64_t own_tokens = (shard.real_tokens + degree - 1) / degree;
  shard.padded_tokens = own_tokens * degree;
  shard.tokens_T = at::zeros({own_tokens}, at::kLong);
  shard.positions_T = at::zeros({own_tokens}, at::kLong);
  shard.targets_T = at::full({own_tokens}, data::kIgnoredTarget, at::kLong);
  int64_t start = 0;
  for (const data::SampleTokens& sample : samples) {
    CopyDocument(sample, start, rank * own_tokens, &shard);
    start += static_cast<int64_t>(sample.tokens.size());
  }
  return shard;
}

}  // namespace evenstep::trainer
