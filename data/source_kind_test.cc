#include "data/source_kind.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing/temp_folder.h"

namespace evenstep::data {
namespace {

using ::testing::HasSubstr;

TEST(SourceKindTest, KindsAreFoundByPrefixAndNeedARest) {
  for (const SourceKind& kind : SourceKinds()) {
    EXPECT_EQ(FindSourceKind(std::string(kind.prefix) + "x"), &kind);
    EXPECT_EQ(FindSourceKind(kind.prefix), nullptr);
    EXPECT_THAT(SourceForms(), HasSubstr(std::string(kind.form)));
  }
  EXPECT_EQ(FindSourceKind("clay:x"), nullptr);
  EXPECT_EQ(FindSourceKind(""), nullptr);
}

TEST(SourceKindTest, OnlyPathsAreMadeAbsolute) {
  EXPECT_EQ(*AbsoluteSource("text:a/../b", "/base"), "text:/base/b");
  EXPECT_EQ(*AbsoluteSource("megatron:/x", "/base"), "megatron:/x");
  EXPECT_EQ(*AbsoluteSource("synthetic:wikipedia;seed=1", "/base"),
            "synthetic:wikipedia;seed=1");
  EXPECT_EQ(*AbsoluteSource("synthetic:l.txt", "/base"),
            "synthetic:/base/l.txt");
  EXPECT_EQ(*AbsoluteSource("clay:a", "/base"), "clay:a");
}

TEST(SourceKindTest, WhatIsNotThereIsSaid) {
  TempFolder folder;
  EXPECT_TRUE(absl::IsNotFound(LookForSource("text:" + folder.path())));
  EXPECT_TRUE(absl::IsNotFound(LookForSource("text:/no/such")));
  EXPECT_TRUE(absl::IsNotFound(LookForSource("megatron:/no/such")));
  EXPECT_TRUE(absl::IsInvalidArgument(LookForSource("clay:x")));
}

}  // namespace
}  // namespace evenstep::data
