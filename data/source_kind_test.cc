#include "data/source_kind.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <utility>
#include <vector>

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

TEST(SourceKindTest, WhatIsNoSourceIsExplained) {
  const std::string none =
      "' is none of text:PATH, megatron:PREFIX, latents:PATH, synthetic:LAW";
  for (const auto& [source, why] :
       std::vector<std::pair<std::string, std::string>>{
           {"text:",
            "' names nothing after the colon; it is text:PATH, a folder, a "
            "glob or a file"},
           {"latents:", "' names nothing after the colon; it is latents:PATH"},
           {"txt:web", none + "; did you mean 'text:web'?"},
           {"megatrn:x/y", none + "; did you mean 'megatron:x/y'?"},
           {"jsonl:a.jsonl", none + "; files of text are 'text:a.jsonl'"},
           {"docs", none + "; files of text are 'text:docs'"},
           {"/a:b/c", none + "; files of text are 'text:/a:b/c'"}}) {
    const std::string expected = "'" + source + why;
    EXPECT_EQ(ExplainNoKind(source).message(), expected);
    EXPECT_EQ(LookForSource(source).message(), expected);
  }
  EXPECT_TRUE(LooksLikeSource("txt:web"));
  EXPECT_FALSE(LooksLikeSource("docs"));
  EXPECT_FALSE(LooksLikeSource("/a:b/c"));
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

TEST(SourceKindTest, ABarePathIsOneOfText) {
  TempFolder folder;
  const std::string file = folder.path() + "/a.";
  for (const char* const ending : {"md", "yaml"}) {
    std::ofstream(file + ending) << "a";
  }
  for (const std::string& path :
       {folder.path(), file + "md", folder.path() + "/*.md"}) {
    EXPECT_EQ(TextIfPath(path), "text:" + path);
  }
  for (const std::string& other :
       {std::string("-"), std::string("/no/such"), file + "yaml",
        std::string("txt:*"), "text:" + folder.path()}) {
    EXPECT_EQ(TextIfPath(other), other);
  }
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
