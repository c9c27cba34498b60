#include "coordinator/attempts/rank_reports.h"

#include "coordinator/testing/test_run.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace evenstep::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr absl::Duration kNow = absl::Seconds(10);
constexpr absl::Duration kGrace = absl::Milliseconds(500);

class RankReportsTest : public ::testing::Test {
 protected:
  bool CauseIsDue(absl::Duration now) {
    return ending_.DueCause(now) != nullptr;
  }
  // The one that the attempt ends with if nothing better comes.
  const FailureCause* cause() {
    return ending_.DueCause(absl::InfiniteDuration());
  }

  void CollectiveFailed(int rank) {
    v1::AbandonRequest request;
    request.set_rank(rank);
    request.set_reason("COLLECTIVE_FAILED");
    request.set_message("connection closed by peer");
    ending_.AddCause(reports_.AddAbandonRequest(request), kNow);
  }
  void Exit(int rank, int signal, int status = 0, bool clean = false) {
    v1::TrainerExited exited;
    exited.set_rank(rank);
    exited.set_signal(signal);
    exited.set_exit_status(status);
    exited.set_clean(clean);
    const auto cause = reports_.AddExit(exited, true);
    if (cause) ending_.AddCause(*cause, kNow);
  }

  RankReports reports_{{{"node0", 0, 2}, {"node1", 2, 1}}};
  NodeRuns nodes_;
  testing::FakeLinks links_;
  AttemptTimes times_;
  AttemptEnding ending_{{}, nodes_, links_, times_};
};

TEST_F(RankReportsTest, RanksBelongToTheNodesOfTheirShares) {
  EXPECT_EQ(reports_.world(), 3);
  EXPECT_EQ(reports_.NodeOf(1), "node0");
  EXPECT_EQ(reports_.NodeOf(2), "node1");
  EXPECT_FALSE(reports_.HasRank(3));
  EXPECT_FALSE(reports_.HasRank(-1));
}

TEST_F(RankReportsTest, ItHasStartedWhenEveryRankHas) {
  reports_.MarkStarted(0);
  reports_.MarkStarted(2);
  EXPECT_FALSE(reports_.all_started());
  EXPECT_THAT(reports_.RanksNotStarted(), ElementsAre(1));
  reports_.MarkStarted(1);
  EXPECT_TRUE(reports_.all_started());
}

TEST_F(RankReportsTest, AKilledTrainerIsTheCauseThoughItsPeersSpokeFirst) {
  CollectiveFailed(0);
  CollectiveFailed(2);
  EXPECT_FALSE(CauseIsDue(kNow)) << "waits for a better one";
  Exit(1, 9);
  EXPECT_TRUE(CauseIsDue(kNow));
  EXPECT_EQ(cause()->reason, "TRAINER_KILLED");
  EXPECT_EQ(cause()->message, "rank 1 (node0) ended by signal 9");
}

TEST_F(RankReportsTest,
       TheRankThatKnowsTheReasonIsTheCauseThoughItsPeerSpokeFirst) {
  v1::AbandonRequest request;
  request.set_rank(0);
  request.set_reason("PEER_FAILED");
  request.set_message("another rank cannot run step 2: DATA_ERROR");
  ending_.AddCause(reports_.AddAbandonRequest(request), kNow);
  EXPECT_FALSE(CauseIsDue(kNow)) << "waits for a better one";
  request.set_rank(1);
  request.set_reason("DATA_ERROR");
  request.set_message("sample 7 (7.txt) cannot be read");
  ending_.AddCause(reports_.AddAbandonRequest(request), kNow);
  EXPECT_TRUE(CauseIsDue(kNow));
  EXPECT_EQ(cause()->reason, "DATA_ERROR");
  EXPECT_EQ(cause()->message,
            "rank 1 (node0): sample 7 (7.txt) cannot be read");
}

TEST_F(RankReportsTest, WithoutABetterCauseTheConsequenceStandsAfterTheGrace) {
  CollectiveFailed(0);
  EXPECT_FALSE(CauseIsDue(kNow + kGrace - absl::Milliseconds(1)));
  EXPECT_TRUE(CauseIsDue(kNow + kGrace));
  EXPECT_EQ(cause()->reason, "COLLECTIVE_FAILED");
}

