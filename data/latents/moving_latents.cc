#include "data/latents/moving_latents.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <numbers>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/atomic_file.h"
#include "base/counter_random.h"
#include "base/status_macros.h"
#include "data/safetensors.h"

namespace evenstep::data {
namespace {

constexpr int64_t kClipsPerFile = 64;
constexpr double kBackground = -1;
constexpr double kEdge = 2;  // steepness of a disc's rim, per pixel

using Colour = std::array<double, kMovingLatentsChannels>;
constexpr Colour kColours[] = {
    {1, -0.6, -0.6}, {-0.6, 1, -0.6}, {-0.4, -0.2, 1}, {1, 0.8, -0.8}};

// One purpose each.
enum Draw : uint64_t {
  kFrames,
  kHeight,
  kWidth,
  kColour,
  kRadius,
  kRow,
  kColumn,
  kDirection,
  kSpeed,
};

struct MovingClip {
  int64_t frames = 1;
  int64_t height = 0;
  int64_t width = 0;
  Colour colour{};
  double radius = 0;
  double row = 0;
  double column = 0;
  double rows_per_frame = 0;
  double columns_per_frame = 0;
};

MovingClip DrawClip(const MovingLatentsOptions& options, int64_t index) {
  const CounterRandom random(options.seed);
  const auto uniform = [&](Draw what) {
    return random.Uniform(static_cast<uint64_t>(index), what);
  };
  const auto side = [&](Draw what) {
    return options.max_side / (uniform(what) < 0.3 ? 1 : 2);
  };
  MovingClip clip;
  const double u = uniform(kFrames);
  clip.frames = u < 0.15   ? 1
                : u < 0.5  ? std::max<int64_t>(1, options.max_frames / 4)
                : u < 0.85 ? std::max<int64_t>(1, options.max_frames / 2)
                           : options.max_frames;
  clip.height = side(kHeight);
  clip.width = side(kWidth);
  clip.colour =
      kColours[static_cast<size_t>(uniform(kColour) * std::size(kColours))];
  const auto least = static_cast<double>(std::min(clip.height, clip.width));
  clip.radius = least * (0.18 + 0.12 * uniform(kRadius));
  clip.row = uniform(kRow) * static_cast<double>(clip.height);
  clip.column = uniform(kColumn) * static_cast<double>(clip.width);
  const double direction = 2 * std::numbers::pi * uniform(kDirection);
  const double speed = 0.5 + 0.7 * uniform(kSpeed);
  clip.rows_per_frame = speed * std::sin(direction);
  clip.columns_per_frame = speed * std::cos(direction);
  return clip;
}

// The shorter way around.
double Distance(double a, double b, int64_t size) {
  const auto whole = static_cast<double>(size);
  const double ahead = std::fmod(std::fmod(a - b, whole) + whole, whole);
  return std::min(ahead, whole - ahead);
}

std::string Render(const MovingClip& clip) {
  std::vector<float> values;
  for (int64_t frame = 0; frame < clip.frames; ++frame) {
    const auto at = static_cast<double>(frame);
    for (int64_t y = 0; y < clip.height; ++y) {
      const double dy =
          Distance(static_cast<double>(y), clip.row + at * clip.rows_per_frame,
                   clip.height);
      for (int64_t x = 0; x < clip.width; ++x) {
        const double dx =
            Distance(static_cast<double>(x),
                     clip.column + at * clip.columns_per_frame, clip.width);
        const double inside =
            1 / (1 + std::exp(kEdge * (std::hypot(dx, dy) - clip.radius)));
        for (const double channel : clip.colour) {
          values.push_back(static_cast<float>(
              kBackground + inside * (channel - kBackground)));
        }
      }
    }
  }
  return std::string(reinterpret_cast<const char*>(values.data()),
                     values.size() * sizeof(float));
}

absl::Status CheckOptions(const MovingLatentsOptions& options) {
  for (const auto& [what, value, least, most] :
       {std::tuple("clips", options.clips, int64_t{1}, kMostMovingClips),
        {"max-frames", options.max_frames, int64_t{1}, kMostMovingFrames},
        {"max-side", options.max_side, int64_t{4}, kMostMovingSide}}) {
    if (value >= least && value <= most) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": ", value, " is not in ", least, " to ", most));
  }
  if (options.max_side % 4 == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("max-side: ", options.max_side, " is not a multiple of 4"));
}

std::string PathOf(const std::string& folder, int64_t file) {
  return absl::StrFormat("%s/clips-%03d.safetensors", folder, file);
}

// A data set is all files of a folder.
absl::Status CheckFolder(const std::string& folder, int64_t num_files) {
  const std::string next = PathOf(folder, num_files);
  std::error_code error;
  if (!std::filesystem::exists(next, error)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(next,
                   " is of a larger set, which would be read with this "
                   "one: name another folder, or remove the old files"));
}

// Clips [first, end) into one file.
absl::Status WriteFile(const std::string& path,
                       const MovingLatentsOptions& options, int64_t first,
                       int64_t end) {
  std::vector<std::string> bytes;
  std::vector<TensorBytes> tensors;
  bytes.reserve(end - first);  // tensors point into it
  for (int64_t i = first; i < end; ++i) {
    const MovingClip clip = DrawClip(options, i);
    bytes.push_back(Render(clip));
    tensors.push_back(
        {absl::StrFormat("clip-%06d", i),
         "F32",
         {clip.frames, clip.height, clip.width, kMovingLatentsChannels},
         bytes.back()});
  }
  return WriteSafetensors(
      path, std::move(tensors),
      {{"evenstep.latents",
        absl::StrCat("moving discs, seed ", options.seed)}});
}

}  // namespace

absl::StatusOr<int> WriteMovingLatents(const std::string& folder,
                                       const MovingLatentsOptions& options,
                                       const std::stop_token& stop) {
  EVENSTEP_RETURN_IF_ERROR(CheckOptions(options));
  EVENSTEP_RETURN_IF_ERROR(MakeFolders(folder));
  const int64_t num_files = (options.clips - 1) / kClipsPerFile + 1;
  EVENSTEP_RETURN_IF_ERROR(CheckFolder(folder, num_files));
  for (int64_t file = 0; file < num_files; ++file) {
    if (stop.stop_requested()) return absl::CancelledError("interrupted");
    const int64_t first = file * kClipsPerFile;
    EVENSTEP_RETURN_IF_ERROR(
        WriteFile(PathOf(folder, file), options, first,
                  std::min(options.clips, first + kClipsPerFile)));
  }
  return static_cast<int>(num_files);
}

}  // namespace evenstep::data
