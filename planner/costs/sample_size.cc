#include "planner/costs/sample_size.h"

#include <algorithm>

namespace evenstep::planner {
namespace {

BatchSize SwitchedSize(const Sample& sample, int degree) {
  const int64_t frames = sample.frames;
  const int64_t patches = sample.patches();
  const int64_t padded_frames = PaddedTokens(frames, degree);
  const int64_t padded_patches = PaddedTokens(patches, degree);
  BatchSize size;
  size.tokens = std::max(padded_frames * patches, frames * padded_patches);
  size.pairs = {int128{padded_frames} * patches * patches,
                int128{padded_patches} * frames * frames};
  return size;
}

}  // namespace

BatchSize SizeOf(const ModelShape& model, const SequenceSplit& split,
                 const Sample& sample) {
  if (split.mode == SpMode::kSwitch) return SwitchedSize(sample, split.degree);
  const int64_t length = sample.length;
  BatchSize size;
  size.tokens = split.gather_degree > 1
                    ? PaddedTokens(length, int64_t{2} * split.degree)
                    : length;
  if (model.is_video()) {
    size.pairs = {int128{length} * sample.patches(),
                  int128{length} * sample.frames};
  } else {
    size.pairs = {int128{length} * length, 0};
  }
  return size;
}

bool CanShare(const SequenceSplit& split, const Sample& sample) {
  return split.mode != SpMode::kSwitch ||
         (split.degree <= sample.frames && split.degree <= sample.patches());
}

}  // namespace evenstep::planner