TEST_F(RankReportsTest, ARankThatGaveUpAndThenCrashesIsNotTheCulprit) {
  CollectiveFailed(0);
  Exit(0, 6);  // Gloo aborts in teardown
  EXPECT_EQ(cause()->reason, "COLLECTIVE_FAILED");
  Exit(1, 9);
  EXPECT_THAT(cause()->message, HasSubstr("rank 1"));
}

TEST_F(RankReportsTest, TheFirstProperCauseStays) {
  Exit(1, 9);
  Exit(2, 11);
  EXPECT_THAT(cause()->message, HasSubstr("signal 9"));
}

TEST_F(RankReportsTest, ARankThatEndsByItselfWaitsForTheRealCulprit) {
  Exit(0, 0, 1);
  EXPECT_FALSE(CauseIsDue(kNow));
  Exit(1, 9);
  EXPECT_EQ(cause()->reason, "TRAINER_KILLED");
}

TEST_F(RankReportsTest, ItEndsCleanWhenEveryRankDoes) {
  Exit(0, 0, 0, true);
  Exit(1, 0, 0, true);
  EXPECT_FALSE(reports_.all_ended_clean());
  Exit(2, 0, 0, true);
  EXPECT_TRUE(reports_.all_ended_clean());
  EXPECT_EQ(cause(), nullptr);
}

TEST_F(RankReportsTest, RanksThatSeeOtherDataAreNamed) {
  v1::DataSummary data;
  data.set_num_samples(5);
  data.set_content_key(7);
  ASSERT_TRUE(reports_.AddData(0, data).ok());
  EXPECT_FALSE(reports_.agreed_data().has_value());
  data.set_content_key(8);
  const absl::Status status = reports_.AddData(2, data);
  EXPECT_THAT(status.message(), HasSubstr("rank 0 (node0) 5 samples"));
  EXPECT_THAT(status.message(), HasSubstr("rank 2 (node1) 5 samples"));
}

TEST_F(RankReportsTest, EntriesThatAreNoDataAndWarningsMayDiffer) {
  v1::DataSummary data;
  data.set_num_samples(5);
  ASSERT_TRUE(reports_.AddData(0, data).ok());
  data.set_num_own_files(3);
  data.set_num_hidden_files(1);
  data.add_warnings("of a config.json that one node has");
  EXPECT_TRUE(reports_.AddData(2, data).ok());
}

TEST_F(RankReportsTest, DataIsAgreedWhenAllRanksSeeTheSame) {
  v1::DataSummary data;
  data.set_num_samples(5);
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_FALSE(reports_.agreed_data().has_value());
    ASSERT_TRUE(reports_.AddData(rank, data).ok());
  }
  EXPECT_EQ(reports_.agreed_data()->num_samples(), 5);
}

TEST_F(RankReportsTest, RanksOutsideTheAttemptAreIgnored) {
  v1::DataSummary data;
  for (int rank : {-1, 3, 77}) {
    EXPECT_EQ(reports_.NodeOf(rank), "");
    reports_.MarkStarted(rank);
    Exit(rank, 9);
    EXPECT_EQ(reports_.AddData(rank, data).code(),
              absl::StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(reports_.RanksNotStarted().size(), 3u);
  EXPECT_EQ(cause(), nullptr);
}

TEST_F(RankReportsTest, AProcessEndsOnce) {
  Exit(0, 0, 1);
  Exit(0, 0, 0, true);
  Exit(1, 0, 0, true);
  Exit(2, 0, 0, true);
  Exit(2, 9);
  EXPECT_FALSE(reports_.all_ended_clean()) << "rank 0 failed";
  EXPECT_TRUE(reports_.ended_clean("node1"));
  EXPECT_EQ(cause()->reason, "TRAINER_FAILED");
}

TEST_F(RankReportsTest, ARankThatSeesOtherDataThanBeforeIsNamed) {
  v1::DataSummary data;
  data.set_num_samples(5);
  ASSERT_TRUE(reports_.AddData(0, data).ok());
  ASSERT_TRUE(reports_.AddData(0, data).ok()) << "a repeat";
  data.set_num_samples(6);
  EXPECT_THAT(reports_.AddData(0, data).message(),
              HasSubstr("rank 0 (node0) sees 6 samples"));
}

}  // namespace
}  // namespace evenstep::coordinator
