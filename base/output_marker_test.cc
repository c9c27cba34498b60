#include "base/output_marker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/atomic_file.h"
#include "base/testing/temp_folder.h"

namespace evenstep {
namespace {

TEST(OutputMarkerTest, NamesAreMarkedOnceAndAddUp) {
  TempFolder folder;
  EXPECT_FALSE(ReadOutputMarks(folder.path()).Has("loss.csv"));
  ASSERT_TRUE(MarkOutputs(folder.path(), {"loss.csv", "two\nlines"}).ok());
  ASSERT_TRUE(MarkOutputs(folder.path(), {"loss.csv", "logs"}).ok());
  const std::string report = folder.path() + "/report.html";
  EXPECT_FALSE(MarkOutput(report).ok()) << "it is not there";
  ASSERT_TRUE(WriteFileAtomically(report, "x").ok());
  ASSERT_TRUE(MarkOutput(report).ok());
  EXPECT_EQ(*ReadWholeFile(folder.path() + "/.evenstep-output", 1000),
            "loss.csv\nlogs\nreport.html\n");
  const OutputMarks marks = ReadOutputMarks(folder.path());
  EXPECT_TRUE(marks.Has("logs"));
  EXPECT_TRUE(marks.Has("report.html"));
  EXPECT_FALSE(marks.Has("notes.txt"));
}

TEST(OutputMarkerTest, AStarMarksAllNames) {
  TempFolder folder;
  ASSERT_TRUE(MarkOutputs(folder.path(), {kAllOutputs}).ok());
  EXPECT_TRUE(ReadOutputMarks(folder.path()).Has("anything"));
}

TEST(OutputMarkerTest, AMarkerThatIsALinkIsNotWrittenThrough) {
  TempFolder folder;
  const std::string target = folder.path() + "/target";
  std::filesystem::create_symlink(target, folder.path() + "/.evenstep-output");
  EXPECT_FALSE(MarkOutputs(folder.path(), {"a"}).ok());
  EXPECT_FALSE(std::filesystem::exists(target));
}

TEST(OutputMarkerTest, AFolderThatIsNotThereIsAnError) {
  EXPECT_EQ(MarkOutputs("/no/such", {"a"}).code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace evenstep
