#include "client/cli/local/local_job.h"

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace evenstep::cli {
namespace {

using ::testing::HasSubstr;

class LocalJobTest : public ::testing::Test {
 protected:
  LocalJobTest()
      : folder_(
            ::testing::TempDir() + "local_job_" +
            ::testing::UnitTest::GetInstance()->current_test_info()->name()) {
    std::filesystem::create_directories(folder_ + "/documents");
    WriteFile("documents/one.txt", "text");
    command_.data = "text:" + folder_ + "/documents";
  }
  ~LocalJobTest() override { std::filesystem::remove_all(folder_); }

  std::string WriteFile(const std::string& name, const std::string& text) {
    std::ofstream(folder_ + "/" + name) << text;
    return folder_ + "/" + name;
  }

  const std::string folder_;
  LocalCommand command_;
};

TEST_F(LocalJobTest, DataAreEnough) {
  auto job = MakeLocalJob(command_, 2);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_TRUE(job->chosen_here);
  EXPECT_EQ(job->spec.ranks, 2);
  EXPECT_EQ(job->spec.data.source, "text:" + folder_ + "/documents");
  EXPECT_EQ(job->spec.data.on_too_long, jobspec::OnTooLong::kSkip);
  EXPECT_EQ(job->spec.data.on_bad_sample, jobspec::OnBadSample::kSkip);
  EXPECT_GE(job->spec.memory.tokens_per_rank, job->spec.data.max_length);
  EXPECT_THAT(DescribeLocalJob(job->spec),
              HasSubstr("longer ones are skipped"));
}

TEST_F(LocalJobTest, MoreRanksThanCoresAreWarnedOf) {
  command_.ranks = 2;
  EXPECT_EQ(MakeLocalJob(command_, 2)->warning, "");
  command_.ranks = 3;
  EXPECT_EQ(MakeLocalJob(command_, 2)->warning,
            "Warning: 3 ranks take turns on 2 cores: steps take longer than "
            "with a core each");
}

TEST_F(LocalJobTest, FarMoreRanksThanCoresAreRefused) {
  command_.ranks = 8;
  EXPECT_TRUE(MakeLocalJob(command_, 2).ok());
  command_.ranks = 9;
  const auto refused = MakeLocalJob(command_, 2);
  EXPECT_TRUE(absl::IsInvalidArgument(refused.status()));
  EXPECT_EQ(
      refused.status().message(),
      "9 ranks are too many for the 2 cores that this process may use: "
      "at most 8 (4 a core), best 2; choose with --ranks, or run the job "
      "on a cluster (evenstep submit). --oversubscribe starts them anyway");
  command_.oversubscribe = true;
  EXPECT_TRUE(MakeLocalJob(command_, 2).ok());
}

// A job file that was written for a cluster.
TEST_F(LocalJobTest, RanksOfAJobFileAreCountedToo) {
  command_.data.clear();
  command_.file = WriteFile(
      "job.yaml", "name: a\ndata: {source: text:documents}\nranks: 64\n");
  EXPECT_TRUE(absl::IsInvalidArgument(MakeLocalJob(command_, 2).status()));
}

TEST_F(LocalJobTest, APlainPathIsText) {
  command_.data = folder_ + "/documents";
  auto job = MakeLocalJob(command_, 1);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->spec.data.source, "text:" + folder_ + "/documents");
}

TEST_F(LocalJobTest, MemoryFollowsTheLongestDocumentUnlessItIsSet) {
  command_.overrides = {"data.max_length=10000"};
  EXPECT_EQ(MakeLocalJob(command_, 2)->spec.memory.tokens_per_rank, 10000);
  command_.overrides.emplace_back("memory.tokens_per_rank=5000");
  EXPECT_EQ(MakeLocalJob(command_, 2)->spec.memory.tokens_per_rank, 5000);
}

TEST_F(LocalJobTest, WhatCannotFitIsRefusedWithTheNumbers) {
  command_.overrides = {"data.max_length=10000", "memory.tokens_per_rank=1000"};
  const absl::Status status = MakeLocalJob(command_, 2).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("10000"));
}

