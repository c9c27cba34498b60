#include "client/submission.h"

#include <set>

#include "gtest/gtest.h"
#include "wire/message_bounds.h"

namespace evenstep::client {
namespace {

SubmitOptions SmallJob() {
  SubmitOptions options;
  options.job_yaml = "name: Small Job\ndata: {source: 'text:/data'}\n";
  return options;
}

TEST(Submission, AnIdIsMadeOfTheName) {
  auto submission = MakeSubmission(SmallJob());
  ASSERT_TRUE(submission.ok()) << submission.status();
  EXPECT_EQ(submission->job_id.rfind("small-job-", 0), 0u);
  EXPECT_TRUE(wire::IsLegalJobId(submission->job_id));
}

TEST(Submission, MadeIdsAreLegalForAnyName) {
  for (const char* name :
       {"", "9lives", "--", "ABC", "\xc3\xa4", "a b/c",
        "a-very-long-name-that-goes-on-and-on-and-on-and-on-and-on-and-on"}) {
    EXPECT_TRUE(wire::IsLegalJobId(MakeJobId(name))) << MakeJobId(name);
  }
}

TEST(Submission, MadeIdsDiffer) {
  std::set<std::string> ids;
  for (int i = 0; i < 1000; ++i) ids.insert(MakeJobId("a"));
  EXPECT_EQ(ids.size(), 1000u);
}

TEST(Submission, AnIllegalIdIsRefused) {
  SubmitOptions options = SmallJob();
  for (const char* id : {"Upper", "1st", "a_b", "a b"}) {
    options.job_id = id;
    EXPECT_TRUE(absl::IsInvalidArgument(MakeSubmission(options).status()))
        << id;
  }
}

TEST(Submission, AnUnknownKeyIsNamedWithItsLine) {
  SubmitOptions options = SmallJob();
  options.file_name = "my.yaml";
  options.job_yaml += "stesp: 3\n";
  const absl::Status status = MakeSubmission(options).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_NE(status.message().find("my.yaml:3"), absl::string_view::npos)
      << status;
}

}  // namespace
}  // namespace evenstep::client
