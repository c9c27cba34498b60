#include "jobspec/open_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "base/testing/temp_folder.h"
#include "data/megatron/megatron_writer.h"

namespace evenstep::jobspec {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kLaw[] = "synthetic:lognormal(median=20, sigma=1);documents=500";

JobSpec Spec() {
  JobSpec spec;
  spec.data.source = kLaw;
  spec.data.max_length = 60;
  spec.data.on_too_long = OnTooLong::kSkip;
  return spec;
}

TEST(OpenDataTest, WithoutEvaluationNothingIsHeldOut) {
  const auto data = OpenData(Spec());
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->held_out, nullptr);
  EXPECT_TRUE(data->evaluated.documents.empty());
  EXPECT_EQ(data->content_key, data->training->summary().content_key);
}

TEST(OpenDataTest, AShareIsTakenOfWhatTheRulesLeave) {
  const int64_t left = OpenData(Spec())->training->summary().num_samples;
  EXPECT_LT(left, 500);
  JobSpec spec = Spec();
  spec.evaluation.share = 0.2;
  spec.evaluation.samples = 7;
  const auto data = OpenData(spec);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->training->summary().num_samples +
                data->held_out->summary().num_samples,
            left);
  EXPECT_EQ(data->evaluated.documents.size(), 7u);
}

TEST(OpenDataTest, ASourceOfItsOwnIsUnderTheSameRulesAndInTheKey) {
  JobSpec spec = Spec();
  spec.evaluation.source = std::string(kLaw) + ";seed=1";
  const auto data = OpenData(spec);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->training->summary().num_samples,
            OpenData(Spec())->training->summary().num_samples);
  EXPECT_GT(data->held_out->summary().num_too_long, 0);
  EXPECT_LE(data->held_out->summary().longest, 60);
  EXPECT_NE(data->content_key, OpenData(Spec())->content_key);
}

// The same documents under other names, through a link and as a copy.
TEST(OpenDataTest, EvaluationDocumentsThatAreTrainedOnAreCounted) {
  TempFolder folder;
  const std::filesystem::path root = folder.path();
  std::filesystem::create_directories(root / "train");
  std::filesystem::create_directories(root / "held");
  for (const char* const name : {"a", "b", "c"}) {
    std::ofstream(root / "train" / name) << "document " << name;
    std::ofstream(root / "held" / name) << "unseen " << name;
  }
  JobSpec spec;
  spec.data.source = "text:" + (root / "train").string();
  spec.data.max_length = 60;
  spec.batch_samples = 1;
  spec.evaluation.source = "text:" + (root / "held").string();
  ASSERT_TRUE(OpenData(spec).ok()) << OpenData(spec).status();
  EXPECT_THAT(OpenData(spec)->warnings, IsEmpty());
  std::filesystem::copy_file(root / "train/a", root / "held/copy");
  EXPECT_THAT(OpenData(spec)->warnings,
              ElementsAre(HasSubstr("1 of 4 evaluation documents is a training "
                                    "document too")));
  spec.evaluation.source = "text:" + (root / "train/*").string();
  EXPECT_THAT(OpenData(spec)->warnings,
              ElementsAre(HasSubstr("3 of 3 evaluation documents are training "
                                    "documents too")));
}

TEST(OpenDataTest, TokensOutsideTheVocabularyAreRefused) {
  JobSpec spec = Spec();
  spec.model.vocab = 256;
  EXPECT_THAT(OpenData(spec).status().ToString(),
              HasSubstr("set model.vocab to 257 or more"));
}

// A source with token ids of its own is judged sample by sample.
TEST(OpenDataTest, IdsOutsideTheModelsVocabularyGoByTheJobsRule) {
  TempFolder folder;
  auto writer = data::MegatronWriter::Create(folder.path() + "/corpus",
                                             data::MegatronType::kUint16);
  ASSERT_TRUE(writer.ok()) << writer.status();
  ASSERT_TRUE(writer->AddDocument({1, 2, 3}).ok());
  ASSERT_TRUE(writer->AddDocument({4, 300}).ok());
  ASSERT_TRUE(std::move(*writer).Finish().ok());
  JobSpec spec;
  spec.data.source = "megatron:" + folder.path() + "/corpus";
  EXPECT_THAT(OpenData(spec).status().ToString(),
              HasSubstr("document 1 of corpus.bin: token 1 has id 300, "
                        "model.vocab is 257"));
  spec.data.on_bad_sample = OnBadSample::kSkip;
  const auto data = OpenData(spec);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->training->summary().num_bad, 1);
  EXPECT_EQ(data->training->summary().num_samples, 1);
  spec.model.vocab = 301;
  EXPECT_EQ(OpenData(spec)->training->summary().num_samples, 2);
}

}  // namespace
}  // namespace evenstep::jobspec
