#ifndef EVENSTEP_WORKER_TRAINER_PARALLEL_CLIP_LAYOUT_H_
#define EVENSTEP_WORKER_TRAINER_PARALLEL_CLIP_LAYOUT_H_

// Where the tokens of a micro-batch of clips stand in its group of d ranks.
// Pure functions.
//
// Switching: around spatial layers a rank holds whole frames, [r F/d, (r+1)
// F/d) of every clip, one frame after the other; around temporal layers the
// patches [r P/d, (r+1) P/d), one patch after the other with all its frames.
// Bounds are rounded down, so no rank has more than one frame or patch of a
// clip beyond any other, and nothing is padded: the planner counts what the
// fullest rank holds (planner/costs/sample_size.h). One rank alone has the same
// two orders.
// In runs, where heads are exchanged: clips lie end to end, frame by frame,
// padded at the tail to a multiple of d, and are cut into equal runs.

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "data/clip.h"

namespace evenstep::trainer {

struct ClipPlace {
  int clip = -1;  // -1: padding
  int64_t frame = 0;
  int64_t patch = 0;

  friend bool operator==(const ClipPlace&, const ClipPlace&) = default;
};

using ClipShapes = absl::Span<const data::ClipShape>;

std::vector<ClipPlace> PlacesByFrame(ClipShapes shapes, int degree, int rank);
std::vector<ClipPlace> PlacesByPatch(ClipShapes shapes, int degree, int rank);
std::vector<ClipPlace> PlacesInRuns(ClipShapes shapes, int degree, int rank);

// Frames or patches, of `count`, of a rank.
struct AxisRange {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t size() const { return end - begin; }
};
AxisRange RangeOf(int64_t count, int degree, int rank);

// How a rank's tokens go from the order by frame to that by patch: those that
// are sent, peer by peer, as indices into the former, and, for every token of
// the latter, its place in what is received. The way back is the inverse.
struct ClipSwitch {
  std::vector<int64_t> send_order;
  std::vector<int64_t> send_tokens;  // by peer
  std::vector<int64_t> recv_order;
  std::vector<int64_t> recv_tokens;  // by peer
};
ClipSwitch MakeClipSwitch(ClipShapes shapes, int degree, int rank);

// Tokens that the fullest rank holds in either order, times the degree, as the
// planner counts them; in runs, with the padding at the tail.
int64_t PaddedClipTokens(ClipShapes shapes, int degree, bool switches);

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_PARALLEL_CLIP_LAYOUT_H_
