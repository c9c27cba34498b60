#include "jobspec/profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/testing/temp_folder.h"

namespace evenstep::jobspec {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kJob[] =
    "name: a\n"
    "model: {layers: 2, width: 64, heads: 4}\n"
    "data: {source: 'text:/d'}\n";

Profile Example() {
  ModelSpec model;  // of kJob
  model.layers = 2;
  model.width = 64;
  model.heads = model.kv_heads = 4;
  Profile profile;
  profile.key = {.model = ModelKey(model),
                 .device = "cpu: some model, 1 thread",
                 .software = "evenstep 1, torch 2",
                 .precision = "float32"};
  profile.costs.linear_ns_per_token = 2.5;
  profile.costs.collective = {{2, 0.5}};
  profile.held_out_error = 0.0625;
  profile.points = {{.layers = 1,
                     .recompute_layers = 1,
                     .degree = 2,
                     .lengths = {16, 512},
                     .held_out = true,
                     .compute_ns = 1e6,
                     .collective_ns = 5e4,
                     .predicted_ns = 1.1e6}};
  return profile;
}

std::string Write(const std::string& path, const Profile& profile) {
  EXPECT_TRUE(WriteFileAtomically(path, FormatProfile(profile)).ok());
  return path;
}

absl::StatusOr<JobSpec> Parse(const std::string& job, const std::string& folder,
                              std::vector<std::string> overrides = {}) {
  ParseOptions options;
  options.profile_folder = folder;
  options.overrides = std::move(overrides);
  return ParseJobFile(job, options);
}

TEST(ProfileTest, AFileReadsBackToTheSameFile) {
  const std::string text = FormatProfile(Example());
  const auto again = ParseProfile(text, "p.yaml");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(FormatProfile(*again), text);
  EXPECT_EQ(again->key, Example().key);
  ASSERT_EQ(again->points.size(), 1);
  EXPECT_EQ(again->points[0].lengths, Example().points[0].lengths);
}

TEST(ProfileTest, PointsOfVideoKeepTheirClipsAndBytes) {
  Profile profile = Example();
  ProfilePoint& point = profile.points[0];
  point.lengths = {128, 6};
  point.shapes = {{8, 4, 4}, {1, 2, 3}};
  point.recompute_temporal_layers = 2;
  point.activation_bytes = 1000;
  point.predicted_bytes = 1100;
  profile.costs.spatial.linear_ns_per_token = 3;
  const std::string text = FormatProfile(profile);
  const auto again = ParseProfile(text, "p.yaml");
  ASSERT_TRUE(again.ok()) << again.status() << text;
  EXPECT_EQ(FormatProfile(*again), text);
  EXPECT_EQ(again->points[0].shapes, point.shapes);
  EXPECT_EQ(again->points[0].lengths, point.lengths);
  EXPECT_EQ(again->points[0].recompute_temporal_layers, 2);
  EXPECT_EQ(again->points[0].predicted_bytes, 1100);
  EXPECT_EQ(again->costs.spatial.linear_ns_per_token, 3);
  std::string bad = text;
  bad.replace(bad.find("8x4x4"), 5, "12");
  EXPECT_THAT(std::string(ParseProfile(bad, "p").status().message()),
              HasSubstr("'12' is not a clip"));
}

TEST(ProfileTest, ErrorsNameTheLine) {
  EXPECT_THAT(
      std::string(
          ParseProfile("profile: {}\ncost: {}\n", "p").status().message()),
      HasSubstr("p:2: unknown key 'cost'"));
  EXPECT_THAT(
      std::string(ParseProfile("profile: {}\n", "p").status().message()),
      HasSubstr("costs are missing"));
  EXPECT_FALSE(ParseProfile("a: 1\n", "p").ok());
}

TEST(ProfileTest, AJobTakesItByPathAndKeepsItsKey) {
  const TempFolder folder;
  const std::string path = Write(folder.path() + "/p.yaml", Example());
  const auto spec = Parse(absl::StrCat(kJob, "costs: ", path, "\n"), "/none");
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->costs->linear_ns_per_token, 2.5);
  EXPECT_EQ(spec->profile, Example().key);
  // The job file that is sent on says the same.
  const auto again = Parse(FormatJobFile(*spec), "/none");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->profile, Example().key);
}

