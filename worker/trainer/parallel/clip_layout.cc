#include "worker/trainer/parallel/clip_layout.h"

#include <algorithm>

namespace evenstep::trainer {
namespace {

int64_t RoundUp(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

int64_t TotalTokens(ClipShapes shapes) {
  int64_t tokens = 0;
  for (const data::ClipShape& shape : shapes) tokens += shape.tokens();
  return tokens;
}

}  // namespace

AxisRange RangeOf(int64_t count, int degree, int rank) {
  return {count * rank / degree, count * (rank + 1) / degree};
}

std::vector<ClipPlace> PlacesByFrame(ClipShapes shapes, int degree, int rank) {
  std::vector<ClipPlace> places;
  for (int i = 0; i < static_cast<int>(shapes.size()); ++i) {
    const AxisRange own = RangeOf(shapes[i].frames, degree, rank);
    for (int64_t frame = own.begin; frame < own.end; ++frame) {
      for (int64_t patch = 0; patch < shapes[i].patches(); ++patch) {
        places.push_back({i, frame, patch});
      }
    }
  }
  return places;
}

std::vector<ClipPlace> PlacesByPatch(ClipShapes shapes, int degree, int rank) {
  std::vector<ClipPlace> places;
  for (int i = 0; i < static_cast<int>(shapes.size()); ++i) {
    const AxisRange own = RangeOf(shapes[i].patches(), degree, rank);
    for (int64_t patch = own.begin; patch < own.end; ++patch) {
      for (int64_t frame = 0; frame < shapes[i].frames; ++frame) {
        places.push_back({i, frame, patch});
      }
    }
  }
  return places;
}

std::vector<ClipPlace> PlacesInRuns(ClipShapes shapes, int degree, int rank) {
  const int64_t run = RoundUp(TotalTokens(shapes), degree) / degree;
  std::vector<ClipPlace> places;
  int64_t start = -rank * run;  // of the clip, counted from the own run
  for (int i = 0; i < static_cast<int>(shapes.size()); ++i) {
    const int64_t patches = shapes[i].patches();
    const int64_t end = std::min(shapes[i].tokens(), run - start);
    for (int64_t token = std::max<int64_t>(0, -start); token < end; ++token) {
      places.push_back({i, token / patches, token % patches});
    }
    start += shapes[i].tokens();
  }
  places.resize(run);
  return places;
}

ClipSwitch MakeClipSwitch(ClipShapes shapes, int degree, int rank) {
  ClipSwitch result;
  for (int peer = 0; peer < degree; ++peer) {
    const size_t before = result.send_order.size();
    int64_t start = 0;  // of the clip, by frame
    for (const data::ClipShape& shape : shapes) {
      const int64_t frames = RangeOf(shape.frames, degree, rank).size();
      const AxisRange theirs = RangeOf(shape.patches(), degree, peer);
      for (int64_t frame = 0; frame < frames; ++frame) {
        for (int64_t patch = theirs.begin; patch < theirs.end; ++patch) {
          result.send_order.push_back(start + frame * shape.patches() + patch);
        }
      }
      start += frames * shape.patches();
    }
    result.send_tokens.push_back(
        static_cast<int64_t>(result.send_order.size() - before));
  }
  int64_t received = 0;
  result.recv_order.resize(PlacesByPatch(shapes, degree, rank).size());
  for (int peer = 0; peer < degree; ++peer) {
    const int64_t before = received;
    int64_t start = 0;  // of the clip, by patch
    for (const data::ClipShape& shape : shapes) {
      const int64_t patches = RangeOf(shape.patches(), degree, rank).size();
      const AxisRange theirs = RangeOf(shape.frames, degree, peer);
      for (int64_t frame = theirs.begin; frame < theirs.end; ++frame) {
        for (int64_t patch = 0; patch < patches; ++patch) {
          result.recv_order[start + patch * shape.frames + frame] = received++;
        }
      }
      start += patches * shape.frames;
    }
    result.recv_tokens.push_back(received - before);
  }
  return result;
}

int64_t PaddedClipTokens(ClipShapes shapes, int degree, bool switches) {
  if (!switches) return RoundUp(TotalTokens(shapes), degree);
  int64_t tokens = 0;
  for (const data::ClipShape& shape : shapes) {
    tokens += std::max(RoundUp(shape.frames, degree) * shape.patches(),
                       shape.frames * RoundUp(shape.patches(), degree));
  }
  return RoundUp(tokens, degree);
}

}  // namespace evenstep::trainer
