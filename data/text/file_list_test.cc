#include "data/text/file_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/testing/temp_folder.h"

namespace evenstep::data {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class FileListTest : public ::testing::Test {
 protected:
  void Write(const std::string& name, const std::string& content = "x") {
    const std::string path = folder_.path() + "/" + name;
    std::filesystem::create_directories(
        std::filesystem::path(path).parent_path());
    ASSERT_TRUE(WriteFileAtomically(path, content).ok());
  }
  std::string Path(const std::string& name) const {
    return folder_.path() + "/" + name;
  }
  std::vector<std::string> Names(const std::string& pattern) const {
    const auto list = ListFiles(Path(pattern));
    EXPECT_TRUE(list.ok()) << list.status();
    std::vector<std::string> names;
    for (const ListedFile& file : list->files) names.push_back(file.name);
    return names;
  }

  TempFolder folder_;
};

TEST_F(FileListTest, FolderIsListedToTheBottomInOrderOfNames) {
  for (const char* name :
       {"b.txt", "a/z.txt", "a/b/c.txt", "A.txt", ".hidden", "a.txt"}) {
    Write(name);
  }
  EXPECT_THAT(Names(""), ElementsAre(".hidden", "A.txt", "a.txt", "a/b/c.txt",
                                     "a/z.txt", "b.txt"));
}

TEST_F(FileListTest, PatternsMatchNamesAndFolders) {
  for (const char* name : {"a.h", "a.c", "d/b.h", "d/e/c.h", "d/e/c.hh"}) {
    Write(name);
  }
  EXPECT_THAT(Names("*.h"), ElementsAre("a.h"));
  EXPECT_THAT(Names("*/*.h"), ElementsAre("d/b.h"));
  EXPECT_THAT(Names("**/*.h"), ElementsAre("a.h", "d/b.h", "d/e/c.h"));
  EXPECT_THAT(Names("d/**/*.h"), ElementsAre("b.h", "e/c.h"));
  EXPECT_THAT(Names("d/**"), ElementsAre("b.h", "e/c.h", "e/c.hh"));
  EXPECT_THAT(Names("**/e/*.h*"), ElementsAre("d/e/c.h", "d/e/c.hh"));
  EXPECT_THAT(Names("?.c"), ElementsAre("a.c"));
  EXPECT_THAT(Names("**/**/*.c"), ElementsAre("a.c"));
  EXPECT_THAT(Names("*.none"), IsEmpty());
}

TEST_F(FileListTest, PartsMatchWithoutBlowingUp) {
  EXPECT_TRUE(MatchesPart("a*b*c", "a-b-b-c"));
  EXPECT_FALSE(MatchesPart("a*b*c", "a-c-b"));
  EXPECT_TRUE(MatchesPart("*", ""));
  EXPECT_TRUE(MatchesPart("a[0-9].txt", "a7.txt"));
  EXPECT_FALSE(MatchesPart("a[0-9].txt", "ab.txt"));
  EXPECT_TRUE(MatchesPart("[!a-c]*", "d"));
  EXPECT_FALSE(MatchesPart("[!a-c]*", "b"));
  EXPECT_TRUE(MatchesPart("*[xyz]", "ab-y"));
  EXPECT_TRUE(MatchesPart("[]-]", "]"));
  EXPECT_TRUE(MatchesPart("[]-]", "-"));
  EXPECT_TRUE(MatchesPart("[a-]", "-"));
  EXPECT_TRUE(MatchesPart("a[b", "a[b")) << "no set: it has no end";
  EXPECT_FALSE(MatchesPart("a[b]", "a"));
  EXPECT_FALSE(MatchesPart("?", ""));
  std::string stars;
  for (int i = 0; i < 100; ++i) stars += "*a";
  EXPECT_FALSE(MatchesPart(stars + "b", std::string(5000, 'a')));
}

TEST_F(FileListTest, SingleFileIsAListOfOne) {
  Write("d/one.txt", "12345");
  const auto list = ListFiles(Path("d/one.txt"));
  ASSERT_TRUE(list.ok());
  EXPECT_EQ(list->root, Path("d"));
  ASSERT_EQ(list->files.size(), 1u);
  EXPECT_EQ(list->files[0].name, "one.txt");
  EXPECT_EQ(list->files[0].bytes, 5);
}

TEST_F(FileListTest, FileWithAStarInItsNameIsMeantLiterallyWhenItExists) {
  Write("a*.txt");
  Write("ab.txt");
  EXPECT_THAT(Names("a*.txt"), ElementsAre("a*.txt"));
}

TEST_F(FileListTest, LinksBelowAreCountedAndNotFollowed) {
  Write("real/a.txt");
  std::filesystem::create_symlink(Path("real/a.txt"), Path("real/link.txt"));
  std::filesystem::create_directory_symlink(Path("real"), Path("real/loop"));
  std::filesystem::create_directory_symlink(Path("real"), Path("top"));
  const auto list = ListFiles(Path("top"));  // the path itself may be a link
  ASSERT_TRUE(list.ok());
  EXPECT_THAT(Names("top"), ElementsAre("a.txt"));
  EXPECT_EQ(list->num_links, 2);
}

TEST_F(FileListTest, WhatIsNoRegularFileHasAProblem) {
  Write("a.txt");
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  const auto list = ListFiles(Path(""));
  ASSERT_EQ(list->files.size(), 2u);
  EXPECT_EQ(list->files[0].problem, "");
  EXPECT_EQ(list->files[1].problem, "not a regular file");
}

TEST_F(FileListTest, IndexFilesOfOurOwnAreNoDocuments) {
  Write("a.txt");
  Write(absl::StrCat(kIndexFilePrefix, "0123.bin"));
  Write(absl::StrCat(kIndexFilePrefix, "0123.bin.tmp.abcdef"));
  EXPECT_THAT(Names(""), ElementsAre("a.txt"));
}

TEST_F(FileListTest, MissingPathsAreNotFound) {
  EXPECT_EQ(ListFiles(Path("none")).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(ListFiles(Path("none/*.txt")).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(ListFiles("").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(FileListTest, RelativePathsWork) {
  Write("d/a.txt");
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder_.path());
  const auto file = ListFiles("d/a.txt");
  const auto star = ListFiles("*/a.txt");
  std::filesystem::current_path(before);
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->root, "d");
  ASSERT_TRUE(star.ok());
  EXPECT_EQ(star->root, ".");
  EXPECT_EQ(star->files[0].name, "d/a.txt");
}

}  // namespace
}  // namespace evenstep::data
