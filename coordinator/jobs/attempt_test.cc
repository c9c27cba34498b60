#include "coordinator/jobs/attempt.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace evenstep::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr absl::Duration kNow = absl::Seconds(10);
constexpr absl::Duration kGrace = absl::Milliseconds(500);

class AttemptTest : public ::testing::Test {
 protected:
  AttemptTest() : attempt_({}, {{"node0", 0, 2}, {"node1", 2, 1}}) {}

  void CollectiveFailed(int rank) {
    v1::AbandonRequest request;
    request.set_rank(rank);
    request.set_reason("COLLECTIVE_FAILED");
    request.set_message("connection closed by peer");
    attempt_.AddAbandonRequest(request, kNow);
  }
  void Exit(int rank, int signal, int status = 0, bool clean = false) {
    v1::TrainerExited exited;
    exited.set_rank(rank);
    exited.set_signal(signal);
    exited.set_exit_status(status);
    exited.set_clean(clean);
    attempt_.AddExit(exited, true, kNow);
  }

  Attempt attempt_;
};

TEST_F(AttemptTest, RanksBelongToTheNodesOfTheirShares) {
  EXPECT_EQ(attempt_.world(), 3);
  EXPECT_EQ(attempt_.NodeOf(1), "node0");
  EXPECT_EQ(attempt_.NodeOf(2), "node1");
  EXPECT_FALSE(attempt_.HasRank(3));
  EXPECT_FALSE(attempt_.HasRank(-1));
}

TEST_F(AttemptTest, ItHasStartedWhenEveryRankHas) {
  attempt_.MarkStarted(0);
  attempt_.MarkStarted(2);
  EXPECT_FALSE(attempt_.all_started());
  EXPECT_THAT(attempt_.RanksNotStarted(), ElementsAre(1));
  attempt_.MarkStarted(1);
  EXPECT_TRUE(attempt_.all_started());
}

TEST_F(AttemptTest, AKilledTrainerIsTheCauseThoughItsPeersSpokeFirst) {
  CollectiveFailed(0);
  CollectiveFailed(2);
  EXPECT_FALSE(attempt_.CauseIsDue(kNow, kGrace)) << "waits for a better one";
  Exit(1, 9);
  EXPECT_TRUE(attempt_.CauseIsDue(kNow, kGrace));
  EXPECT_EQ(attempt_.cause()->reason, "TRAINER_KILLED");
  EXPECT_EQ(attempt_.cause()->message, "rank 1 (node0) ended by signal 9");
}

TEST_F(AttemptTest,
       TheRankThatKnowsTheReasonIsTheCauseThoughItsPeerSpokeFirst) {
  v1::AbandonRequest request;
  request.set_rank(0);
  request.set_reason("PEER_FAILED");
  request.set_message("another rank cannot run step 2: DATA_ERROR");
  attempt_.AddAbandonRequest(request, kNow);
  EXPECT_FALSE(attempt_.CauseIsDue(kNow, kGrace)) << "waits for a better one";
  request.set_rank(1);
  request.set_reason("DATA_ERROR");
  request.set_message("sample 7 (7.txt) cannot be read");
  attempt_.AddAbandonRequest(request, kNow);
  EXPECT_TRUE(attempt_.CauseIsDue(kNow, kGrace));
  EXPECT_EQ(attempt_.cause()->reason, "DATA_ERROR");
  EXPECT_EQ(attempt_.cause()->message,
            "rank 1 (node0): sample 7 (7.txt) cannot be read");
}

TEST_F(AttemptTest, WithoutABetterCauseTheConsequenceStandsAfterTheGrace) {
  CollectiveFailed(0);
  EXPECT_FALSE(
      attempt_.CauseIsDue(kNow + kGrace - absl::Milliseconds(1), kGrace));
  EXPECT_TRUE(attempt_.CauseIsDue(kNow + kGrace, kGrace));
  EXPECT_EQ(attempt_.cause()->reason, "COLLECTIVE_FAILED");
}

TEST_F(AttemptTest, ARankThatGaveUpAndThenCrashesIsNotTheCulprit) {
  CollectiveFailed(0);
  Exit(0, 6);  // Gloo aborts in teardown
  EXPECT_EQ(attempt_.cause()->reason, "COLLECTIVE_FAILED");
  Exit(1, 9);
  EXPECT_THAT(attempt_.cause()->message, HasSubstr("rank 1"));
}

