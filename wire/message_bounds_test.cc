#include "wire/message_bounds.h"

#include <string>

#include "gtest/gtest.h"

namespace evenstep::wire {
namespace {

TEST(JobIdTest, JobIdsAreShortLowerCaseNames) {
  EXPECT_TRUE(IsLegalJobId("a"));
  EXPECT_TRUE(IsLegalJobId("train-2-b"));
  EXPECT_TRUE(IsLegalJobId(std::string(63, 'a')));
  for (const std::string& text :
       {std::string(), std::string("2a"), std::string("-a"), std::string("A"),
        std::string("a_b"), std::string("a/b"), std::string("a\n"),
        std::string(64, 'a')}) {
    EXPECT_FALSE(IsLegalJobId(text)) << text;
  }
}

TEST(PersonTextTest, ATextForPeopleIsCutAtACharacter) {
  const std::string text(kMaxPersonTextBytes - 1, 'a');
  EXPECT_EQ(PersonText(text + "b"), text + "b");
  EXPECT_EQ(PersonText(text + "\u00e9"), text);
}

}  // namespace
}  // namespace evenstep::wire
