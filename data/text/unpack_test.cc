#include "data/text/unpack.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/testing/temp_folder.h"
#include "data/testing/packed_bytes.h"

namespace evenstep::data {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kBound = 10'000'000;

// In pieces of `step` bytes; an error is its message.
std::string Unpacked(absl::string_view packed, size_t step = 7,
                     int64_t max_bytes = kBound) {
  std::string text;
  const auto unpacker =
      MakeUnpacker(PackingOf(packed), max_bytes, [&](absl::string_view bytes) {
        text.append(bytes.data(), bytes.size());
        return true;
      });
  for (size_t at = 0; at < packed.size(); at += step) {
    const absl::Status added = unpacker->Add(packed.substr(at, step));
    if (!added.ok()) return std::string(added.message());
  }
  const absl::Status finished = unpacker->Finish();
  return finished.ok() ? text : std::string(finished.message());
}

// Of lengths on both sides of the buffers.
std::string Text(size_t bytes) {
  std::mt19937 random(static_cast<unsigned int>(bytes));
  std::string text(bytes, '\0');
  for (char& c : text) c = static_cast<char>('a' + random() % 4);
  return text;
}

TEST(UnpackTest, BothKindsComeBackWholeInPiecesOfAnySize) {
  for (const size_t bytes : {0, 1, 1000, 262144, 262145, 600000}) {
    const std::string text = Text(bytes);
    for (const size_t step : {1000, 100000}) {
      EXPECT_TRUE(Unpacked(Gzip(text), step) == text) << bytes;
      EXPECT_TRUE(Unpacked(Zstd(text), step) == text) << bytes;
    }
  }
  EXPECT_EQ(Unpacked(Gzip("abc"), 1), "abc");
  EXPECT_EQ(Unpacked(Zstd("abc"), 1), "abc");
}

TEST(UnpackTest, FilesPutTogetherAreReadToTheirEnd) {
  EXPECT_EQ(Unpacked(Gzip("abc") + Gzip("def")), "abcdef");
  EXPECT_EQ(Unpacked(Zstd("abc") + Zstd("def")), "abcdef");
  EXPECT_EQ(Unpacked(Gzip("abc") + std::string(100, '\0')), "abc");
}

TEST(UnpackTest, DamageAndCutsAreRefusedWithHowFarItWent) {
  for (const std::string& packed : {Gzip(Text(1000)), Zstd(Text(1000))}) {
    EXPECT_THAT(Unpacked(packed.substr(0, packed.size() - 1)),
                HasSubstr("ends early, after "));
    EXPECT_THAT(
        Unpacked(packed + "x"),
        testing::AnyOf(HasSubstr("is damaged"), HasSubstr("ends early")));
    EXPECT_THAT(Unpacked(packed + "more of it"), HasSubstr("is damaged"));
  }
  std::string damaged = Gzip(Text(1000));
  damaged[damaged.size() - 6] ^= 1;  // its checksum
  EXPECT_THAT(Unpacked(damaged), HasSubstr("is damaged"));
}

TEST(UnpackTest, ASmallFileCannotUnpackToMoreThanTheBound) {
  const std::string zeros(kBound + 1, 'z');
  for (const std::string& packed : {Gzip(zeros), Zstd(zeros)}) {
    EXPECT_LT(packed.size(), 20000u);
    EXPECT_THAT(Unpacked(packed, 100000),
                HasSubstr("unpacks to more than 10000000 bytes"));
    EXPECT_EQ(Unpacked(packed, 100000, kBound + 1).size(), zeros.size());
  }
}

TEST(UnpackTest, FilesAreReadByWhatTheyAre) {
  TempFolder folder;
  const std::string path = folder.path() + "/f";
  for (const std::string& content :
       {std::string("plain"), Gzip("plain"), Zstd("plain")}) {
    ASSERT_TRUE(WriteFileAtomically(path, content).ok());
    EXPECT_EQ(*ReadWholeUnpacked(path, 5), "plain");
    EXPECT_TRUE(absl::IsResourceExhausted(ReadWholeUnpacked(path, 4).status()));
  }
  EXPECT_TRUE(
      absl::IsNotFound(ReadWholeUnpacked(folder.path() + "/none", 5).status()));
}

}  // namespace
}  // namespace evenstep::data
