#include "data/text/file_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/output_marker.h"
#include "base/testing/temp_folder.h"

namespace evenstep::data {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

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
  for (const char* name : {"b.txt", "a/z.txt", "a/b/c.txt", "A.txt", "a.txt"}) {
    Write(name);
  }
  EXPECT_THAT(Names(""),
              ElementsAre("A.txt", "a.txt", "a/b/c.txt", "a/z.txt", "b.txt"));
}

TEST_F(FileListTest, HiddenEntriesAreLeftOutAndCounted) {
  for (const char* name :
       {"a.txt", ".DS_Store", ".git/objects/1", ".git/objects/2",
        "b/.ipynb_checkpoints/a-checkpoint.txt", "b/b.txt"}) {
    Write(name);
  }
  EXPECT_THAT(Names(""), ElementsAre("a.txt", "b/b.txt"));
  EXPECT_EQ(ListFiles(Path(""))->left_out.hidden, 3);
  EXPECT_THAT(Names("*.txt"), ElementsAre("a.txt"));
  EXPECT_EQ(ListFiles(Path("*.txt"))->left_out.hidden, 0);
  EXPECT_EQ(ListFiles(Path("*"))->left_out.hidden, 2);
}

TEST_F(FileListTest, HiddenFilesThatAreNamedAreTaken) {
  for (const char* name :
       {".hidden.txt", ".notes/a.txt", ".notes/.b/c.txt", "d/.notes/d.txt"}) {
    Write(name);
  }
  EXPECT_THAT(Names(".hidden.txt"), ElementsAre(".hidden.txt"));
  EXPECT_THAT(Names(".*.txt"), ElementsAre(".hidden.txt"));
  EXPECT_THAT(Names(".notes"), ElementsAre("a.txt"));
  EXPECT_THAT(Names("**/.notes/*.txt"),
              ElementsAre(".notes/a.txt", "d/.notes/d.txt"));
}

TEST_F(FileListTest, ResultsOfEarlierRunsAreLeftOutByTheirMarker) {
  for (const char* name :
       {"note.txt", "out/loss.csv", "out/logs/rank-0.log", "out/mine.txt"}) {
    Write(name);
  }
  EXPECT_THAT(Names(""), ElementsAre("note.txt", "out/logs/rank-0.log",
                                     "out/loss.csv", "out/mine.txt"));
  ASSERT_TRUE(MarkOutputs(Path("out"), kResultNames).ok());
  // What the user put there is data.
  EXPECT_THAT(Names(""), ElementsAre("note.txt", "out/mine.txt"));
  EXPECT_EQ(ListFiles(Path(""))->left_out.own, 2);
  EXPECT_EQ(ListFiles(Path(""))->left_out.hidden, 0);
  // The folder that the user names may hold results too.
  EXPECT_THAT(Names("out"), ElementsAre("mine.txt"));
  EXPECT_THAT(Names("out/loss.csv"), ElementsAre("loss.csv"));
  ASSERT_TRUE(MarkOutputs(Path("out"), {kAllOutputs}).ok());
  EXPECT_THAT(Names("out"), IsEmpty());
}

TEST_F(FileListTest, ResultsWithoutAMarkerAreKnownByTheirNames) {
  for (const char* name : {"copy/loss.csv", "copy/loss.json", "copy/job.yaml",
                           "copy/summary.json", "copy/logs/x", "copy/a.txt"}) {
    Write(name);
  }
  EXPECT_THAT(Names(""), ElementsAre("copy/a.txt"));
  EXPECT_EQ(ListFiles(Path(""))->left_out.own, 5);
}

TEST_F(FileListTest, WhatToolsKeepIsLeftOutAndCounted) {
  for (const char* name :
       {"a.txt", "node_modules/x/README.md", "p/__pycache__/a.pyc",
        "target/CACHEDIR.TAG", "target/b.txt", "venv/pyvenv.cfg",
        "venv/lib/c.txt", "model/config.json", "model/tokenizer.json",
        "model/model-1-of-2.safetensors", "model/README.md",
        "model/chat_template.jinja", "model/vocab.txt", "model/merges.txt",
        "model/modeling_x.py", "modeling_x.py"}) {
    Write(name);
  }
  EXPECT_THAT(Names(""),
              ElementsAre("a.txt", "model/README.md", "modeling_x.py"));
  EXPECT_EQ(ListFiles(Path(""))->left_out.tools, 11);
  EXPECT_THAT(Names("**/node_modules/**"),
              ElementsAre("node_modules/x/README.md"));
  EXPECT_THAT(Names("target/*.txt"), ElementsAre("b.txt"));
  EXPECT_THAT(Names("venv"), ElementsAre("lib/c.txt", "pyvenv.cfg"));
}

TEST_F(FileListTest, BackupsOfEditorsAreLeftOutAndCounted) {
  for (const char* name : {"note", "note~", "note.bak", "NOTE.BAK", "#note#",
                           "d/note.swp", "d/b.swo", "a#b", "#", "~a"}) {
    Write(name);
  }
  EXPECT_THAT(Names(""), ElementsAre("#", "a#b", "note", "~a"));
  EXPECT_EQ(ListFiles(Path(""))->left_out.tools, 6);
  EXPECT_THAT(Names("*.bak"), ElementsAre("note.bak"));
  EXPECT_THAT(Names("n*"), ElementsAre("note"));
  EXPECT_THAT(Names("*~"), ElementsAre("note~"));
  EXPECT_THAT(Names("note~"), ElementsAre("note~"));
}

