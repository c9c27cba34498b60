#include "base/atomic_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "base/testing/temp_folder.h"
#include "base/unique_fd.h"

namespace evenstep {
namespace {

int NumEntries(const std::string& folder) {
  int count = 0;
  for ([[maybe_unused]] const auto& entry :
       std::filesystem::directory_iterator(folder)) {
    ++count;
  }
  return count;
}

TEST(AtomicFileTest, ContentIsReplacedWholeAndNothingElseIsLeft) {
  TempFolder folder;
  const std::string path = folder.path() + "/f";
  ASSERT_TRUE(WriteFileAtomically(path, "first, longer").ok());
  ASSERT_TRUE(WriteFileAtomically(path, std::string("a\0b", 3)).ok());
  EXPECT_EQ(*ReadWholeFile(path, 100), std::string("a\0b", 3));
  EXPECT_EQ(NumEntries(folder.path()), 1);
}

TEST(AtomicFileTest, FailedWriteLeavesTheOldFileAndNoTemporary) {
  TempFolder folder;
  const std::string path = folder.path() + "/f";
  std::filesystem::create_directory(path);  // a rename onto it must fail
  EXPECT_FALSE(WriteFileAtomically(path, "x").ok());
  EXPECT_EQ(NumEntries(folder.path()), 1);
  EXPECT_EQ(WriteFileAtomically(folder.path() + "/no/f", "x").code(),
            absl::StatusCode::kNotFound);
}

TEST(AtomicFileTest, AFileInPiecesIsSeenOnceItIsCommitted) {
  TempFolder folder;
  const std::string path = folder.path() + "/f";
  ASSERT_TRUE(WriteFileAtomically(path, "earlier").ok());
  {
    auto writer = AtomicFileWriter::Open(path);
    ASSERT_TRUE(writer.ok()) << writer.status();
    ASSERT_TRUE(writer->Append("one ").ok());
    ASSERT_TRUE(writer->Sync().ok());
    EXPECT_EQ(*ReadWholeFile(path, 100), "earlier");
    EXPECT_EQ(NumEntries(folder.path()), 2);
  }
  EXPECT_EQ(NumEntries(folder.path()), 1) << "given up";
  auto writer = AtomicFileWriter::Open(path);
  ASSERT_TRUE(writer.ok()) << writer.status();
  ASSERT_TRUE(writer->Append("one ").ok());
  ASSERT_TRUE(writer->Append("two").ok());
  ASSERT_TRUE(writer->Commit().ok());
  EXPECT_EQ(*ReadWholeFile(path, 100), "one two");
  EXPECT_EQ(NumEntries(folder.path()), 1);
}

TEST(AtomicFileTest, ReadersSeeOneOfTheWrittenContentsOnly) {
  TempFolder folder;
  const std::string path = folder.path() + "/f";
  ASSERT_TRUE(WriteFileAtomically(path, std::string(5000, 'a')).ok());
  std::vector<std::thread> writers;
  for (const char letter : {'a', 'b'}) {
    writers.emplace_back([&path, letter] {
      for (int i = 0; i < 20; ++i) {
        EXPECT_TRUE(WriteFileAtomically(path, std::string(5000, letter)).ok());
      }
    });
  }
  for (int i = 0; i < 50; ++i) {
    const auto content = ReadWholeFile(path, 10000);
    ASSERT_TRUE(content.ok()) << content.status();
    EXPECT_EQ(*content, std::string(5000, content->at(0)));
  }
  for (std::thread& writer : writers) writer.join();
}

TEST(AtomicFileTest, ReadRefusesWhatIsNoPlainFileOrTooLarge) {
  TempFolder folder;
  const std::string path = folder.path() + "/f";
  ASSERT_TRUE(WriteFileAtomically(path, "12345").ok());
  EXPECT_EQ(ReadWholeFile(path, 4).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(ReadWholeFile(path, 5).ok());
  EXPECT_EQ(ReadWholeFile(folder.path(), 9).status().code(),
            absl::StatusCode::kFailedPrecondition);
  const std::string pipe = folder.path() + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_FALSE(ReadWholeFile(pipe, 9).ok());  // and does not wait for a writer
  EXPECT_EQ(ReadWholeFile("/no/such", 9).status().code(),
            absl::StatusCode::kNotFound);
}

TEST(AtomicFileTest, MakeFoldersMakesParentsAndAcceptsWhatIsThere) {
  TempFolder folder;
  const std::string deep = folder.path() + "/a/b/c";
  EXPECT_TRUE(MakeFolders(deep).ok());
  EXPECT_TRUE(MakeFolders(deep).ok());
  ASSERT_TRUE(WriteFileAtomically(folder.path() + "/file", "").ok());
  EXPECT_FALSE(MakeFolders(folder.path() + "/file/x").ok());
}

TEST(UniqueFdTest, ClosesOnceAndMovesOwnership) {
  int raw = -1;
  {
    UniqueFd first(open("/dev/null", O_RDONLY));
    raw = first.get();
    UniqueFd second(std::move(first));
    EXPECT_FALSE(first.valid());
    EXPECT_EQ(second.get(), raw);
    EXPECT_NE(fcntl(raw, F_GETFD), -1);
  }
  EXPECT_EQ(fcntl(raw, F_GETFD), -1);
}

}  // namespace
}  // namespace evenstep
