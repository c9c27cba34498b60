#include "data/megatron/megatron_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/testing/temp_folder.h"
#include "data/testing/megatron_bytes.h"

namespace evenstep::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class MegatronDatasetTest : public ::testing::Test {
 protected:
  MegatronDatasetTest() {
    options_.source = absl::StrCat("megatron:", folder_.path(), "/corpus");
    options_.max_length = 100;
    options_.cache_dir = cache_.path();
  }

  std::string Path(const std::string& end) const {
    return absl::StrCat(folder_.path(), "/corpus", end);
  }
  void Write(const std::string& end, const std::string& bytes) const {
    std::ofstream(Path(end), std::ios::binary) << bytes;
  }
  // Tokens 1, 2, 3, ... as the file describes them.
  void WritePair(const MegatronFile& file) const {
    std::vector<int64_t> tokens;
    for (const int64_t length : file.lengths) {
      for (int64_t i = 0; i < length; ++i) tokens.push_back(tokens.size() + 1);
    }
    Write(".idx", IndexBytes(file));
    Write(".bin", TokenBytes(tokens, file.token_bytes));
  }
  absl::StatusOr<std::unique_ptr<Dataset>> Open() const {
    return OpenDataset(options_);
  }

  TempFolder folder_;
  TempFolder cache_;
  DatasetOptions options_;
};

