#include "worker/trainer/generate/animated_gif.h"

#include <gif_lib.h>

#include <string>

#include "base/testing/temp_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace evenstep::trainer {
namespace {

using ::testing::HasSubstr;

// Two frames of 1 x 2 patches of 2 x 2 pixels: all dark, then all red, but the
// last patch.
data::Clip TwoFrames() {
  data::Clip clip;
  clip.shape = {2, 1, 2};
  clip.channels = 12;
  for (int token = 0; token < 4; ++token) {
    for (int pixel = 0; pixel < 4; ++pixel) {
      const float red = token == 2 ? 1 : -1;
      clip.values.insert(clip.values.end(), {red, -1, -1});
    }
  }
  return clip;
}

GifColorType ColourAt(const GifFileType& gif, int frame, int y, int x) {
  const GifByteType index =
      gif.SavedImages[frame].RasterBits[y * gif.SWidth + x];
  return gif.SColorMap->Colors[index];
}

TEST(AnimatedGifTest, FramesAreReadBackByGiflib) {
  const TempFolder folder;
  const std::string path = folder.path() + "/clip.gif";
  GifOptions options;
  options.patch = 2;
  options.channels = 3;
  options.pixel_size = 3;
  ASSERT_TRUE(WriteAnimatedGif(path, TwoFrames(), options).ok());
  int error = 0;
  GifFileType* const gif = DGifOpenFileName(path.c_str(), &error);
  ASSERT_NE(gif, nullptr);
  ASSERT_EQ(DGifSlurp(gif), GIF_OK);
  EXPECT_EQ(gif->SWidth, 12);
  EXPECT_EQ(gif->SHeight, 6);
  ASSERT_EQ(gif->ImageCount, 2);
  EXPECT_EQ(ColourAt(*gif, 0, 0, 0).Red, 0);
  EXPECT_EQ(ColourAt(*gif, 1, 5, 5).Red, 255);
  EXPECT_EQ(ColourAt(*gif, 1, 5, 5).Green, 0);
  EXPECT_EQ(ColourAt(*gif, 1, 0, 6).Red, 0);
  EXPECT_EQ(DGifCloseFile(gif, &error), GIF_OK);
}

TEST(AnimatedGifTest, WhatCannotBeDrawnIsRefused) {
  const TempFolder folder;
  GifOptions options;
  options.patch = 2;
  options.channels = 4;
  EXPECT_EQ(
      WriteAnimatedGif(folder.path() + "/x.gif", TwoFrames(), options).code(),
      absl::StatusCode::kInvalidArgument);
  options.channels = 3;
  EXPECT_THAT(std::string(WriteAnimatedGif(folder.path() + "/no/x.gif",
                                           TwoFrames(), options)
                              .message()),
              HasSubstr("/no/x.gif"));
}

}  // namespace
}  // namespace evenstep::trainer
