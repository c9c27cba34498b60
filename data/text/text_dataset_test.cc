#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/testing/temp_folder.h"
#include "data/dataset.h"
#include "data/sample_rules.h"
#include "data/testing/packed_bytes.h"
#include "data/text/file_list.h"
#include "data/text/tokenizer.h"

namespace evenstep::data {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

// Trained on header files; its ctest entry names the source folder.
const std::string kHeadersModel = absl::StrCat(
    getenv("EVENSTEP_SOURCE_DIR") == nullptr ? "."
                                             : getenv("EVENSTEP_SOURCE_DIR"),
    "/examples/text/headers.model");

class TextDatasetTest : public ::testing::Test {
 protected:
  TextDatasetTest() {
    options_.source = absl::StrCat("text:", folder_.path());
    options_.max_length = 100;
    options_.on_too_long = OnTooLong::kSkip;
    options_.on_bad_sample = OnBadSample::kSkip;
    options_.cache_dir = cache_.path();
  }

  std::string Path(const std::string& name) const {
    return folder_.path() + "/" + name;
  }
  void Write(const std::string& name, const std::string& content) const {
    std::filesystem::create_directories(
        std::filesystem::path(Path(name)).parent_path());
    std::ofstream(Path(name), std::ios::binary) << content;
  }
  absl::StatusOr<std::unique_ptr<Dataset>> Open() const {
    return OpenDataset(options_);
  }
  std::string OpenError() const {
    return std::string(Open().status().message());
  }
  static std::vector<std::string> IndexFiles(const std::string& folder) {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      const std::string name = entry.path().filename();
      if (name.rfind(std::string(kIndexFilePrefix), 0) == 0) {
        names.push_back(entry.path());
      }
    }
    return names;
  }

  // Not the temporary files of those who are writing.
  void RemoveIndex() const {
    for (const std::string& path : IndexFiles(cache_.path())) {
      std::error_code ignored;
      if (path.ends_with(".bin")) std::filesystem::remove(path, ignored);
    }
  }

  TempFolder folder_;
  TempFolder cache_;
  DatasetOptions options_;
};

TEST_F(TextDatasetTest, DocumentIsItsBytesAndAnEndToken) {
  Write("a", "h\xc3\xa9");
  const auto data = Open();
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ((*data)->Length(0), 4);
  EXPECT_EQ((*data)->TrainedTokens(0), 3);
  const auto sample = (*data)->Read(0);
  ASSERT_TRUE(sample.ok()) << sample.status();
  EXPECT_THAT(sample->tokens, ElementsAre('h', 0xc3, 0xa9, kEndToken));
  EXPECT_THAT(sample->targets,
              ElementsAre(0xc3, 0xa9, kEndToken, kIgnoredTarget));
}

TEST_F(TextDatasetTest, DocumentsStandInOrderOfNamesAndAreCounted) {
  Write("b", "22");
  Write("a/x", "1");
  Write("c", "");
  Write("d", std::string(100, 'd'));  // 101 tokens
  Write("e", std::string(99, 'e'));   // 100 tokens
  const auto data = Open();
  ASSERT_TRUE(data.ok()) << data.status();
  const DatasetSummary& summary = (*data)->summary();
  EXPECT_EQ(summary.num_samples, 3);
  EXPECT_EQ(summary.num_bad, 1);
  EXPECT_EQ(summary.num_too_long, 1);
  EXPECT_EQ(summary.num_truncated, 0);
  EXPECT_EQ(summary.longest, 100);
  EXPECT_EQ(summary.total_tokens, 2 + 3 + 100);
  EXPECT_EQ((*data)->Name(0), Path("a/x"));
  EXPECT_EQ((*data)->Name(2), Path("e"));
}

TEST_F(TextDatasetTest, TruncateCutsToMaxLengthAndCounts) {
  options_.max_length = 4;
  options_.on_too_long = OnTooLong::kTruncate;
  Write("a", "abc");
  Write("b", "abcdef");
  const auto data = Open();
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ((*data)->summary().num_truncated, 1);
  EXPECT_EQ((*data)->summary().num_too_long, 0);
  EXPECT_THAT((*data)->Read(0)->tokens, ElementsAre('a', 'b', 'c', kEndToken));
  const SampleTokens cut = *(*data)->Read(1);
  EXPECT_THAT(cut.tokens, ElementsAre('a', 'b', 'c', 'd'));
  EXPECT_THAT(cut.targets, ElementsAre('b', 'c', 'd', kIgnoredTarget));
  EXPECT_EQ((*data)->Length(1), 4);
  EXPECT_EQ((*data)->TrainedTokens(1), 3);
}

