// Names that people type, and hashes that name content.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/fnv1a.h"
#include "base/nearest_name.h"
#include "base/version.h"

namespace evenstep {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(NearestNameTest, SlipsFindTheirNameAndOthersDoNot) {
  const std::vector<std::string> known = {"layers", "width", "heads"};
  EXPECT_EQ(NearestName("layer", known), "layers");
  EXPECT_EQ(NearestName("wdith", known), "width");
  EXPECT_EQ(NearestName("vocabulary", known), "");
  EXPECT_EQ(NearestName(std::string(100000, 'x'), known), "");
}

TEST(NearestNameTest, HintListsAllNamesAndAsksOnlyWhenOneIsNear) {
  const std::vector<std::string> known = {"fail", "skip"};
  EXPECT_THAT(
      KnownNamesHint("skp", known),
      AllOf(HasSubstr("did you mean 'skip'?"), HasSubstr("known: fail, skip")));
  EXPECT_THAT(KnownNamesHint("truncate", known),
              AllOf(Not(HasSubstr("did you mean")), HasSubstr("fail, skip")));
}

TEST(Fnv1aTest, MatchesThePublishedValues) {
  Fnv1a64 empty;
  EXPECT_EQ(empty.value(), 0xcbf29ce484222325ULL);
  Fnv1a64 letter;
  letter.AddBytes("a");
  EXPECT_EQ(letter.value(), 0xaf63dc4c8601ec8cULL);
  Fnv1a64 word;
  word.AddBytes("foobar");
  EXPECT_EQ(word.value(), 0x85944171f73967e8ULL);
}

TEST(Fnv1aTest, StringsCarryTheirSizes) {
  Fnv1a64 a;
  a.AddString("ab");
  a.AddString("c");
  Fnv1a64 b;
  b.AddString("a");
  b.AddString("bc");
  EXPECT_NE(a.value(), b.value());
}

TEST(VersionTest, VersionAndCommitAreFilledIn) {
  EXPECT_FALSE(Version().empty());
  EXPECT_FALSE(GitCommit().empty());
  EXPECT_EQ(GitCommit().find('@'), absl::string_view::npos);
}

}  // namespace
}  // namespace evenstep
