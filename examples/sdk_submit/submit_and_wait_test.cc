#include "submit_and_wait.h"

#include <sstream>

#include "evenstep/testing/fake_client.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace evenstep::examples {
namespace {

using ::testing::EndsWith;
using ::testing::StartsWith;

TEST(SdkSubmit, PrintsTheLossAndReturnsTheFinishedJob) {
  client::FakeClient fake;
  fake.ScriptSubmit([](client::FakeClient& f, const client::Job& job) {
    client::StepSummary step;
    step.loss = 5.5;
    f.AddStep(job.id, step);
    client::JobEvent event;
    event.state = client::JobState::kSucceeded;
    f.AddEvent(job.id, event);
  });
  std::ostringstream out;
  auto job =
      SubmitAndWait(fake, "name: demo\ndata: {source: 'text:/data'}\n", out);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->state, client::JobState::kSucceeded);
  EXPECT_THAT(out.str(), StartsWith("submitted demo-"));
  EXPECT_THAT(out.str(), EndsWith("step 0 loss 5.5\nSUCCEEDED\n"));
}

TEST(SdkSubmit, AMistakeInTheJobFileIsReturned) {
  client::FakeClient fake;
  std::ostringstream out;
  auto job = SubmitAndWait(fake, "nmae: demo\n", out);
  EXPECT_TRUE(absl::IsInvalidArgument(job.status())) << job.status();
}

}  // namespace
}  // namespace evenstep::examples
