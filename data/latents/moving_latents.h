#ifndef EVENSTEP_DATA_LATENTS_MOVING_LATENTS_H_
#define EVENSTEP_DATA_LATENTS_MOVING_LATENTS_H_

// Makes up a small set of video latents to train on: soft discs of one of a few
// colours that move at a constant speed and come back in on the other side, in
// clips of mixed frames and resolutions, single frames among them. What a model
// must learn is a disc's shape (space) and that it keeps its way (time). Called
// by `evenstep data make-latents`, by examples and by tests. The same options
// give the same bytes.

#include <cstdint>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace evenstep::data {

struct MovingLatentsOptions {
  int64_t clips = 64;
  uint64_t seed = 0;
  // Of the longest clips; others have a half, a quarter, or a single one.
  int64_t max_frames = 16;
  // Of the largest frames in latent pixels; others are smaller or not square.
  int64_t max_side = 16;
};

inline constexpr int64_t kMovingLatentsChannels = 3;

inline constexpr int64_t kMostMovingClips = 100'000;
inline constexpr int64_t kMostMovingFrames = 1024;
inline constexpr int64_t kMostMovingSide = 512;

// Writes `folder`/clips-000.safetensors and so on, at most 64 clips a file, and
// returns how many files. The folder is made if it is not there.
// INVALID_ARGUMENT: options out of range. FAILED_PRECONDITION: the folder has
// files of a larger set, which would be read with these. CANCELLED: `stop`;
// whole files are left.
absl::StatusOr<int> WriteMovingLatents(const std::string& folder,
                                       const MovingLatentsOptions& options,
                                       const std::stop_token& stop = {});

}  // namespace evenstep::data

#endif  // EVENSTEP_DATA_LATENTS_MOVING_LATENTS_H_
