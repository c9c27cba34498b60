#include "data/text/text_document.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

namespace evenstep::data {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int32_t kNone = kIgnoredTarget;

SampleTokens Encoded(const TextDocument& document, int64_t max_length = 100) {
  return *EncodeDocument(document, *ByteTokenizer(), max_length);
}

TEST(TextDocumentTest, EveryTrainedTokenButTheFirstIsATarget) {
  const SampleTokens sample = Encoded({{"abc", Loss::kTrained, true}});
  EXPECT_THAT(sample.tokens, ElementsAre('a', 'b', 'c', kEndToken));
  EXPECT_THAT(sample.targets, ElementsAre('b', 'c', kEndToken, kNone));
}

TEST(TextDocumentTest, MasksFollowThePartsOfAChat) {
  const SampleTokens sample = Encoded({{"q", Loss::kMasked, false},
                                       {"a", Loss::kTrained, true},
                                       {"r", Loss::kMasked, false},
                                       {"b", Loss::kTrained, true}});
  EXPECT_THAT(sample.tokens,
              ElementsAre('q', 'a', kEndToken, 'r', 'b', kEndToken));
  EXPECT_THAT(sample.targets,
              ElementsAre('a', kEndToken, kNone, 'b', kEndToken, kNone));
}

TEST(TextDocumentTest, ADocumentOfMasksOnlyHasNoTarget) {
  const TextDocument document = {{"question", Loss::kMasked, true}};
  EXPECT_THAT(Encoded(document).targets, ::testing::Each(kNone));
  EXPECT_EQ(MeasureDocument(document, *ByteTokenizer())->num_trained, 0);
}

TEST(TextDocumentTest, NoTextIsNoToken) {
  EXPECT_THAT(Encoded({}).tokens, IsEmpty());
  EXPECT_THAT(Encoded({}).targets, IsEmpty());
  EXPECT_EQ(MeasureDocument({}, *ByteTokenizer())->num_tokens, 0);
}

int64_t TrainedBefore(int64_t length, const DocumentSize& size) {
  int64_t trained = 0;
  for (size_t i = 0; i < size.trained_runs.size(); i += 2) {
    for (int64_t t = size.trained_runs[i]; t < size.trained_runs[i + 1]; ++t) {
      trained += t < length;
    }
  }
  return trained;
}

TEST(TextDocumentTest, MeasuresAreWhatEncodingGivesAtEveryLength) {
  const auto tokenizer = ByteTokenizer();
  const TextDocument document = {{"ab", Loss::kMasked, false},
                                 {"cde", Loss::kTrained, true},
                                 {"", Loss::kMasked, true},
                                 {"f", Loss::kTrained, false}};
  for (int64_t max_length = 1; max_length < 12; ++max_length) {
    const DocumentSize size = *MeasureDocument(document, *tokenizer);
    const SampleTokens sample = Encoded(document, max_length);
    EXPECT_EQ(size.num_tokens, 8);
    EXPECT_EQ(static_cast<int64_t>(sample.tokens.size()),
              std::min<int64_t>(max_length, 8));
    EXPECT_EQ(std::count_if(sample.targets.begin(), sample.targets.end(),
                            [](int32_t t) { return t != kNone; }),
              TrainedBefore(max_length, size))
        << max_length;
  }
}

}  // namespace
}  // namespace evenstep::data