TEST(ProfileTest, AJobFindsTheOneOfItsModel) {
  const TempFolder folder;
  Profile other = Example();
  other.key.model = "layers=9";
  Write(ProfilePath(folder.path(), other.key), other);
  Write(ProfilePath(folder.path(), Example().key), Example());
  const std::string job = absl::StrCat(kJob, "costs: profile\n");
  const auto spec = Parse(job, folder.path());
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->profile, Example().key);
  // Overrides are read before the profile is looked for.
  const auto none = Parse(job, folder.path(), {"model.layers=3"});
  EXPECT_THAT(std::string(none.status().message()),
              AllOf(HasSubstr("job.yaml:4: costs"), HasSubstr("layers=3"),
                    HasSubstr("evenstep profile")));
}

TEST(ProfileTest, TwoDevicesMustBeToldApart) {
  const TempFolder folder;
  Profile other = Example();
  other.key.device = "cpu: another, 1 thread";
  Write(ProfilePath(folder.path(), other.key), other);
  Write(ProfilePath(folder.path(), Example().key), Example());
  const auto spec =
      Parse(absl::StrCat(kJob, "costs: profile\n"), folder.path());
  EXPECT_THAT(std::string(spec.status().message()),
              AllOf(HasSubstr("2 profiles"), HasSubstr("cpu: another")));
}

TEST(ProfileTest, AnotherModelsProfileIsRefusedWithBothKeys) {
  const TempFolder folder;
  const std::string path = Write(folder.path() + "/p.yaml", Example());
  const auto spec = Parse(absl::StrCat(kJob, "costs: ", path, "\n"), "/none",
                          {"model.layers=3"});
  EXPECT_THAT(std::string(spec.status().message()),
              AllOf(HasSubstr("another profile"), HasSubstr("layers=2 "),
                    HasSubstr("layers=3 ")));
}

// A step's fixed cost has the update in it.
TEST(ProfileTest, SplitOptimizerStatesHaveAProfileOfTheirOwn) {
  const TempFolder folder;
  Profile split = Example();
  split.key.precision = "float32, optimizer zero1";
  split.costs.step_fixed_ns = 7;
  Write(ProfilePath(folder.path(), split.key), split);
  const std::string job = absl::StrCat(kJob, "costs: profile\n");
  EXPECT_THAT(std::string(Parse(job, folder.path()).status().message()),
              AllOf(HasSubstr("no profile"), HasSubstr("precision float32;")));
  Write(ProfilePath(folder.path(), Example().key), Example());
  EXPECT_EQ(Parse(job, folder.path())->costs->step_fixed_ns, 0);
  const auto spec = Parse(job, folder.path(), {"optimizer.sharding=zero1"});
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->costs->step_fixed_ns, 7);
  // Of the other kind by its path: refused with both keys.
  const std::string path = ProfilePath(folder.path(), split.key);
  EXPECT_THAT(
      std::string(Parse(absl::StrCat(kJob, "costs: ", path, "\n"), "/none")
                      .status()
                      .message()),
      AllOf(HasSubstr("another profile"),
            HasSubstr("precision float32, optimizer zero1]"),
            HasSubstr("precision float32]")));
}

TEST(ProfileTest, AnotherDeviceOrSoftwareIsRefusedWithBothKeys) {
  const ProfileKey key = Example().key;
  EXPECT_TRUE(CheckProfileKey(key, key).ok());
  for (std::string ProfileKey::*part :
       {&ProfileKey::model, &ProfileKey::device, &ProfileKey::software,
        &ProfileKey::precision}) {
    ProfileKey here = key;
    here.*part = "elsewhere";
    const absl::Status status = CheckProfileKey(key, here);
    EXPECT_TRUE(absl::IsFailedPrecondition(status));
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr(key.*part), HasSubstr("elsewhere")));
  }
}

TEST(ProfileTest, NewSoftwareWritesTheSameFile) {
  ProfileKey newer = Example().key;
  newer.software = "evenstep 2, torch 2";
  EXPECT_EQ(ProfilePath("/f", newer), ProfilePath("/f", Example().key));
  newer.device = "gpu";
  EXPECT_NE(ProfilePath("/f", newer), ProfilePath("/f", Example().key));
}

}  // namespace
}  // namespace evenstep::jobspec