TEST_F(TextDatasetTest, TooLongFailsWithNamesNumbersAndAWayOut) {
  options_.on_too_long = OnTooLong::kFail;
  Write("short", "x");
  Write("long", std::string(100, 'x'));
  EXPECT_EQ(Open().status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(OpenError(),
              AllOf(HasSubstr("1 sample of"),
                    HasSubstr("is longer than max_length 100"),
                    HasSubstr("long: 101 tokens"), HasSubstr("on_too_long")));
}

TEST_F(TextDatasetTest, ALargeFileOfTextIsToBeSplit) {
  const std::string hint =
      ". A file of text is one document: split a large one (`split -C 99 FILE "
      "part-`), or write its pieces as JSONL";
  Write("input.txt", std::string(5000, 'x'));
  EXPECT_THAT(
      OpenError(),
      HasSubstr("1 longer than max_length 100: input.txt: 5001 tokens" + hint));
  options_.on_too_long = OnTooLong::kFail;
  EXPECT_THAT(OpenError(), HasSubstr(hint));
  std::filesystem::remove(Path("input.txt"));
  Write("d.jsonl", absl::StrCat("{\"text\": \"", std::string(300, 'x'), "\"}"));
  EXPECT_THAT(OpenError(), AllOf(HasSubstr("d.jsonl:1: 301 tokens"),
                                 Not(HasSubstr("split"))));
}

TEST_F(TextDatasetTest, TokensThatAreLeftOutAreCounted) {
  Write("a", std::string(9, 'a'));
  Write("b", std::string(999, 'b'));
  EXPECT_EQ((*Open())->summary().tokens_left_out, 1000);
  EXPECT_EQ((*Open())->summary().num_long_files, 1);
  options_.on_too_long = OnTooLong::kTruncate;
  EXPECT_EQ((*Open())->summary().tokens_left_out, 900);
}

TEST_F(TextDatasetTest, FilesWithoutADocumentAreCountedWithTheirBytes) {
  Write("README.md", "card");
  Write("train.parquet", absl::StrCat("PAR1\x15", std::string(95, '\0')));
  Write("stats.json", "{\"a\": 1}");
  Write("d.jsonl", "{\"text\": \"a\"}\nbad\n");
  for (int run = 0; run < 2; ++run) {  // by the index, the second time
    const UnreadFiles unread = (*Open())->summary().unread;
    EXPECT_EQ(unread.num_files, 2);
    EXPECT_EQ(unread.bytes, 100 + 8);
    EXPECT_EQ(unread.bytes_read, 4 + 18);
    EXPECT_EQ(unread.largest, "train.parquet");
  }
}

TEST_F(TextDatasetTest, SamplesThatAreBadForTheSameReasonAreNamedTogether) {
  options_.on_bad_sample = OnBadSample::kFail;
  Write("a", "");
  Write("b", "");
  Write("d.jsonl", "{\"x\": 1}\n{\"x\": 1}\n{\"text\": \"a\"}\n{\"x\": 1}\n");
  EXPECT_THAT(OpenError(),
              HasSubstr("5 bad samples in " + options_.source +
                        ": a, b: empty; d.jsonl:1-2, d.jsonl:4: there is no "
                        "`text`, `messages` or `prompt`; the record has `x` "
                        "(data.on_bad_sample"));
}

TEST_F(TextDatasetTest, BracketsThatAreMeantAsTheyAreAreExplained) {
  Write("Notes [2024]/a.txt", "a");
  options_.source = absl::StrCat("text:", Path("Notes [2024]/*.txt"));
  EXPECT_THAT(OpenError(),
              HasSubstr("there are no files; [ ] is a set of characters: write "
                        "[[] for a bracket, as in " +
                        Path("Notes [[]2024]/*.txt")));
  options_.source = absl::StrCat("text:", Path("Notes [[]2024]/*.txt"));
  EXPECT_EQ((*Open())->summary().num_samples, 1);
}

TEST_F(TextDatasetTest, BadSamplesFailWithNamesReasonsAndTheirNumber) {
  options_.on_bad_sample = OnBadSample::kFail;
  for (int i = 0; i < 7; ++i) Write(absl::StrCat("empty", i), "");
  Write("good", "x");
  EXPECT_EQ(Open().status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(OpenError(),
              AllOf(HasSubstr("7 bad samples"), HasSubstr("empty0, empty1, "),
                    HasSubstr("empty4 and 2 more: empty (`evenstep data "
                              "inspect --list-bad` names all; "
                              "data.on_bad_sample: skip")));
}

TEST_F(TextDatasetTest, AllBadSamplesAreNamedAlsoByAnIndexThatIsUsedAgain) {
  for (int i = 0; i < 7; ++i) Write(absl::StrCat("empty", i), "");
  Write("line\nend", "");
  Write("good", "x");
  for (int run = 0; run < 2; ++run) {
    const auto data = Open();
    ASSERT_TRUE(data.ok()) << data.status();
    const auto named = (*data)->BadSamples();
    ASSERT_EQ(named.size(), 8u) << run;
    EXPECT_EQ(named[6], "empty6: empty");
    EXPECT_EQ(named[7], "line\\nend: empty");
  }
}

TEST_F(TextDatasetTest, TheLogNamesManyBadSamplesAndCountsTheOthers) {
  std::string lines = "{\"text\": \"a\"}\n";
  for (int i = 0; i < 503; ++i) lines += "bad\n";
  Write("d.jsonl", lines);
  const auto data = Open();
  ASSERT_TRUE(data.ok()) << data.status();
  testing::internal::CaptureStderr();
  LogBadSamples(**data);
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("d.jsonl:2: not JSON"));
  EXPECT_THAT(log, HasSubstr("d.jsonl:501: not JSON"));
  EXPECT_THAT(log, Not(HasSubstr("d.jsonl:502: not JSON")));
  EXPECT_THAT(log, ContainsRegex("data_bad_samples_not_named.*count=3"));
}

TEST_F(TextDatasetTest, ASourceWithoutASampleIsOpenedOnlyWhereThatIsAskedFor) {
  for (int i = 0; i < 7; ++i) Write(absl::StrCat("empty", i), "");
  EXPECT_THAT(OpenError(),
              AllOf(HasSubstr("no sample is left"), HasSubstr("and 2 more")));
  options_.may_be_empty = true;
  const auto data = Open();
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ((*data)->summary().num_samples, 0);
  EXPECT_EQ((*data)->BadSamples().size(), 7u);
}

TEST_F(TextDatasetTest, PipesAreBadSamplesAndNeverOpened) {
  Write("good", "x");
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  const auto data = Open();
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ((*data)->summary().num_bad, 1);
  EXPECT_EQ((*data)->summary().num_samples, 1);
}

// What is no text is not read on.
TEST_F(TextDatasetTest, HugeFilesAreLookedAtAndNotRead) {
  Write("good", "x");
  Write("huge", "start");
  std::filesystem::resize_file(Path("huge"), uint64_t{1} << 40);  // sparse
  const auto data = Open();
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ((*data)->summary().num_bad, 1);
}

TEST_F(TextDatasetTest, EntriesThatAreNoDataAreCounted) {
  Write("a", "x");
  Write(".git/HEAD", "ref: refs/heads/main");
  Write("node_modules/b", "x");
  std::filesystem::create_symlink("/etc/passwd", Path("link"));
  const auto data = Open();
  ASSERT_TRUE(data.ok()) << data.status();
  const LeftOut& left_out = (*data)->summary().left_out;
  EXPECT_EQ((*data)->summary().num_samples, 1);
  EXPECT_EQ(left_out.hidden, 1);
  EXPECT_EQ(left_out.tools, 1);
  EXPECT_EQ(left_out.links, 1);
  EXPECT_EQ(left_out.own, 0);
  std::filesystem::remove(Path("a"));
  EXPECT_THAT(OpenError(),
              HasSubstr("there are no files; left out: 1 hidden entry, 1 entry "
                        "of a tool or a model, 1 link that is not followed"));
}

TEST_F(TextDatasetTest, OnlyTextIsADocumentAndTheRestIsBadByName) {
  options_.on_bad_sample = OnBadSample::kFail;
  Write("a.parquet", std::string("PAR1\0\0", 6));
  Write("b.txt", "caf\xe9");
  Write("c.txt", std::string(70000, 'x') + std::string(1, '\0'));
  Write("d.jsonl", "\xff\xfe{");
  Write("good", "x");
  EXPECT_THAT(
      OpenError(),
      AllOf(HasSubstr("4 bad samples"),
            HasSubstr("a.parquet: Parquet: not read; convert it to JSONL"),
            HasSubstr("b.txt: byte 4 is 0xe9, which is not UTF-8"),
            HasSubstr("c.txt: a NUL at byte 70001"),
            HasSubstr("d.jsonl: UTF-16 text")));
  // A tokenizer changes none of it.
  const std::string error = OpenError();
  options_.tokenizer = kHeadersModel;
  EXPECT_EQ(OpenError(), error);
}

TEST_F(TextDatasetTest, AMarkOfUtf8IsNoPartOfTheText) {
  Write("a", "\xef\xbb\xbfxy");
  Write("b.gz", Gzip("\xef\xbb\xbfxy"));
  Write("c.jsonl", "\xef\xbb\xbf{\"text\": \"xy\"}\n");
  Write("d", "\xef\xbb\xbf");
  for (const std::string& tokenizer : {std::string(), kHeadersModel}) {
    options_.tokenizer = tokenizer;
    const auto data = Open();
    ASSERT_TRUE(data.ok()) << data.status();
    ASSERT_EQ((*data)->summary().num_samples, 3);
    EXPECT_EQ((*data)->summary().num_bad, 1);
    for (int64_t i = 0; i < 3; ++i) {
      const auto sample = (*data)->Read(i);
      ASSERT_TRUE(sample.ok()) << sample.status();
      EXPECT_EQ((*OpenTokenizer(tokenizer))->Decode(sample->tokens).value(),
                "xy");
    }
  }
}

TEST_F(TextDatasetTest, CompressedTextIsReadInAnyOrder) {
  std::string lines;
  for (int i = 0; i < 50; ++i) {
    absl::StrAppend(&lines, i % 7 == 3 ? "\n" : "", "{\"text\": \"row ", i,
                    "\"}\n");
  }
  Write("a.jsonl.gz", Gzip(lines));
  Write("b.jsonl.zst", Zstd(lines));
  Write("c.json.gz", Gzip("[{\"text\": \"row 0\"}, {\"text\": \"row 1\"}]"));
  Write("d.txt.zst", Zstd("prose that is longer than twenty tokens"));
  Write("e.txt", "plain");
  options_.max_length = 20;
  options_.on_too_long = OnTooLong::kTruncate;
  const auto data = Open();
  ASSERT_TRUE(data.ok()) << data.status();
  ASSERT_EQ((*data)->summary().num_samples, 104);
  EXPECT_EQ((*data)->summary().num_bad, 0);
  EXPECT_EQ((*data)->summary().num_truncated, 1);
  const auto text = [&](int64_t document) {
    const auto sample = (*data)->Read(document);
    EXPECT_TRUE(sample.ok()) << sample.status();
    EXPECT_EQ(static_cast<int64_t>(sample->tokens.size()),
              (*data)->Length(document));
    return ByteTokenizer()->Decode(sample->tokens).value();
  };
  for (int i = 49; i >= 0; --i) {
    EXPECT_EQ(text(i), absl::StrCat("row ", i));
    EXPECT_EQ(text(50 + i), absl::StrCat("row ", i));
  }
  EXPECT_EQ(text(101), "row 1");
  EXPECT_EQ(text(102), "prose that is longer");
  EXPECT_EQ((*data)->Name(102), Path("d.txt.zst"));
  // What is unpacked stays; what is not has to be what was indexed.
  const auto packed = Open();
  Write("a.jsonl.gz", Gzip("{\"text\": \"ROW 0\"}\n{\"text\": \"row 1\"}\n"));
  EXPECT_EQ(text(3), "row 3");
  EXPECT_EQ((*packed)->Read(0).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE((*packed)->Read(1).ok());
  EXPECT_EQ((*packed)->Read(3).status().code(), absl::StatusCode::kDataLoss);
}

// The start deadline follows the reports, and Ctrl-C is seen by them.
TEST_F(TextDatasetTest, IndexingIsReportedAndCanBeEndedWithinAFile) {
  std::string lines;
  for (int i = 0; i < 40'000; ++i) {
    absl::StrAppend(&lines, "{\"text\": \"", std::string(90, 'x'), "\"}\n");
  }
  Write("plain.jsonl", lines);
  Write("packed.jsonl.gz", Gzip(lines));
  for (const char* const name : {"plain.jsonl", "packed.jsonl.gz"}) {
    int num_reports = 0;
    options_.source = absl::StrCat("text:", Path(name));
    options_.progress = [&](const IndexProgress&) {
      return ++num_reports < 3 ? absl::OkStatus()
                               : absl::CancelledError("enough");
    };
    EXPECT_TRUE(absl::IsCancelled(Open().status())) << name;
    EXPECT_EQ(num_reports, 3) << name;
  }
}

TEST_F(TextDatasetTest, RecordsOfAListAreDocuments) {
  Write("a.json",
        "[\n  {\"text\": \"ab\"},\n  {\"txt\": 1},\n"
        "  {\"text\": \"cd\"}\n]\n");
  Write("package.json", "{\"name\": \"x\"}");
  const auto data = Open();
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ((*data)->summary().num_samples, 2);
  EXPECT_EQ((*data)->summary().num_bad, 1);
  EXPECT_EQ((*data)->Name(1), absl::StrCat(Path("a.json"), ":3"));
  EXPECT_THAT((*data)->Read(1)->tokens, ElementsAre('c', 'd', kEndToken));
}

TEST_F(TextDatasetTest, JsonWithoutRecordsIsLeftOutCountedAndNeverProse) {
  Write("a.txt", "a");
  Write("data.json", "{\"data\": [{\"text\": \"a\"}]}");
  Write("stats.json", "[1, 2]");
  Write("package.json.gz", Gzip("{\"name\": \"x\"}"));
  for (int run = 0; run < 2; ++run) {  // by the index, the second time
    const auto data = Open();
    ASSERT_TRUE(data.ok()) << data.status();
    EXPECT_EQ((*data)->summary().num_samples, 1);
    EXPECT_EQ((*data)->summary().num_bad, 0);
    EXPECT_EQ((*data)->summary().left_out.json, 3);
    EXPECT_THAT((*data)->LeftOutJson(/*foreign=*/false, 9),
                ElementsAre(HasSubstr("data.json: JSON without records: they "
                                      "may be those in `data`"),
                            HasSubstr("package.json.gz: JSON without records: "
                                      "an object with `name`"),
                            HasSubstr("stats.json: ")));
    EXPECT_THAT((*data)->LeftOutJson(/*foreign=*/true, 9),
                ElementsAre(HasSubstr("data.json: ")));
  }
  std::filesystem::remove(Path("a.txt"));
  EXPECT_THAT(OpenError(), HasSubstr("; left out: 3 JSON files without "
                                     "records"));
  // A file that is named is not left out.
  options_.source = absl::StrCat("text:", Path("data.json"));
  options_.on_bad_sample = OnBadSample::kFail;
  EXPECT_THAT(OpenError(), HasSubstr("1 bad sample in"));
  EXPECT_THAT(OpenError(), HasSubstr("data.json: JSON without records"));
}

TEST_F(TextDatasetTest, ANulMakesItsLineBadAndNoOther) {
  Write("d.jsonl", std::string("{\"text\": \"a\"}\0{\"text\": \"b\"}\n"
                               "{\"text\": \"cd\"}\n",
                               43));
  const auto data = Open();
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ((*data)->summary().num_samples, 1);
  EXPECT_EQ((*data)->summary().num_bad, 1);
  EXPECT_THAT((*data)->Read(0)->tokens, ElementsAre('c', 'd', kEndToken));
  options_.on_bad_sample = OnBadSample::kFail;
  EXPECT_THAT(OpenError(), HasSubstr("d.jsonl:1: a NUL at byte 14"));
}

TEST_F(TextDatasetTest, AListThatIsCutOffIsBadAfterItsRecords) {
  options_.on_bad_sample = OnBadSample::kFail;
  Write("a.json", "[{\"text\": \"ab\"}, {\"text\"");
  EXPECT_THAT(OpenError(),
              AllOf(HasSubstr("2 bad samples"),
                    HasSubstr("a.json:2: cut off: the record ends"),
                    HasSubstr("a.json: cut off: the list of records is not "
                              "closed at the end of the file, byte 24")));
}

TEST_F(TextDatasetTest, JsonLinesAreDocumentsOfTheirOwn) {
  Write("d.jsonl",
        "{\"text\": \"ab\"}\n\nnot json\n{\"text\": \"\"}\n"
        "{\"text\": \"\\u00e9\", \"x\": 1}");
  const auto data = Open();
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ((*data)->summary().num_samples, 2);
  EXPECT_EQ((*data)->summary().num_bad, 2);
  EXPECT_THAT((*data)->Read(0)->tokens, ElementsAre('a', 'b', kEndToken));
  EXPECT_THAT((*data)->Read(1)->tokens, ElementsAre(0xc3, 0xa9, kEndToken));
  EXPECT_EQ((*data)->Name(1), absl::StrCat(Path("d.jsonl"), ":5"));
  options_.on_bad_sample = OnBadSample::kFail;
  EXPECT_THAT(OpenError(),
              AllOf(HasSubstr("d.jsonl:3: not JSON: `n` at byte 1"),
                    HasSubstr("d.jsonl:4: empty")));
}

TEST_F(TextDatasetTest, LongJsonTextIsTruncatedToo) {
  options_.max_length = 3;
  options_.on_too_long = OnTooLong::kTruncate;
  Write("d.jsonl", "{\"text\": \"abcdef\"}\n");
  const auto data = Open();
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_THAT((*data)->Read(0)->tokens, ElementsAre('a', 'b', 'c'));
}

TEST_F(TextDatasetTest, MaskedTokensHaveNoTargetAndAreNotCounted) {
  Write("d.jsonl", R"({"prompt": "ab", "completion": "cd"})");
  const auto data = Open();
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ((*data)->Length(0), 5);
  EXPECT_EQ((*data)->TrainedTokens(0), 3);
  const SampleTokens sample = *(*data)->Read(0);
  EXPECT_THAT(sample.tokens, ElementsAre('a', 'b', 'c', 'd', kEndToken));
  EXPECT_THAT(sample.targets,
              ElementsAre(kIgnoredTarget, 'c', 'd', kEndToken, kIgnoredTarget));
}

TEST_F(TextDatasetTest, APromptThatFillsMaxLengthLeavesNothingToTrain) {
  options_.max_length = 3;
  options_.on_too_long = OnTooLong::kTruncate;
  Write("d.jsonl", R"({"prompt": "abcdef", "completion": "g"})");
  const auto data = Open();
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ((*data)->summary().num_truncated, 1);
  EXPECT_EQ((*data)->TrainedTokens(0), 0);
  EXPECT_THAT((*data)->Read(0)->targets,
              ElementsAre(kIgnoredTarget, kIgnoredTarget, kIgnoredTarget));
}

TEST_F(TextDatasetTest, RealTokensCountAndNoWidthThatALineIsPaddedTo) {
  options_.max_length = 8192;
  options_.on_too_long = OnTooLong::kFail;
  std::string mask = "1";
  for (int i = 1; i < 100000; ++i) mask += i < 300 ? ",1" : ",0";
  Write("d.jsonl", absl::StrCat("{\"text\": \"", std::string(299, 'x'),
                                "\", \"mask\": [", mask, "]}\n"));
  const auto data = Open();
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ((*data)->Length(0), 300);
}

TEST_F(TextDatasetTest, PiecesOfATokenizerAreTokens) {
  options_.tokenizer = kHeadersModel;
  Write("a", "#include <string>\n");
  Write("d.jsonl", R"({"prompt": "#include ", "completion": "<string>\n"})");
  const auto data = Open();
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ((*data)->Vocab(), 512);
  for (int64_t i = 0; i < 2; ++i) {
    const SampleTokens sample = *(*data)->Read(i);
    EXPECT_EQ(static_cast<int64_t>(sample.tokens.size()), (*data)->Length(i));
    EXPECT_LT(sample.tokens.size(), 18u);
    EXPECT_EQ((*OpenTokenizer(kHeadersModel))->Decode(sample.tokens).value(),
              "#include <string>\n");
    EXPECT_EQ(std::count_if(sample.targets.begin(), sample.targets.end(),
                            [](int32_t t) { return t != kIgnoredTarget; }),
              (*data)->TrainedTokens(i));
  }
  EXPECT_LT((*data)->TrainedTokens(1), (*data)->TrainedTokens(0));
}

TEST_F(TextDatasetTest, ATokenizersIndexIsUsedAgainUntilTheModelChanges) {
  options_.tokenizer =
      Path("../") + "model-" +
      std::filesystem::path(folder_.path()).filename().string();
  const std::string model = *ReadWholeFile(kHeadersModel, 1 << 20);
  ASSERT_TRUE(WriteFileAtomically(options_.tokenizer, model).ok());
  Write("a", "#include <string>\n");
  ASSERT_TRUE(Open().ok());
  const std::string path = IndexFiles(cache_.path())[0];
  const auto written = std::filesystem::last_write_time(path);
  const uint64_t key = (*Open())->summary().content_key;
  EXPECT_EQ(std::filesystem::last_write_time(path), written);
  // An unknown field at its end: other bytes, the same pieces.
  ASSERT_TRUE(
      WriteFileAtomically(options_.tokenizer, model + "\xf8\x3f\x01").ok());
  const auto data = Open();
  std::filesystem::remove(options_.tokenizer);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_NE(std::filesystem::last_write_time(path), written);
  EXPECT_NE((*data)->summary().content_key, key);
}

TEST_F(TextDatasetTest, ContentKeySeesOtherWordsOfTheSameLength) {
  Write("d.jsonl", "{\"text\": \"ab\"}\n");
  const uint64_t key = (*Open())->summary().content_key;
  Write("d.jsonl", "{\"text\": \"xy\"}\n");
  EXPECT_NE((*Open())->summary().content_key, key);
}

TEST_F(TextDatasetTest, ContentKeySeesOtherBytesOfPlainFiles) {
  Write("a", "one");
  Write("b", "two");
  const uint64_t key = (*Open())->summary().content_key;
  Write("b", "owt");
  std::filesystem::last_write_time(
      Path("b"),
      std::filesystem::file_time_type::clock::now() + std::chrono::hours(1));
  EXPECT_NE((*Open())->summary().content_key, key);
}

TEST_F(TextDatasetTest, TokenizersThatAreNoneAreNamed) {
  Write("a", "x");
  options_.tokenizer = Path("a");
  EXPECT_EQ(Open().status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(OpenError(), HasSubstr(Path("a")));
  options_.tokenizer = Path("none");
  EXPECT_EQ(Open().status().code(), absl::StatusCode::kNotFound);
}

TEST_F(TextDatasetTest, NothingLeftIsAnErrorThatNamesWhatIsBad) {
  EXPECT_THAT(OpenError(), HasSubstr("no sample is left"));
  Write("empty", "");
  EXPECT_EQ(Open().status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(OpenError(), HasSubstr("1 bad: empty: empty"));
}

TEST_F(TextDatasetTest, WrongSourcesAreRefused) {
  options_.source = "clay:/x";
  EXPECT_EQ(Open().status().code(), absl::StatusCode::kInvalidArgument);
  options_.source = "text:/no/such/folder";
  EXPECT_EQ(Open().status().code(), absl::StatusCode::kNotFound);
  options_.source = "text:";
  EXPECT_EQ(Open().status().code(), absl::StatusCode::kInvalidArgument);
  options_.source = absl::StrCat("text:", folder_.path());
  options_.max_length = 0;
  EXPECT_EQ(Open().status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(TextDatasetTest, BytesThatChangedSinceIndexingAreDataLossByName) {
  Write("a", "before");
  Write("b", "stays");
  Write("c", "vanishes");
  Write("d", "is cut");
  const auto data = Open();
  ASSERT_TRUE(data.ok());
  Write("a", "beford");
  std::filesystem::remove(Path("c"));
  Write("d", "is");
  EXPECT_EQ((*data)->Read(0).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT((*data)->Read(0).status().ToString(),
              HasSubstr(Path("a") + " changed since it was indexed"));
  EXPECT_TRUE((*data)->Read(1).ok());
  EXPECT_EQ((*data)->Read(2).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(
      (*data)->Read(3).status().ToString(),
      AllOf(HasSubstr(Path("d") + " was cut"), HasSubstr("from 6 to 2 bytes")));
}

void Touch(const std::string& path) {
  std::filesystem::last_write_time(
      path,
      std::filesystem::file_time_type::clock::now() + std::chrono::hours(1));
}

TEST_F(TextDatasetTest, TouchedAndGrownFilesAreReadOn) {
  Write("a", "touched");
  Write("b.jsonl", "{\"text\": \"one\"}\n{\"text\": \"two\"}");
  Write("c", "grows");
  const auto data = Open();
  ASSERT_TRUE(data.ok());
  const std::vector<int32_t> two = (*data)->Read(2)->tokens;
  Touch(Path("a"));
  std::ofstream(Path("b.jsonl"), std::ios::app) << "\n{\"text\": \"three\"}\n";
  std::ofstream(Path("c"), std::ios::app) << " longer";
  for (int64_t i = 0; i < 4; ++i) {
    EXPECT_TRUE((*data)->Read(i).ok()) << (*data)->Read(i).status();
  }
  EXPECT_EQ((*data)->Read(2)->tokens, two);
  EXPECT_EQ((*data)->Read(3)->tokens.size(), 6u);
  // A job that starts now sees what is there now.
  EXPECT_EQ((*Open())->summary().num_samples, 5);
}

TEST_F(TextDatasetTest, ALineThatChangedIsNamedAndTheOthersAreReadOn) {
  Write("d.jsonl", "{\"text\": \"one\"}\n{\"text\": \"two\"}\n");
  const auto data = Open();
  ASSERT_TRUE(data.ok());
  Write("d.jsonl", "{\"text\": \"one\"}\n{\"text\": \"TWO\"}\n");
  EXPECT_TRUE((*data)->Read(0).ok());
  EXPECT_EQ((*data)->Read(1).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT((*data)->Read(1).status().ToString(),
              HasSubstr(Path("d.jsonl") + ":2 changed since"));
}

TEST_F(TextDatasetTest, OneIndexServesEveryLengthAndRule) {
  Write("a", "abc");
  Write("b.jsonl", R"({"prompt": "abc", "completion": "defg"})");
  Write("c", "");
  const auto first = Open();
  ASSERT_TRUE(first.ok());
  EXPECT_EQ((*first)->TrainedTokens(1), 5);
  options_.progress = [](const IndexProgress&) {
    return absl::InternalError("it is indexed again");
  };
  options_.on_too_long = OnTooLong::kTruncate;
  for (int64_t length = 1; length <= 8; ++length) {
    options_.max_length = length;
    const auto data = Open();
    ASSERT_TRUE(data.ok()) << data.status();
    for (int64_t i = 0; i < 2; ++i) {
      const SampleTokens sample = *(*data)->Read(i);
      EXPECT_EQ(static_cast<int64_t>(sample.tokens.size()), (*data)->Length(i));
      EXPECT_EQ(std::count_if(sample.targets.begin(), sample.targets.end(),
                              [](int32_t t) { return t != kIgnoredTarget; }),
                (*data)->TrainedTokens(i))
          << length;
    }
    EXPECT_NE((*data)->summary().content_key, (*first)->summary().content_key);
  }
  options_.max_length = 5;
  options_.on_too_long = OnTooLong::kSkip;
  EXPECT_EQ((*Open())->summary().num_too_long, 1);
  options_.on_too_long = OnTooLong::kFail;
  EXPECT_THAT(OpenError(), HasSubstr("b.jsonl:1: 8 tokens"));
  options_.on_bad_sample = OnBadSample::kFail;
  EXPECT_THAT(OpenError(), HasSubstr("c: empty"));
  EXPECT_THAT(IndexFiles(cache_.path()), SizeIs(1));
}

TEST_F(TextDatasetTest, DocumentsOutsideTheIndexAreRefused) {
  Write("a", "x");
  const auto data = Open();
  EXPECT_FALSE((*data)->Read(-1).ok());
  EXPECT_FALSE((*data)->Read(1).ok());
}

TEST_F(TextDatasetTest, ContentKeyIsTheSameWhereTheDataIsAndDiffersOtherwise) {
  Write("x/a", "one");
  Write("x/b", "two!");
  Write("y/a", "one");
  Write("y/b", "two!");
  std::filesystem::last_write_time(
      Path("y/b"),
      std::filesystem::file_time_type::clock::now() - std::chrono::hours(5));
  const auto key = [&](const std::string& sub) {
    DatasetOptions options = options_;
    options.source = absl::StrCat("text:", Path(sub));
    const auto data = OpenDataset(options);
    EXPECT_TRUE(data.ok()) << data.status();
    return (*data)->summary().content_key;
  };
  const uint64_t x = key("x");
  EXPECT_EQ(key("y"), x);  // another prefix, other times
  options_.max_length = 50;
  EXPECT_NE(key("x"), x);
  options_.max_length = 100;
  Write("y/b", "two");
  EXPECT_NE(key("y"), x);
  Write("y/b", "two!");
  EXPECT_EQ(key("y"), x);
  std::filesystem::rename(Path("y/b"), Path("y/c"));
  EXPECT_NE(key("y"), x);
}

TEST_F(TextDatasetTest, IndexIsKeptBesideTheDataAndIsNoDocument) {
  options_.cache_dir.clear();
  Write("a", "x");
  ASSERT_TRUE(Open().ok());
  ASSERT_THAT(IndexFiles(folder_.path()), SizeIs(1));
  const auto again = Open();
  EXPECT_EQ((*again)->summary().num_samples, 1);
  EXPECT_THAT(IndexFiles(folder_.path()), SizeIs(1));
}

TEST_F(TextDatasetTest, IndexGoesToTheHomeCacheWhereTheFolderIsNotTheUsersOwn) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to become another user";
  options_.cache_dir.clear();
  Write("a", "x");
  const char* const before = getenv("XDG_CACHE_HOME");
  const std::string kept = before == nullptr ? "" : before;
  setenv("XDG_CACHE_HOME", cache_.path().c_str(), 1);
  ASSERT_EQ(chmod(cache_.path().c_str(), 0777), 0);
  ASSERT_EQ(chmod(folder_.path().c_str(), 0777), 0);  // writable all the same
  ASSERT_EQ(seteuid(65534), 0);
  const auto data = Open();
  EXPECT_EQ(seteuid(0), 0);
  if (before == nullptr) {
    unsetenv("XDG_CACHE_HOME");
  } else {
    setenv("XDG_CACHE_HOME", kept.c_str(), 1);
  }
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_THAT(IndexFiles(folder_.path()), IsEmpty());
  EXPECT_THAT(IndexFiles(cache_.path() + "/evenstep/index"), SizeIs(1));
}

TEST_F(TextDatasetTest, DataStillOpensWhereNoIndexCanBeKept) {
  Write("a", "x");
  options_.cache_dir = Path("a") + "/below-a-file";
  const auto data = Open();
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_TRUE((*data)->Read(0).ok());
}

TEST_F(TextDatasetTest, SoundIndexIsUsedAndChangedFilesAreSeen) {
  Write("d.jsonl", "{\"text\": \"ab\"}\n");
  ASSERT_TRUE(Open().ok());
  const std::string path = IndexFiles(cache_.path())[0];
  const auto written = std::filesystem::last_write_time(path);
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(std::filesystem::last_write_time(path), written);
  Write("d.jsonl", "{\"text\": \"abc\"}\n");
  const auto data = Open();
  EXPECT_EQ((*data)->Length(0), 4);
  EXPECT_THAT(IndexFiles(cache_.path()), SizeIs(1));
}

TEST_F(TextDatasetTest, DamagedIndexIsMadeAgain) {
  Write("a", "xyz");
  ASSERT_TRUE(Open().ok());
  const std::string path = IndexFiles(cache_.path())[0];
  const std::string sound = *ReadWholeFile(path, 1 << 20);
  std::vector<std::string> damages = {"",
                                      "x",
                                      sound.substr(0, 100),
                                      sound.substr(0, sound.size() - 1),
                                      sound + "x",
                                      std::string(5000, '\xff')};
  std::string flipped = sound;
  flipped[100] ^= 4;
  damages.push_back(flipped);
  for (const std::string& damage : damages) {
    std::ofstream(path, std::ios::binary) << damage;
    const auto data = Open();
    ASSERT_TRUE(data.ok()) << data.status();
    EXPECT_EQ((*data)->Length(0), 4);
    EXPECT_EQ(*ReadWholeFile(path, 1 << 20), sound);
  }
}

TEST_F(TextDatasetTest, SeveralMayIndexAtOnce) {
  for (int i = 0; i < 50; ++i) Write(absl::StrCat(i), std::string(i + 1, 'x'));
  std::vector<std::thread> threads;
  std::vector<uint64_t> keys(4, 0);
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this, &keys, i] {
      for (int round = 0; round < 5; ++round) {
        RemoveIndex();
        const auto data = Open();
        ASSERT_TRUE(data.ok()) << data.status();
        keys[i] = (*data)->summary().content_key;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const uint64_t key : keys) EXPECT_EQ(key, keys[0]);
}

}  // namespace
}  // namespace evenstep::data
