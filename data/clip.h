#ifndef EVENSTEP_DATA_CLIP_H_
#define EVENSTEP_DATA_CLIP_H_

// A sample of video: latents cut into square patches, each of which is a token.
// Read by data sets, carried to the trainer's shards. Plain data.

#include <cstdint>
#include <vector>

namespace evenstep::data {

// In patches. No frames: not video.
struct ClipShape {
  int64_t frames = 0;
  int64_t height = 0;
  int64_t width = 0;

  int64_t patches() const { return height * width; }  // of a frame
  int64_t tokens() const { return frames * patches(); }
  friend bool operator==(const ClipShape&, const ClipShape&) = default;
};

struct Clip {
  ClipShape shape;
  int64_t channels = 0;  // values of a patch
  // [frames, height, width, channels]: token f * patches() + y * width + x
  // stands at patch (y, x) of frame f.
  std::vector<float> values;

  const float* token(int64_t index) const {
    return values.data() + index * channels;
  }
};

}  // namespace evenstep::data

#endif  // EVENSTEP_DATA_CLIP_H_
