#include "coordinator/server/request_check.h"

#include <limits>
#include <string>

#include "coordinator/testing/fake_ranks.h"
#include "gtest/gtest.h"
#include "rpc/errors.h"

namespace evenstep::coordinator {
namespace {

bool IsRefused(const absl::Status& status) {
  return absl::IsInvalidArgument(status);
}

TEST(RequestCheckTest, ASubmitHasALegalIdAndABoundedSpec) {
  v1::SubmitRequest request = testing::SmallJob("job", 2, 6);
  EXPECT_TRUE(CheckRequest(request).ok());
  request.set_job_id(std::string(64, 'a'));
  EXPECT_EQ(rpc::ReasonOf(CheckRequest(request)), "INVALID_SPEC");
  request = testing::SmallJob("job", 2, 6);
  request.mutable_spec()->set_name(std::string(300 << 10, 'a'));
  EXPECT_TRUE(IsRefused(CheckRequest(request)));
}

TEST(RequestCheckTest, IdsThatNoJobHasAreShort) {
  v1::GetRequest get;
  get.set_job_id("No_Such_Job");
  EXPECT_TRUE(CheckRequest(get).ok()) << "there is none: NOT_FOUND";
  get.set_job_id(std::string(64, 'a'));
  EXPECT_TRUE(IsRefused(CheckRequest(get)));
  v1::CancelRequest cancel;
  cancel.set_job_id("a\nb");
  EXPECT_TRUE(IsRefused(CheckRequest(cancel)));
  cancel.set_job_id("job");
  cancel.set_message(std::string(65 << 10, 'a'));
  EXPECT_TRUE(IsRefused(CheckRequest(cancel)));
}

TEST(RequestCheckTest, PagesAndCursorsAreBounded) {
  v1::ListRequest list;
  list.set_page_token("17");
  EXPECT_TRUE(CheckRequest(list).ok());
  for (const char* token : {"-1", "x", "99999999999999999999", "1 2"}) {
    list.set_page_token(token);
    EXPECT_TRUE(IsRefused(CheckRequest(list))) << token;
  }
  list.clear_page_token();
  list.set_page_size(-1);
  EXPECT_TRUE(IsRefused(CheckRequest(list)));
  list.set_page_size(1);
  for (int i = 0; i < 100; ++i) list.add_states(v1::JOB_STATE_QUEUED);
  EXPECT_TRUE(IsRefused(CheckRequest(list)));

  v1::WatchRequest watch;
  watch.set_job_id("job");
  watch.set_after_step(-1);
  EXPECT_TRUE(CheckRequest(watch).ok());
  watch.set_after_step(-2);
  EXPECT_TRUE(IsRefused(CheckRequest(watch)));
  watch.set_after_step(0);
  watch.set_after_sequence(std::numeric_limits<int64_t>::min());
  EXPECT_TRUE(IsRefused(CheckRequest(watch)));
  v1::LogsRequest logs;
  logs.set_job_id("job");
  EXPECT_TRUE(CheckRequest(logs).ok());
  logs.set_after_sequence(-1);
  EXPECT_TRUE(IsRefused(CheckRequest(logs)));
}

}  // namespace
}  // namespace evenstep::coordinator