TEST_F(MegatronDatasetTest, DocumentsOfSeveralSequencesAreSamples) {
  WritePair({.lengths = {3, 2, 4}, .indices = {0, 2, 3}});
  const auto data = Open();
  ASSERT_TRUE(data.ok()) << data.status();
  ASSERT_EQ((*data)->summary().num_samples, 2);
  EXPECT_EQ((*data)->Vocab(), 0);
  EXPECT_EQ((*data)->Length(0), 5);
  EXPECT_EQ((*data)->TrainedTokens(0), 4);
  EXPECT_THAT((*data)->Read(0)->tokens, ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT((*data)->Read(0)->targets,
              ElementsAre(2, 3, 4, 5, kIgnoredTarget));
  EXPECT_THAT((*data)->Read(1)->tokens, ElementsAre(6, 7, 8, 9));
  EXPECT_EQ((*data)->Name(1), absl::StrCat("document 1 of ", Path(".bin")));
  EXPECT_FALSE((*data)->Read(2).ok());
}

TEST_F(MegatronDatasetTest, TwoByteTokensAndModesAreRead) {
  WritePair({.type = 8,
             .token_bytes = 2,
             .lengths = {3, 2},
             .indices = {0, 1, 2},
             .modes = {0, 0}});
  const auto data = Open();
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_THAT((*data)->Read(1)->tokens, ElementsAre(4, 5));
}

TEST_F(MegatronDatasetTest, EmptyDocumentsAreBadSamplesWithTheirNumber) {
  WritePair({.lengths = {3, 0}, .indices = {0, 1, 2}});
  EXPECT_THAT(Open().status().ToString(),
              AllOf(HasSubstr("1 bad sample"),
                    HasSubstr("document 1 of corpus.bin: empty")));
  options_.on_bad_sample = OnBadSample::kSkip;
  EXPECT_EQ((*Open())->summary().num_bad, 1);
  EXPECT_EQ((*Open())->summary().num_samples, 1);
}

TEST_F(MegatronDatasetTest, LongDocumentsGoByTheJobsRule) {
  WritePair({.lengths = {3, 6}, .indices = {0, 1, 2}});
  options_.max_length = 4;
  EXPECT_THAT(Open().status().ToString(), HasSubstr("6 tokens"));
  options_.on_too_long = OnTooLong::kTruncate;
  EXPECT_THAT((*Open())->Read(1)->tokens, ElementsAre(4, 5, 6, 7));
  EXPECT_EQ((*Open())->TrainedTokens(1), 3);
  options_.on_too_long = OnTooLong::kSkip;
  EXPECT_EQ((*Open())->summary().num_too_long, 1);
}

TEST_F(MegatronDatasetTest, ATruncatedDataFileIsNamedWithTheBytes) {
  WritePair({.lengths = {3, 2}, .indices = {0, 1, 2}});
  std::filesystem::resize_file(Path(".bin"), 18);
  EXPECT_THAT(Open().status().ToString(),
              AllOf(HasSubstr("document 1 of corpus.bin"),
                    HasSubstr("within the data file's 18")));
}

TEST_F(MegatronDatasetTest, AnUnsoundIndexIsNamed) {
  WritePair({.version = 3});
  EXPECT_EQ(Open().status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(Open().status().ToString(),
              AllOf(HasSubstr(Path(".idx")), HasSubstr("version 3")));
}

TEST_F(MegatronDatasetTest, TokensThatNoVocabularyHasAreBadSamplesByName) {
  Write(".idx", IndexBytes({.lengths = {2, 1}, .indices = {0, 1, 2}}));
  Write(".bin", TokenBytes({1, -5, 7}, 4));
  EXPECT_THAT(Open().status().ToString(),
              AllOf(HasSubstr("1 bad sample"),
                    HasSubstr("document 0 of corpus.bin: token 1 has id -5")));
  options_.on_bad_sample = OnBadSample::kSkip;
  EXPECT_EQ((*Open())->summary().num_bad, 1);
  EXPECT_THAT((*Open())->Read(0)->tokens, ElementsAre(7));
}

TEST_F(MegatronDatasetTest, IdsOutsideTheVocabularyAreBadSamplesByName) {
  Write(".idx", IndexBytes({.lengths = {2, 3, 1}, .indices = {0, 1, 2, 3}}));
  Write(".bin", TokenBytes({1, 256, 5, 300, 300, 8}, 4));
  EXPECT_EQ((*Open())->summary().num_samples, 3);  // no model, no vocabulary
  EXPECT_EQ((*Open())->summary().largest_token, 300);
  options_.vocab = 257;
  EXPECT_EQ(Open().status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Open().status().ToString(),
              AllOf(HasSubstr("1 bad sample"),
                    HasSubstr("document 1 of corpus.bin: token 1 has id 300, "
                              "model.vocab is 257")));
  options_.on_bad_sample = OnBadSample::kSkip;
  const auto data = Open();
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ((*data)->summary().num_bad, 1);
  EXPECT_EQ((*data)->summary().num_samples, 2);
  EXPECT_EQ((*data)->summary().largest_token, 256);
  EXPECT_THAT((*data)->Read(1)->tokens, ElementsAre(8));
  EXPECT_EQ((*data)->Name(1), absl::StrCat("document 2 of ", Path(".bin")));
}

TEST_F(MegatronDatasetTest, OneIndexServesEveryJob) {
  WritePair({.lengths = {3, 6}, .indices = {0, 1, 2}});
  ASSERT_TRUE(Open().ok());
  const std::string index =
      std::filesystem::directory_iterator(cache_.path())->path();
  const auto written = std::filesystem::last_write_time(index);
  options_.vocab = 9;
  options_.max_length = 5;
  options_.on_bad_sample = OnBadSample::kSkip;
  options_.on_too_long = OnTooLong::kSkip;
  options_.progress = [](const IndexProgress&) {
    return absl::InternalError("it is indexed again");
  };
  EXPECT_EQ((*Open())->summary().num_samples, 1);
  EXPECT_EQ((*Open())->summary().num_bad, 1);
  options_.vocab = 10;
  EXPECT_EQ((*Open())->summary().num_too_long, 1);
  EXPECT_EQ(std::filesystem::last_write_time(index), written);
}

TEST_F(MegatronDatasetTest, DocumentsBeyondTheBufferAreReadToTheirEnd) {
  const int64_t tokens = (int64_t{3} << 20) / 4 + 5;
  std::vector<int64_t> values(tokens, 1);
  values[tokens - 2] = 400;
  Write(".idx", IndexBytes({.lengths = {tokens}, .indices = {0, 1}}));
  Write(".bin", TokenBytes(values, 4));
  options_.max_length = tokens;
  std::vector<int64_t> seen;
  options_.progress = [&](const IndexProgress& progress) {
    EXPECT_EQ(progress.bytes_total, tokens * 4);
    seen.push_back(progress.bytes_done);
    return absl::OkStatus();
  };
  const auto data = Open();
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_THAT(seen, ElementsAre(0, 1 << 20, 2 << 20, 3 << 20));
  EXPECT_TRUE((*data)->Read(0).ok());
  options_.vocab = 257;
  EXPECT_THAT(Open().status().ToString(),
              HasSubstr(absl::StrCat("token ", tokens - 2, " has id 400")));
}

TEST_F(MegatronDatasetTest, AStopWhileIndexingLeavesNothingBehind) {
  const int64_t tokens = int64_t{4} << 20;
  Write(".idx", IndexBytes({.lengths = {tokens}, .indices = {0, 1}}));
  Write(".bin", std::string(tokens * 4, '\1'));
  int calls = 0;
  options_.progress = [&](const IndexProgress&) {
    return ++calls == 2 ? absl::CancelledError("enough") : absl::OkStatus();
  };
  EXPECT_EQ(Open().status(), absl::CancelledError("enough"));
  EXPECT_EQ(calls, 2);
  EXPECT_TRUE(std::filesystem::is_empty(cache_.path()));
}

TEST_F(MegatronDatasetTest, ATouchedOrGrownFileIsReadOnAndChangedBytesAreNot) {
  WritePair({.lengths = {3, 4}, .indices = {0, 1, 2}});
  options_.max_length = 3;
  options_.on_too_long = OnTooLong::kTruncate;
  const auto data = Open();
  ASSERT_TRUE(data.ok()) << data.status();
  Write(".idx", IndexBytes({.lengths = {3}, .indices = {0, 1}}));
  Write(".bin", TokenBytes({1, 2, 3, 4, 5, 6, 7, 8}, 4));
  EXPECT_THAT((*data)->Read(0)->tokens, ElementsAre(1, 2, 3));
  EXPECT_THAT((*data)->Read(1)->tokens, ElementsAre(4, 5, 6));
  Write(".bin", TokenBytes({1, 9, 3, 4, 5, 6, 7, 8}, 4));
  EXPECT_EQ((*data)->Read(0).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT((*data)->Read(0).status().ToString(),
              HasSubstr("document 0 of " + Path(".bin") + " changed since"));
  EXPECT_TRUE((*data)->Read(1).ok());
  // Of a sample that is cut, the whole document decides.
  Write(".bin", TokenBytes({1, 2, 3, 4, 5, 6, 9, 8}, 4));
  EXPECT_EQ((*data)->Read(1).status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(MegatronDatasetTest, TheIndexIsKeptAndAChangedPairIsFound) {
  WritePair({.lengths = {3}, .indices = {0, 1}});
  const auto before = Open();
  ASSERT_TRUE(before.ok());
  EXPECT_EQ((*Open())->summary().content_key, (*before)->summary().content_key);
  WritePair({.lengths = {3, 4}, .indices = {0, 1, 2}});
  EXPECT_TRUE((*before)->Read(0).ok());
  EXPECT_EQ((*Open())->summary().num_samples, 2);
}

TEST_F(MegatronDatasetTest, AMissingHalfIsNamed) {
  WritePair({});
  std::filesystem::remove(Path(".bin"));
  EXPECT_THAT(Open().status().ToString(), HasSubstr("corpus.bin"));
  EXPECT_TRUE(absl::IsNotFound(LookForMegatron(Path(""))));
}

TEST_F(MegatronDatasetTest, ContentKeySeesOtherTokensOfTheSameLengths) {
  const MegatronFile file = {.lengths = {3, 2}, .indices = {0, 1, 2}};
  WritePair(file);
  const uint64_t before = (*Open())->summary().content_key;
  Write(".bin", TokenBytes({1, 2, 3, 5, 4}, file.token_bytes));
  std::filesystem::last_write_time(
      Path(".bin"),
      std::filesystem::file_time_type::clock::now() + std::chrono::hours(1));
  EXPECT_NE((*Open())->summary().content_key, before);
}

}  // namespace
}  // namespace evenstep::data