TEST_F(AttemptTest, TheFirstProperCauseStays) {
  Exit(1, 9);
  Exit(2, 11);
  EXPECT_THAT(attempt_.cause()->message, HasSubstr("signal 9"));
}

TEST_F(AttemptTest, ARankThatEndsByItselfWaitsForTheRealCulprit) {
  Exit(0, 0, 1);
  EXPECT_FALSE(attempt_.CauseIsDue(kNow, kGrace));
  Exit(1, 9);
  EXPECT_EQ(attempt_.cause()->reason, "TRAINER_KILLED");
}

TEST_F(AttemptTest, ItEndsCleanWhenEveryRankDoes) {
  Exit(0, 0, 0, true);
  Exit(1, 0, 0, true);
  EXPECT_FALSE(attempt_.all_ended_clean());
  Exit(2, 0, 0, true);
  EXPECT_TRUE(attempt_.all_ended_clean());
  EXPECT_FALSE(attempt_.cause().has_value());
}

TEST_F(AttemptTest, RanksThatSeeOtherDataAreNamed) {
  v1::DataSummary data;
  data.set_num_samples(5);
  data.set_content_key(7);
  ASSERT_TRUE(attempt_.AddData(0, data).ok());
  EXPECT_FALSE(attempt_.agreed_data().has_value());
  data.set_content_key(8);
  const absl::Status status = attempt_.AddData(2, data);
  EXPECT_THAT(status.message(), HasSubstr("rank 0 (node0) 5 samples"));
  EXPECT_THAT(status.message(), HasSubstr("rank 2 (node1) 5 samples"));
}

TEST_F(AttemptTest, EntriesThatAreNoDataAndWarningsMayDiffer) {
  v1::DataSummary data;
  data.set_num_samples(5);
  ASSERT_TRUE(attempt_.AddData(0, data).ok());
  data.set_num_own_files(3);
  data.set_num_hidden_files(1);
  data.add_warnings("of a config.json that one node has");
  EXPECT_TRUE(attempt_.AddData(2, data).ok());
}

TEST_F(AttemptTest, DataIsAgreedWhenAllRanksSeeTheSame) {
  v1::DataSummary data;
  data.set_num_samples(5);
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_FALSE(attempt_.agreed_data().has_value());
    ASSERT_TRUE(attempt_.AddData(rank, data).ok());
  }
  EXPECT_EQ(attempt_.agreed_data()->num_samples(), 5);
}

TEST_F(AttemptTest, RanksOutsideTheAttemptAreIgnored) {
  v1::DataSummary data;
  for (int rank : {-1, 3, 77}) {
    EXPECT_EQ(attempt_.NodeOf(rank), "");
    attempt_.MarkStarted(rank);
    Exit(rank, 9);
    EXPECT_EQ(attempt_.AddData(rank, data).code(),
              absl::StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(attempt_.RanksNotStarted().size(), 3u);
  EXPECT_FALSE(attempt_.cause().has_value());
}

TEST_F(AttemptTest, AProcessEndsOnce) {
  Exit(0, 0, 1);
  Exit(0, 0, 0, true);
  Exit(1, 0, 0, true);
  Exit(2, 0, 0, true);
  Exit(2, 9);
  EXPECT_FALSE(attempt_.all_ended_clean()) << "rank 0 failed";
  EXPECT_TRUE(attempt_.ended_clean("node1"));
  EXPECT_EQ(attempt_.cause()->reason, "TRAINER_FAILED");
}

TEST_F(AttemptTest, ARankThatSeesOtherDataThanBeforeIsNamed) {
  v1::DataSummary data;
  data.set_num_samples(5);
  ASSERT_TRUE(attempt_.AddData(0, data).ok());
  ASSERT_TRUE(attempt_.AddData(0, data).ok()) << "a repeat";
  data.set_num_samples(6);
  EXPECT_THAT(attempt_.AddData(0, data).message(),
              HasSubstr("rank 0 (node0) sees 6 samples"));
}

TEST_F(AttemptTest, ItIsGoneWhenEveryNodeHasConfirmed) {
  attempt_.MarkGone("node1");
  EXPECT_FALSE(attempt_.all_gone());
  EXPECT_THAT(attempt_.NodesNotGone(), ElementsAre("node0"));
  attempt_.MarkGone("node0");
  EXPECT_TRUE(attempt_.all_gone());
}

}  // namespace
}  // namespace evenstep::coordinator
