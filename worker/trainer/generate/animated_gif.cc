#include "worker/trainer/generate/animated_gif.h"

#include <gif_lib.h>

#include <algorithm>
#include <array>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace evenstep::trainer {
namespace {

constexpr int64_t kMostPixels = 1 << 12;  // of a side
// Colours are even steps of red, green and blue: 6 x 6 x 6 of 256.
constexpr int kLevels = 6;
constexpr int kColours = 256;

GifColorType ColourAt(int index) {
  const auto level = [](int step) {
    return static_cast<GifByteType>(step * 255 / (kLevels - 1));
  };
  return {level(index / (kLevels * kLevels) % kLevels),
          level(index / kLevels % kLevels), level(index % kLevels)};
}

int LevelOf(float value) {
  const float bright = std::clamp((value + 1) / 2, 0.0f, 1.0f);
  return static_cast<int>(bright * (kLevels - 1) + 0.5f);
}

// One frame of the picture, as indices of colours, row by row.
class Picture {
 public:
  Picture(const data::Clip& clip, const GifOptions& options)
      : clip_(clip), options_(options) {}

  int64_t width() const {
    return clip_.shape.width * options_.patch * options_.pixel_size;
  }
  int64_t height() const {
    return clip_.shape.height * options_.patch * options_.pixel_size;
  }

  std::vector<GifByteType> Row(int64_t frame, int64_t y) const {
    std::vector<GifByteType> row(width());
    for (int64_t x = 0; x < width(); ++x) {
      row[x] =
          ColourOf(frame, y / options_.pixel_size, x / options_.pixel_size);
    }
    return row;
  }

 private:
  // Of a latent pixel.
  GifByteType ColourOf(int64_t frame, int64_t y, int64_t x) const {
    const int64_t patch = options_.patch;
    const int64_t token = frame * clip_.shape.patches() +
                          y / patch * clip_.shape.width + x / patch;
    const float* values = clip_.token(token) +
                          (y % patch * patch + x % patch) * options_.channels;
    const bool grey = options_.channels < 3;
    const int red = LevelOf(values[0]);
    const int green = grey ? red : LevelOf(values[1]);
    const int blue = grey ? red : LevelOf(values[2]);
    return static_cast<GifByteType>((red * kLevels + green) * kLevels + blue);
  }

  const data::Clip& clip_;
  const GifOptions& options_;
};

absl::Status GifError(GifFileType* gif) {
  const char* const reason =
      gif == nullptr ? nullptr : GifErrorString(gif->Error);
  return absl::InternalError(
      absl::StrCat("giflib: ", reason == nullptr ? "failed" : reason));
}

#define EVENSTEP_CHECK_GIF(gif, call) \
  if ((call) != GIF_OK) return GifError(gif)

// Says that the picture goes on for ever.
absl::Status PutLoop(GifFileType* gif) {
  constexpr std::array<unsigned char, 3> kForEver = {1, 0, 0};
  EVENSTEP_CHECK_GIF(gif,
                     EGifPutExtensionLeader(gif, APPLICATION_EXT_FUNC_CODE));
  EVENSTEP_CHECK_GIF(gif, EGifPutExtensionBlock(gif, 11, "NETSCAPE2.0"));
  EVENSTEP_CHECK_GIF(
      gif, EGifPutExtensionBlock(gif, kForEver.size(), kForEver.data()));
  EVENSTEP_CHECK_GIF(gif, EGifPutExtensionTrailer(gif));
  return absl::OkStatus();
}

absl::Status PutFrame(GifFileType* gif, const Picture& picture, int64_t frame,
                      int frame_ms) {
  const int hundredths = frame_ms / 10;
  const std::array<unsigned char, 4> control = {
      0, static_cast<unsigned char>(hundredths & 0xff),
      static_cast<unsigned char>(hundredths >> 8), 0};
  EVENSTEP_CHECK_GIF(gif, EGifPutExtension(gif, GRAPHICS_EXT_FUNC_CODE,
                                           control.size(), control.data()));
  const auto width = static_cast<int>(picture.width());
  const auto height = static_cast<int>(picture.height());
  EVENSTEP_CHECK_GIF(
      gif, EGifPutImageDesc(gif, 0, 0, width, height, false, nullptr));
  for (int y = 0; y < height; ++y) {
    std::vector<GifByteType> row = picture.Row(frame, y);
    EVENSTEP_CHECK_GIF(gif, EGifPutLine(gif, row.data(), width));
  }
  return absl::OkStatus();
}

absl::Status PutPicture(GifFileType* gif, const Picture& picture,
                        int64_t frames, int frame_ms) {
  std::array<GifColorType, kColours> colours{};
  for (int i = 0; i < kColours; ++i) colours[i] = ColourAt(i);
  ColorMapObject* const map = GifMakeMapObject(kColours, colours.data());
  EGifSetGifVersion(gif, true);
  const int put =
      EGifPutScreenDesc(gif, static_cast<int>(picture.width()),
                        static_cast<int>(picture.height()), 8, 0, map);
  GifFreeMapObject(map);
  EVENSTEP_CHECK_GIF(gif, put);
  EVENSTEP_RETURN_IF_ERROR(PutLoop(gif));
  for (int64_t frame = 0; frame < frames; ++frame) {
    EVENSTEP_RETURN_IF_ERROR(PutFrame(gif, picture, frame, frame_ms));
  }
  return absl::OkStatus();
}

#undef EVENSTEP_CHECK_GIF

}  // namespace

absl::Status WriteAnimatedGif(const std::string& path, const data::Clip& clip,
                              const GifOptions& options) {
  const Picture picture(clip, options);
  if (options.patch < 1 || options.channels < 1 || options.pixel_size < 1 ||
      clip.channels !=
          int64_t{options.patch} * options.patch * options.channels ||
      static_cast<int64_t>(clip.values.size()) !=
          clip.shape.tokens() * clip.channels ||
      picture.width() > kMostPixels || picture.height() > kMostPixels) {
    return absl::InvalidArgumentError(
        absl::StrCat("a picture of ", picture.width(), " x ", picture.height(),
                     " pixels, at most ", kMostPixels, ", of patches of ",
                     clip.channels, " values: ", options.patch, " x ",
                     options.patch, " x ", options.channels));
  }
  int error = 0;
  GifFileType* const gif =
      EGifOpenFileName(path.c_str(), /*GifTestExistence=*/false, &error);
  if (gif == nullptr) {
    return absl::InternalError(
        absl::StrCat("cannot write ", path, ": giflib error ", error));
  }
  absl::Status status =
      PutPicture(gif, picture, clip.shape.frames, options.frame_ms);
  if (EGifCloseFile(gif, &error) != GIF_OK && status.ok()) {
    status = absl::InternalError(
        absl::StrCat("cannot finish ", path, ": giflib error ", error));
  }
  return status;
}

}  // namespace evenstep::trainer
