#include "worker/agent/output_reader.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "base/testing/temp_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace evenstep::agent {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

struct Heard {
  std::vector<std::string> lines;
  int64_t bytes_not_kept = 0;
  std::string last_words;
};

// What a reader tells of output in these pieces.
Heard Read(const std::string& log_path,
           const std::vector<std::string>& pieces) {
  int output[2];
  int error[2];
  EXPECT_EQ(pipe2(output, O_CLOEXEC), 0);
  EXPECT_EQ(pipe2(error, O_CLOEXEC), 0);
  close(error[1]);
  Heard heard;
  OutputReader reader(UniqueFd(output[0]), UniqueFd(error[0]), log_path, 1000,
                      [&](const OutputLines& lines) {
                        heard.bytes_not_kept += lines.bytes_not_kept;
                        for (const auto& line : lines.lines) {
                          heard.lines.push_back(line);
                        }
                      });
  for (const std::string& piece : pieces) {
    EXPECT_EQ(write(output[1], piece.data(), piece.size()),
              static_cast<ssize_t>(piece.size()));
  }
  close(output[1]);
  reader.Finish();
  heard.last_words = reader.LastWords();
  return heard;
}

std::string FileText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file),
          std::istreambuf_iterator<char>()};
}

TEST(OutputReaderTest, OutputIsKeptAndToldInLines) {
  const TempFolder folder;
  const std::string path = folder.path() + "/rank-0.log";
  const Heard heard = Read(path, {"one\ntw", "o\nthree"});
  EXPECT_THAT(heard.lines, ElementsAre("one", "two", "three"));
  EXPECT_EQ(heard.bytes_not_kept, 0);
  EXPECT_EQ(FileText(path), "one\ntwo\nthree");
}

TEST(OutputReaderTest, LastWordsAreWholeLines) {
  const TempFolder folder;
  const std::string path = folder.path() + "/rank-0.log";
  EXPECT_EQ(Read(path, {"one\ntwo"}).last_words, "one | two");
  const std::string half(kLastWordsBytes / 2, 'h');
  EXPECT_EQ(Read(path, {half + "\n" + half + "\nend\n"}).last_words,
            half + " | end");
  const std::string fits(kLastWordsBytes, 'f');
  EXPECT_EQ(Read(path, {"before\n" + fits + "\n"}).last_words, fits);
  const std::string last = Read(path, {fits + "g\n"}).last_words;
  EXPECT_EQ(last.size(), kLastWordsBytes);
  EXPECT_THAT(last, AllOf(StartsWith("fff"), EndsWith("f [cut]")));
}

TEST(OutputReaderTest, AFullDiskIsCountedAndSaidOnce) {
  const Heard heard = Read("/dev/full", {"one\n", "two\n"});
  ASSERT_EQ(heard.lines.size(), 3u) << "lines are sent on all the same";
  EXPECT_THAT(heard.lines[0], AllOf(HasSubstr("/dev/full"),
                                    HasSubstr("No space left on device")));
  EXPECT_EQ(heard.lines[1], "one");
  EXPECT_EQ(heard.lines[2], "two");
  EXPECT_EQ(heard.bytes_not_kept, 8);
}

TEST(OutputReaderTest, ALogFileThatCannotBeOpenedIsSaid) {
  const Heard heard = Read("/no/such/folder/rank-0.log", {"one\n"});
  ASSERT_EQ(heard.lines.size(), 2u);
  EXPECT_THAT(heard.lines[0], HasSubstr("No such file or directory"));
  EXPECT_EQ(heard.bytes_not_kept, 4);
}

}  // namespace

namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(LineSplitterTest, LinesAreCutAtTheirEndsAcrossReads) {
  LineSplitter splitter;
  EXPECT_THAT(splitter.Add("one\ntw"), ElementsAre("one"));
  EXPECT_THAT(splitter.Add("o\r\n\nthree"), ElementsAre("two", ""));
  EXPECT_EQ(splitter.TakeRest(), "three");
  EXPECT_EQ(splitter.TakeRest(), "");
}

TEST(LineSplitterTest, ALongLineIsCutAndSaysSo) {
  LineSplitter splitter;
  EXPECT_THAT(splitter.Add(std::string(kMaxLineBytes, 'x')), IsEmpty());
  EXPECT_THAT(splitter.Add(std::string(kMaxLineBytes, 'y')), IsEmpty());
  EXPECT_THAT(splitter.Add("z\nnext\n"),
              ElementsAre(std::string(kMaxLineBytes, 'x') + " [cut]", "next"));
}

TEST(LineSplitterTest, ALineOfExactlyTheBoundIsWhole) {
  LineSplitter splitter;
  EXPECT_THAT(splitter.Add(std::string(kMaxLineBytes, 'x') + "\n"),
              ElementsAre(std::string(kMaxLineBytes, 'x')));
}

TEST(LineSplitterTest, LinesAreValidUtf8) {
  LineSplitter splitter;
  EXPECT_THAT(splitter.Add("a\xff\n"), ElementsAre("a?"));
}

TEST(LineRateTest, BurstsAreLimitedAndTimeBringsRoomBack) {
  LineRate rate(10);
  int allowed = 0;
  for (int i = 0; i < 100; ++i) {
    if (rate.Allow(absl::Seconds(100))) ++allowed;
  }
  EXPECT_EQ(allowed, 20);
  allowed = 0;
  for (int i = 0; i < 100; ++i) {
    if (rate.Allow(absl::Seconds(101))) ++allowed;
  }
  EXPECT_EQ(allowed, 10);
}

}  // namespace

}  // namespace evenstep::agent
