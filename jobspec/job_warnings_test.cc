#include "jobspec/job_warnings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "base/testing/temp_folder.h"
#include "data/safetensors.h"

namespace evenstep::jobspec {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

JobSpec Spec() {
  JobSpec spec;
  spec.batch_samples = 16;
  spec.data.source = "text:/data";
  return spec;
}

TEST(JobWarningsTest, FewerSamplesThanAStepTakesAreNamedWithTheNumbers) {
  EXPECT_THAT(JobWarnings(Spec(), {.num_samples = 16}), IsEmpty());
  EXPECT_THAT(JobWarnings(Spec(), {.num_samples = 3}),
              ElementsAre(HasSubstr("a step draws 16 samples from 3 documents: "
                                    "each is in every step, 5.33 times on "
                                    "average; batch.samples of 3")));
  JobSpec video = Spec();
  video.model.kind = ModelKind::kVideo;
  EXPECT_THAT(JobWarnings(video, {.num_samples = 1}),
              ElementsAre(HasSubstr("16 samples from 1 clip:")));
}

TEST(JobWarningsTest, FewerEvaluatedSamplesThanAskedForAreNamed) {
  JobSpec spec = Spec();
  spec.evaluation.share = 0.1;
  spec.evaluation.samples = 50;
  EXPECT_THAT(JobWarnings(spec, {.num_samples = 99, .num_evaluated = 50}),
              IsEmpty());
  EXPECT_THAT(JobWarnings(spec, {.num_samples = 99, .num_evaluated = 9}),
              ElementsAre("evaluation.samples is 50, and only 9 samples can be "
                          "evaluated"));
}

TEST(JobWarningsTest, DataOfWhichMostIsNotReadIsNamed) {
  DataFacts data = {.num_samples = 99};
  data.unread = {2, 5'000'000, 5'000'000, "data/train.parquet"};
  EXPECT_THAT(JobWarnings(Spec(), data), IsEmpty());
  data.unread.bytes_read = 812;
  EXPECT_THAT(
      JobWarnings(Spec(), data),
      ElementsAre("most of the data is not read: 2 files of 5 MB, the largest "
                  "data/train.parquet, beside 0.000812 MB that are read; "
                  "`evenstep data inspect --list-bad` says why"));
}

TEST(JobWarningsTest, TokensThatAreMostlyTooLongAreNamedWithTheirShare) {
  JobSpec spec = Spec();
  spec.data.max_length = 4096;
  spec.data.on_too_long = OnTooLong::kSkip;
  DataFacts data = {
      .num_samples = 99, .total_tokens = 100, .tokens_left_out = 100};
  EXPECT_THAT(JobWarnings(spec, data), IsEmpty());
  data.tokens_left_out = 900;
  EXPECT_THAT(JobWarnings(spec, data),
              ElementsAre("90% of the tokens (900 of 1000) are skipped, in "
                          "samples longer than data.max_length; raise "
                          "data.max_length (4096) or split the documents"));
  data.num_long_files = 1;
  spec.data.on_too_long = OnTooLong::kTruncate;
  EXPECT_THAT(JobWarnings(spec, data),
              ElementsAre(AllOf(HasSubstr("are cut off, from samples"),
                                HasSubstr("(`split -C 4000 FILE part-`)"))));
}

TEST(JobWarningsTest, WhatGivenWeightsDoNotSayAloudIsSaid) {
  const TempFolder folder;
  const std::string bytes(4, '\0');
  const auto write = [&](const std::string& tensor,
                         const data::SafetensorsMetadata& metadata) {
    ASSERT_TRUE(data::WriteSafetensors(folder.path() + "/model.safetensors",
                                       {{tensor, "F32", {1}, bytes}}, metadata)
                    .ok());
  };
  JobSpec spec = Spec();
  spec.model.weights = folder.path();
  const DataFacts data = {.num_samples = 99, .longest = 3000};
  EXPECT_THAT(JobWarnings(spec, data), IsEmpty());  // starting will name it
  write("lm_head.weight", {{"evenstep.tokenizer", ""}});
  EXPECT_THAT(JobWarnings(spec, data), IsEmpty());
  write("x", {{"evenstep.tokenizer", "/m.model"}});
  std::ofstream(folder.path() + "/config.json")
      << R"({"max_position_embeddings": 2048})";
  EXPECT_THAT(
      JobWarnings(spec, data),
      ElementsAre(
          HasSubstr("trained with the tokenizer /m.model, data.tokenizer is "
                    "bytes"),
          HasSubstr("no lm_head.weight: the head begins as the embedding"),
          HasSubstr("has 3000 tokens, and the config.json of model.weights "
                    "says that the model was made for 2048")));
}

TEST(JobWarningsTest, TheyAreBounded) {
  const TempFolder folder;
  const std::string bytes(4, '\0');
  ASSERT_TRUE(data::WriteSafetensors(
                  folder.path() + "/model.safetensors",
                  {{"lm_head.weight", "F32", {1}, bytes}},
                  {{"evenstep.tokenizer", std::string(100'000, 'x')}})
                  .ok());
  JobSpec spec = Spec();
  spec.model.weights = folder.path();
  const std::vector<std::string> warnings =
      JobWarnings(spec, {.num_samples = 99});
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_LE(warnings[0].size(), kMaxWarningBytes);
}

}  // namespace
}  // namespace evenstep::jobspec
