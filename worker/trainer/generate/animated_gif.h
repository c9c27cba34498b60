#ifndef EVENSTEP_WORKER_TRAINER_GENERATE_ANIMATED_GIF_H_
#define EVENSTEP_WORKER_TRAINER_GENERATE_ANIMATED_GIF_H_

// Writes a clip of latents as an animated picture: the first three channels, or
// one of them, as red, green and blue, -1 as dark and 1 as bright. By giflib.
// Stateless.

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "data/clip.h"

namespace evenstep::trainer {

struct GifOptions {
  int patch = 1;       // latent pixels of a token's side
  int channels = 1;    // of a latent
  int pixel_size = 8;  // picture pixels of a latent pixel's side
  int frame_ms = 120;
};

// INVALID_ARGUMENT: the clip's values are not patches of these channels, or the
// picture would be too large; INTERNAL: giflib's reason.
absl::Status WriteAnimatedGif(const std::string& path, const data::Clip& clip,
                              const GifOptions& options);

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_GENERATE_ANIMATED_GIF_H_
