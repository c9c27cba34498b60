#include "data/synthetic_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/testing/temp_folder.h"

namespace evenstep::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<std::unique_ptr<Dataset>> Open(const std::string& spec,
                                              int64_t max_length = int64_t{1}
                                                                   << 28) {
  DatasetOptions options;
  options.source = absl::StrCat("synthetic:", spec);
  options.max_length = max_length;
  options.on_too_long = OnTooLong::kSkip;
  return OpenDataset(options);
}

TEST(SyntheticDatasetTest, LawsAreDrawnWithTheirSeed) {
  const auto one = Open("lognormal(median=50, sigma=1);documents=200;seed=3");
  const auto same = Open("lognormal(median=50, sigma=1);documents=200;seed=3");
  const auto other = Open("lognormal(median=50, sigma=1);documents=200;seed=4");
  ASSERT_TRUE(one.ok() && same.ok() && other.ok()) << one.status();
  EXPECT_EQ((*one)->summary().num_samples, 200);
  EXPECT_EQ((*one)->summary().content_key, (*same)->summary().content_key);
  EXPECT_NE((*one)->summary().content_key, (*other)->summary().content_key);
  EXPECT_NE((*one)->Read(0)->tokens, (*other)->Read(0)->tokens);
  for (int64_t i = 0; i < 200; ++i) {
    const SampleTokens sample = *(*one)->Read(i);
    EXPECT_EQ(static_cast<int64_t>(sample.tokens.size()), (*one)->Length(i));
    EXPECT_EQ((*one)->TrainedTokens(i), (*one)->Length(i) - 1);
    EXPECT_EQ(sample.tokens, (*same)->Read(i)->tokens);
    EXPECT_EQ(sample.tokens.back(), kEndToken);
  }
}

TEST(SyntheticDatasetTest, AFileOfLengthsIsTakenAsItStands) {
  TempFolder folder;
  const std::string path = folder.path() + "/lengths.txt";
  ASSERT_TRUE(WriteFileAtomically(path, "3\n2x2x2\n\n9\n").ok());
  const auto data = Open(path, 8);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ((*data)->summary().num_samples, 2);
  EXPECT_EQ((*data)->summary().num_too_long, 1);
  EXPECT_EQ((*data)->Length(0), 3);
  EXPECT_EQ((*data)->Length(1), 8);
  EXPECT_THAT((*data)->Name(1), HasSubstr("document 2"));
  EXPECT_FALSE((*data)->Read(2).ok());
}

TEST(SyntheticDatasetTest, LongDocumentsAreCutAndLoseTheirEnd) {
  TempFolder folder;
  const std::string path = folder.path() + "/lengths.txt";
  ASSERT_TRUE(WriteFileAtomically(path, "5\n").ok());
  DatasetOptions options;
  options.source = absl::StrCat("synthetic:", path);
  options.max_length = 3;
  options.on_too_long = OnTooLong::kTruncate;
  const auto data = OpenDataset(options);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ((*data)->TrainedTokens(0), 2);
  EXPECT_EQ((*data)->Read(0)->tokens.size(), 3u);
  EXPECT_NE((*data)->Read(0)->tokens.back(), kEndToken);
}

TEST(SyntheticDatasetTest, WrongSpecsAreRefusedWithTheReason) {
  const struct {
    const char* spec;
    const char* reason;
  } cases[] = {
      {"short;documents=0", "0 documents"},
      {"short;documents=x", "documents=x"},
      {"short;pages=3", "unknown key 'pages'"},
      {"lognormal(1)", "sigma"},
      {"/no/such/lengths", "/no/such/lengths"},
  };
  for (const auto& one : cases) {
    EXPECT_THAT(Open(one.spec).status().ToString(), HasSubstr(one.reason));
    EXPECT_FALSE(LookForSynthetic(one.spec).ok());
  }
  EXPECT_TRUE(LookForSynthetic("long;seed=2").ok());
}

}  // namespace
}  // namespace evenstep::data