TEST_F(FileListTest, WhatOfficesAndCopyingProgramsKeepIsLeftOut) {
  for (const char* name :
       {"note.md", "~$letter.docx", "desktop.ini", "Thumbs.db", "note.md.orig",
        "note.TMP", "note.sync-conflict-20251201-120000-ABCDEFG.md",
        "note (me's conflicted copy 2025-12-01).md", "conflict.md"}) {
    Write(name);
  }
  EXPECT_THAT(Names(""), ElementsAre("conflict.md", "note.md"));
  EXPECT_EQ(ListFiles(Path(""))->left_out.tools, 7);
  EXPECT_THAT(Names("*.orig"), ElementsAre("note.md.orig"));
  EXPECT_THAT(Names("desktop.ini"), ElementsAre("desktop.ini"));
}

TEST_F(FileListTest, WhatDescribesADataSetIsNoPartOfIt) {
  for (const char* name :
       {"hub/README.md", "hub/dataset_infos.json", "hub/train.jsonl",
        "saved/dataset_info.json", "saved/state.json", "mine/state.json",
        "saved_all/dataset_dict.json"}) {
    Write(name);
  }
  EXPECT_THAT(Names(""), ElementsAre("hub/README.md", "hub/train.jsonl",
                                     "mine/state.json"));
  EXPECT_EQ(ListFiles(Path(""))->left_out.tools, 4);
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

TEST_F(FileListTest, LinksToListedFilesAndToFoldersAreCounted) {
  Write("real/a.txt");
  std::filesystem::create_symlink(Path("real/a.txt"), Path("real/link.txt"));
  std::filesystem::create_directory_symlink(Path("real"), Path("real/loop"));
  std::filesystem::create_directory_symlink(Path("real"), Path("top"));
  std::filesystem::create_symlink(Path("real/none"), Path("real/dangling"));
  std::filesystem::create_symlink("itself", Path("real/itself"));
  const auto list = ListFiles(Path("top"));  // the path itself may be a link
  ASSERT_TRUE(list.ok());
  EXPECT_THAT(Names("top"), ElementsAre("a.txt"));
  EXPECT_EQ(list->left_out.links, 4);
}

TEST_F(FileListTest, LinksAreFollowedBelowThePathOnlyAndEachFileOnce) {
  Write("outside.txt");
  Write("real/.store/1", "content");
  std::filesystem::create_symlink(".store/1", Path("real/a.txt"));
  std::filesystem::create_symlink(".store/1", Path("real/b.txt"));
  std::filesystem::create_symlink("../outside.txt", Path("real/c.txt"));
  const auto list = ListFiles(Path("real"));
  ASSERT_EQ(list->files.size(), 1u);
  EXPECT_EQ(list->files[0].name, "a.txt");
  EXPECT_EQ(list->files[0].bytes, 7);
  EXPECT_EQ(list->left_out.links, 2);
  EXPECT_EQ(list->left_out.hidden, 1);
}

TEST_F(FileListTest, LinksToResultsAreNoData) {
  Write("out/loss.csv");
  Write("a.txt");
  std::filesystem::create_symlink("out/loss.csv", Path("latest.csv"));
  ASSERT_TRUE(MarkOutputs(Path("out"), kResultNames).ok());
  EXPECT_THAT(Names(""), ElementsAre("a.txt"));
  EXPECT_EQ(ListFiles(Path(""))->left_out.links, 1);
}

TEST_F(FileListTest, ASnapshotOfTheHubIsReadUnderItsOwnNames) {
  Write("hub/blobs/0a1b", "{}");
  Write("hub/refs/main", "c0");
  std::filesystem::create_directories(Path("hub/snapshots/c0"));
  std::filesystem::create_symlink("../../blobs/0a1b",
                                  Path("hub/snapshots/c0/train.jsonl"));
  EXPECT_THAT(Names("hub/snapshots/c0"), ElementsAre("train.jsonl"));
  EXPECT_THAT(Names("hub/snapshots/c0/*.jsonl"), ElementsAre("train.jsonl"));
  EXPECT_THAT(Names("hub"), ElementsAre("snapshots/c0/train.jsonl"));
  EXPECT_EQ(ListFiles(Path("hub"))->left_out.tools, 2);
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

TEST_F(FileListTest, ATildeThatNoShellExpandedIsExplained) {
  const std::string hint = "; ~ is not expanded here: write ";
  const std::string home = getenv("HOME") == nullptr ? "HOME" : getenv("HOME");
  for (const std::string& path : {std::string("~/none/d"), Path("~/none/d")}) {
    EXPECT_THAT(std::string(ListFiles(path).status().message()),
                EndsWith(hint + home + "/none/d"));
  }
  EXPECT_THAT(std::string(ListFiles(Path("a~/d")).status().message()),
              Not(HasSubstr(hint)));
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