TEST_F(LocalJobTest, OptionsOverrideTheFile) {
  command_.file = WriteFile(
      "job.yaml", "name: mine\ndata: {source: 'text:documents'}\nranks: 1\n");
  command_.ranks = 2;
  command_.num_steps = 7;
  command_.policy = "static";
  auto job = MakeLocalJob(command_, 8);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_FALSE(job->chosen_here);
  EXPECT_EQ(job->spec.name, "mine");
  EXPECT_EQ(job->spec.ranks, 2);
  EXPECT_EQ(job->spec.steps, 7);
  EXPECT_EQ(job->spec.policy, planner::Policy::kStatic);
  EXPECT_EQ(job->spec.data.source, "text:" + folder_ + "/documents");
}

TEST_F(LocalJobTest, AFileKeepsItsRanks) {
  command_.file = WriteFile(
      "job.yaml", "name: mine\ndata: {source: 'text:documents'}\nranks: 1\n");
  command_.data.clear();
  EXPECT_EQ(MakeLocalJob(command_, 8)->spec.ranks, 1);
}

TEST_F(LocalJobTest, CostsMayBeTheOnesOfAnEarlierSummary) {
  command_.costs =
      WriteFile("costs.yaml",
                R"({"micro_batch_fixed_ns": 1, "linear_ns_per_token": 2.5,
          "quadratic_ns_per_token2": 0.5, "collective_latency_ns": 4,
          "collective": [{"degree": 2, "ns_per_token": 5.5}],
          "step_fixed_ns": 6})");
  auto job = MakeLocalJob(command_, 2);
  ASSERT_TRUE(job.ok()) << job.status();
  ASSERT_TRUE(job->spec.costs.has_value());
  EXPECT_EQ(job->spec.costs->linear_ns_per_token, 2.5);
}

TEST_F(LocalJobTest, DataThatAJobFileNamesAreLookedForBeforeAnythingStarts) {
  command_.data.clear();
  for (const char* source : {"nothing", "documents/*.md", "doc*/[a-b]*"}) {
    command_.file = WriteFile(
        "job.yaml", absl::StrCat("name: mine\ndata: {source: 'text:", source,
                                 "'}\nranks: 1\n"));
    const absl::Status missing = MakeLocalJob(command_, 1).status();
    EXPECT_TRUE(absl::IsInvalidArgument(missing)) << missing;
    EXPECT_THAT(std::string(missing.message()), HasSubstr(source));
  }
  command_.overrides = {"data.source=text:documents/[!a-m]*.txt"};
  EXPECT_TRUE(MakeLocalJob(command_, 1).ok());
}

TEST_F(LocalJobTest, ATrainerThatIsNotThereIsNamedBeforeAnythingStarts) {
  command_.trainer = folder_ + "/my-trainer";
  const absl::Status missing = MakeLocalJob(command_, 1).status();
  EXPECT_TRUE(absl::IsInvalidArgument(missing)) << missing;
  EXPECT_THAT(std::string(missing.message()), HasSubstr("my-trainer"));
  command_.trainer = "/bin/sh";
  EXPECT_TRUE(MakeLocalJob(command_, 1).ok());
}

TEST_F(LocalJobTest, AModelOfAnotherNameIsDescribed) {
  command_.overrides = {"model.name=gpt2"};
  EXPECT_THAT(DescribeLocalJob(MakeLocalJob(command_, 1)->spec),
              HasSubstr(": gpt2, 2 layers"));
}

TEST_F(LocalJobTest, MissingDataAreNamed) {
  command_.data = "text:" + folder_ + "/nothing";
  EXPECT_THAT(std::string(MakeLocalJob(command_, 2).status().message()),
              HasSubstr("nothing"));
  command_.data = "text:";
  EXPECT_TRUE(absl::IsInvalidArgument(MakeLocalJob(command_, 2).status()));
  command_.data.clear();
  EXPECT_THAT(std::string(MakeLocalJob(command_, 2).status().message()),
              HasSubstr("--data"));
}

}  // namespace
}  // namespace evenstep::cli
