#include "worker/trainer/loop/loss_curve.h"

#include <fstream>
#include <sstream>

#include "base/testing/temp_folder.h"
#include "gtest/gtest.h"

namespace evenstep::trainer {
namespace {

std::string Content(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

constexpr LossRow kRow = {.step = 3,
                          .loss = 0.1,
                          .trained_tokens = 100,
                          .step_seconds = 0.5,
                          .learning_rate = 0.01,
                          .gradient_norm = 2};

TEST(LossCurveTest, RowsAreInTheFileAtOnceWithAllTheirDigits) {
  TempFolder folder;
  const std::string path = folder.path() + "/loss.csv";
  auto curve = LossCurve::Create(path);
  ASSERT_TRUE(curve.ok()) << curve.status();
  ASSERT_TRUE(curve->Append(kRow).ok());
  EXPECT_EQ(Content(path),
            "step,loss,trained_tokens,step_seconds,tokens_per_second,"
            "learning_rate,gradient_norm,evaluation_loss\n"
            "3,0.10000000000000001,100,0.500000,200.0,0.01,2,\n");
  EXPECT_TRUE(curve->Sync().ok());
}

TEST(LossCurveTest, EvaluationsStandInTheRowsOfTheirStepsAndInTheJson) {
  TempFolder folder;
  const std::string path = folder.path() + "/loss.csv";
  auto curve = LossCurve::Create(path);
  ASSERT_TRUE(curve.ok()) << curve.status();
  LossRow evaluated = kRow;
  evaluated.step = 4;
  evaluated.evaluation_loss = 0.3;
  ASSERT_TRUE(curve->Append(kRow).ok());
  ASSERT_TRUE(curve->Append(evaluated).ok());
  EXPECT_NE(Content(path).find(",2,0.29999999999999999\n"), std::string::npos);
  ASSERT_TRUE(curve->WriteJson(folder.path() + "/loss.json").ok());
  EXPECT_EQ(Content(folder.path() + "/loss.json"),
            "{\"columns\":[\"step\",\"loss\",\"trained_tokens\","
            "\"step_seconds\",\"tokens_per_second\",\"learning_rate\","
            "\"gradient_norm\",\"evaluation_loss\"],\"rows\":["
            "[3,0.1,100,0.5,200.0,0.01,2.0,null],"
            "[4,0.1,100,0.5,200.0,0.01,2.0,0.3]]}\n");
}

TEST(LossCurveTest, AnotherAttemptStartsAfresh) {
  TempFolder folder;
  const std::string path = folder.path() + "/loss.csv";
  ASSERT_TRUE(LossCurve::Create(path)->Append(kRow).ok());
  ASSERT_TRUE(LossCurve::Create(path).ok());
  EXPECT_EQ(Content(path).find("0.1000"), std::string::npos);
}

TEST(LossCurveTest, AFolderThatIsNotThereIsNamed) {
  const auto curve = LossCurve::Create("/nonexistent/loss.csv");
  EXPECT_TRUE(absl::IsUnavailable(curve.status()));
}

TEST(LossCurveTest, AFullDiskIsAnError) {
  auto curve = LossCurve::Create("/dev/full");
  EXPECT_FALSE(curve.ok());
}

}  // namespace
}  // namespace evenstep::trainer
