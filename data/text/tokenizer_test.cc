#include "data/text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/testing/temp_folder.h"
#include "data/dataset.h"

namespace evenstep::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string HeadersModel() {
  const char* const source = getenv("EVENSTEP_SOURCE_DIR");
  return absl::StrCat(source == nullptr ? "." : source,
                      "/examples/text/headers.model");
}

TEST(TokenizerTest, BytesAreTokensAndBack) {
  const auto bytes = ByteTokenizer();
  std::vector<int32_t> tokens;
  ASSERT_TRUE(bytes->Encode("a\xff", &tokens).ok());
  EXPECT_THAT(tokens, ElementsAre('a', 255));
  tokens.push_back(kEndToken);
  EXPECT_EQ(*bytes->Decode(tokens), "a\xff");
  EXPECT_EQ(*bytes->Count("abc"), 3);
  EXPECT_FALSE(bytes->Decode({257}).ok());
  EXPECT_FALSE(bytes->Decode({-1}).ok());
}

TEST(TokenizerTest, PiecesGiveBackTheTextBetweenThem) {
  const auto pieces = OpenTokenizer(HeadersModel());
  ASSERT_TRUE(pieces.ok()) << pieces.status();
  EXPECT_EQ((*pieces)->vocab(), 512);
  EXPECT_EQ((*pieces)->end_token(), 2);
  EXPECT_FALSE((*pieces)->is_bytes());
  for (const char* const text :
       {"#ifndef _STDIO_H\n  int  x;\n", "\xc3\xa9t\xc3\xa9 \t\x01", " "}) {
    std::vector<int32_t> tokens;
    ASSERT_TRUE((*pieces)->Encode(text, &tokens).ok());
    EXPECT_EQ(static_cast<int64_t>(tokens.size()), *(*pieces)->Count(text));
    tokens.push_back((*pieces)->end_token());
    EXPECT_EQ(*(*pieces)->Decode(tokens), text);
  }
  EXPECT_EQ((*pieces)->Decode({512}).status().code(),
            absl::StatusCode::kOutOfRange);
  EXPECT_FALSE((*pieces)->Decode({-1}).ok());
}

TEST(TokenizerTest, TruncatedAndDamagedModelsAreNamedAndNeverCrash) {
  TempFolder folder;
  const std::string path = folder.path() + "/damaged.model";
  const std::string model = *ReadWholeFile(HeadersModel(), 1 << 20);
  for (size_t bytes = 0; bytes < model.size(); bytes += 97) {
    ASSERT_TRUE(WriteFileAtomically(path, model.substr(0, bytes)).ok());
    const auto opened = OpenTokenizer(path);
    if (opened.ok()) continue;  // cut between two fields
    EXPECT_THAT(std::string(opened.status().message()), HasSubstr(path));
  }
  EXPECT_EQ(OpenTokenizer("/no/such.model").status().code(),
            absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace evenstep::data
