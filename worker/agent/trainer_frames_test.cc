#include "worker/agent/trainer_frames.h"

#include <functional>
#include <limits>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace evenstep::agent {
namespace {

using ::testing::HasSubstr;
using Frame = trainer::v1::ToAgent;

bool IsRefused(const std::function<void(Frame*)>& fill) {
  Frame frame;
  fill(&frame);
  return absl::IsInvalidArgument(CheckFrame(frame, /*rank=*/1,
                                            /*num_steps=*/10));
}

TEST(TrainerFramesTest, ATrainerSpeaksForItsOwnRankOnly) {
  for (int rank : {0, 2, -1, 77, std::numeric_limits<int>::max()}) {
    EXPECT_TRUE(
        IsRefused([&](Frame* f) { f->mutable_lengths()->set_rank(rank); }));
    EXPECT_TRUE(
        IsRefused([&](Frame* f) { f->mutable_step()->set_rank(rank); }));
  }
  EXPECT_FALSE(IsRefused([](Frame* f) { f->mutable_lengths()->set_rank(1); }));
  EXPECT_TRUE(IsRefused([](Frame* f) { f->mutable_hello()->set_rank(1); }));
}

TEST(TrainerFramesTest, FieldsAreBounded) {
  for (int64_t step : {int64_t{-1}, int64_t{10}, int64_t{1} << 62}) {
    EXPECT_TRUE(IsRefused([&](Frame* f) {
      f->mutable_lengths()->set_rank(1);
      f->mutable_lengths()->set_step(step);
    }));
  }
  for (int64_t steps : {int64_t{-1}, int64_t{11}}) {
    EXPECT_TRUE(IsRefused(
        [&](Frame* f) { f->mutable_finished()->set_steps_done(steps); }));
  }
  EXPECT_FALSE(
      IsRefused([](Frame* f) { f->mutable_finished()->set_steps_done(10); }));
  EXPECT_TRUE(IsRefused([](Frame* f) {
    f->mutable_finished()->set_weights_path(std::string(5000, 'a'));
  }));
  EXPECT_TRUE(IsRefused(
      [](Frame* f) { f->mutable_failure()->set_reason("two words"); }));
  EXPECT_TRUE(IsRefused([](Frame* f) { f->mutable_failure()->set_step(-2); }));
  EXPECT_FALSE(IsRefused([](Frame* f) {
    f->mutable_failure()->set_reason("NOT_FINITE");
    f->mutable_failure()->set_message(std::string(1 << 20, 'a'));
    f->mutable_failure()->set_step(-1);
  })) << "long texts for people are cut";
  EXPECT_TRUE(IsRefused([](Frame* f) { f->mutable_set()->set_value("v"); }))
      << "no key";
  EXPECT_TRUE(IsRefused([](Frame* f) {
    f->mutable_set()->set_key("k");
    f->mutable_set()->set_value(std::string(65 << 10, 'v'));
  }));
  EXPECT_TRUE(IsRefused(
      [](Frame* f) { f->mutable_get()->set_key(std::string(513, 'k')); }));
  EXPECT_TRUE(IsRefused([](Frame* f) {
    f->mutable_get()->set_key("k");
    f->mutable_get()->set_wait_ms(std::numeric_limits<int64_t>::max());
  }));
  EXPECT_TRUE(IsRefused([](Frame* f) {
    f->mutable_started()->set_emulated_link(std::string(2000, 'a'));
  }));
}

TEST(TrainerFramesTest, TheCoordinatorHearsOfTheRankThatTheAgentKnows) {
  v1::AttemptId id;
  id.set_job_id("job");
  Frame frame;
  frame.mutable_data()->set_num_samples(5);
  const auto message = ForCoordinator(frame, id, 1);
  ASSERT_TRUE(message.has_value());
  EXPECT_EQ(message->data().rank(), 1);
  EXPECT_EQ(message->data().attempt().job_id(), "job");
  frame.mutable_finished();
  EXPECT_FALSE(ForCoordinator(frame, id, 1).has_value());
  frame.mutable_step()->set_rank(0);
  EXPECT_THAT(std::string(CheckFrame(frame, 1, 10).message()),
              HasSubstr("the trainer of rank 1 sent an invalid message: step "
                        "report of rank 0"));
}

}  // namespace
}  // namespace evenstep::agent
