// The states that NCCL can be in, each reached with the fake: set-up that is
// slow, refused, stuck or hanging; a collective that is refused, fails later,
// stalls or hangs; an abort from outside, before, in and after a collective; an
// abort that hangs; a close that does not end or hangs.

#include <deque>
#include <functional>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "base/status_macros.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/trainer/comm/flight_recorder.h"
#include "worker/trainer/comm/nccl_communicator.h"
#include "worker/trainer/comm/testing/fake_nccl.h"
#include "worker/trainer/comm/testing/run_ranks.h"

namespace evenstep::trainer {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using testing::FakeNccl;
using ::testing::HasSubstr;
using testing::kForEver;
using testing::NcclFaults;
using testing::RunRanks;

// Set-up warms with two operations.
constexpr int kFirstOperation = 2;

class NcclSessionTest : public ::testing::Test {
 protected:
  using Body = std::function<absl::Status(Communicator& communicator)>;

  // `body` on both ranks of a pair; faults_ are rank 0's, rank 1 is healthy.
  std::vector<absl::Status> RunPair(const Body& body) {
    tables_.clear();
    tables_.push_back(nccl_.MakeTable(&faults_));
    tables_.push_back(nccl_.MakeTable(&healthy_));
    return RunRanks(2, [&](int rank) -> absl::Status {
      EVENSTEP_ASSIGN_OR_RETURN(auto pair, Create(rank));
      return body(*pair);
    });
  }

  absl::StatusOr<std::unique_ptr<Communicator>> Create(int rank) {
    NcclOptions options;
    options.timeout = timeout_;
    options.abort_grace = abort_grace_;
    options.end_process = [this](absl::string_view why) {
      absl::MutexLock lock(&mutex_);
      ends_.push_back(std::string(why));
      // In a trainer this is the end; here the test goes on.
      if (ends_.size() == 1) nccl_.Release();
    };
    auto factory = MakeNcclFactory(options, tables_[rank].get(), &store_);
    auto pair = factory->Create("generation-3/group-0+2", {0, 2}, rank);
    // Set-up has all the time it needs, the body's calls have this.
    factory->SetTimeout(body_timeout_);
    return pair;
  }

  std::vector<std::string> ends() {
    absl::MutexLock lock(&mutex_);
    return ends_;
  }

  static absl::Status Sum(Communicator& pair) {
    std::vector<float> value = {1.0F};
    EVENSTEP_RETURN_IF_ERROR(pair.AllReduceSum(absl::MakeSpan(value)));
    return value[0] == 2.0F ? absl::OkStatus()
                            : absl::InternalError("wrong sum");
  }

  FakeNccl nccl_;
  NcclFaults faults_;
  NcclFaults healthy_;
  absl::Duration timeout_ = absl::Seconds(20);
  absl::Duration body_timeout_ = absl::Seconds(20);
  absl::Duration abort_grace_ = absl::Seconds(20);
  std::vector<std::unique_ptr<NcclTable>> tables_;
  MemoryRendezvousStore store_;
  absl::Mutex mutex_;
  std::vector<std::string> ends_;
};

TEST_F(NcclSessionTest, ASlowSetUpIsWaitedFor) {
  faults_.init_polls = 300;
  EXPECT_THAT(RunPair(&Sum), Each(absl::OkStatus()));
  EXPECT_EQ(nccl_.num_destroyed(), 2);
  EXPECT_EQ(nccl_.num_aborted(), 0);
}

TEST_F(NcclSessionTest, ASetUpThatDoesNotEndIsATimeOutAndIsAborted) {
  faults_.init_polls = kForEver;
  timeout_ = absl::Milliseconds(100);
  const auto statuses = RunPair(&Sum);
  EXPECT_EQ(statuses[0].code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(statuses[0].message()),
              AllOf(HasSubstr("NCCL set-up of group generation-3/group-0+2 "
                              "(rank 0 of 2) is not over after"),
                    HasSubstr("its limit is 100ms")));
  EXPECT_FALSE(statuses[1].ok()) << "its peer never warms the group";
  EXPECT_EQ(nccl_.num_aborted(), 2);
  EXPECT_EQ(nccl_.num_live(), 0);
}

TEST_F(NcclSessionTest, ASetUpThatIsRefusedLeavesNothingToAbort) {
  faults_.init_result = NcclResult::kInvalidArgument;
  timeout_ = absl::Milliseconds(100);
  const auto statuses = RunPair(&Sum);
  EXPECT_EQ(statuses[0],
            absl::InternalError("NCCL set-up of group generation-3/group-0+2 "
                                "(rank 0 of 2) failed with code 4: fake error "
                                "4"));
  EXPECT_EQ(nccl_.num_aborted(), 1) << "the peer's, which waited for us";
}

TEST_F(NcclSessionTest, ASetUpThatFailsLaterIsAborted) {
  faults_.init_async = NcclResult::kSystemError;
  timeout_ = absl::Milliseconds(500);
  const auto statuses = RunPair(&Sum);
  EXPECT_EQ(statuses[0].code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(statuses[0].message()),
              HasSubstr("failed with code 2"));
  EXPECT_EQ(nccl_.num_live(), 0);
}

TEST_F(NcclSessionTest, ASetUpCallThatHangsEndsTheProcess) {
  faults_.init_hangs = true;
  timeout_ = absl::Milliseconds(50);
  abort_grace_ = absl::Milliseconds(50);
  RunPair(&Sum);
  EXPECT_THAT(ends(), Contains(HasSubstr(
                          "set-up of NCCL group generation-3/group-0+2 did "
                          "not return within 100ms: ending the process")));
}

TEST_F(NcclSessionTest, AnAsynchronousErrorBreaksTheGroupWithItsNumbers) {
  faults_.fail_operation = kFirstOperation;
  faults_.failure = NcclResult::kSystemError;
  const auto statuses = RunPair([](Communicator& pair) {
    const absl::Status first = Sum(pair);
    EXPECT_EQ(pair.rank() == 0 ? pair.Barrier() : first, first)
        << "a broken group stays broken";
    return first;
  });
  EXPECT_EQ(statuses[0],
            absl::UnavailableError(
                "NCCL all-reduce 3 of group generation-3/group-0+2 (rank 0 of "
                "2) failed with code 2: fake error 2"));
  EXPECT_GE(nccl_.num_aborted(), 1);
  EXPECT_EQ(nccl_.num_live(), 0);
  EXPECT_EQ(nccl_.num_allocations(), 0);
}

TEST_F(NcclSessionTest, AnErrorOfTheDeviceOrOfUsageIsInternal) {
  faults_.fail_operation = kFirstOperation;
  faults_.failure = NcclResult::kUnhandledCudaError;
  EXPECT_EQ(RunPair(&Sum)[0].code(), absl::StatusCode::kInternal);
}

TEST_F(NcclSessionTest, AStreamThatFailedIsInternal) {
  faults_.fail_stream_at_operation = kFirstOperation;
  EXPECT_EQ(RunPair(&Sum)[0].code(), absl::StatusCode::kInternal);
  EXPECT_EQ(nccl_.num_live(), 0);
}

TEST_F(NcclSessionTest, ACollectiveThatIsRefusedBreaksTheGroup) {
  faults_.refuse_operation = kFirstOperation;
  faults_.refusal = NcclResult::kInternalError;
  const auto statuses = RunPair(&Sum);
  EXPECT_EQ(statuses[0].code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(statuses[1].code(), absl::StatusCode::kUnavailable)
      << "the peer notices that rank 0 has left";
}

TEST_F(NcclSessionTest, AKernelThatNeverEndsIsATimeOutOnBothRanks) {
  faults_.stall_operation = kFirstOperation;
  faults_.notices_peers = healthy_.notices_peers = false;
  body_timeout_ = absl::Milliseconds(200);
  const auto statuses = RunPair(&Sum);
  EXPECT_EQ(statuses[0].code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(statuses[0].message()),
              HasSubstr("NCCL all-reduce 3 of group generation-3/group-0+2"));
  EXPECT_EQ(statuses[1].code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(nccl_.num_aborted(), 2);
}

TEST_F(NcclSessionTest, ATimeOutThatIsSetLaterHoldsForGroupsThatAreThere) {
  tables_.push_back(nccl_.MakeTable(&faults_));
  tables_.push_back(nccl_.MakeTable(&healthy_));
  faults_.stall_operation = kFirstOperation;
  faults_.notices_peers = healthy_.notices_peers = false;
  const auto statuses = RunRanks(2, [&](int rank) -> absl::Status {
    NcclOptions options;
    options.end_process = [](absl::string_view) {};
    auto factory = MakeNcclFactory(options, tables_[rank].get(), &store_);
    EVENSTEP_ASSIGN_OR_RETURN(auto pair, factory->Create("pair", {0, 2}, rank));
    factory->SetTimeout(absl::Milliseconds(100));
    return Sum(*pair);
  });
  EXPECT_EQ(statuses[0].code(), absl::StatusCode::kDeadlineExceeded);
}

// Rank 0 aborts from another thread while it is in a collective.
TEST_F(NcclSessionTest, AnAbortFromOutsideWakesACollective) {
  faults_.stall_operation = kFirstOperation;
  const auto statuses = RunPair([&](Communicator& pair) -> absl::Status {
    std::thread killer;
    if (pair.rank() == 0) {
      killer = std::thread([&] {
        nccl_.AwaitStuckOperation();
        pair.Abort("the generation is over");
      });
    }
    const absl::Status status = Sum(pair);
    if (killer.joinable()) killer.join();
    return status;
  });
  EXPECT_EQ(statuses[0],
            absl::AbortedError("collectives aborted: the generation is over"));
  EXPECT_EQ(statuses[1].code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(nccl_.num_aborted(), 2) << "each group once";
}

TEST_F(NcclSessionTest, AnAbortBetweenCollectivesIsDoneByItsCaller) {
  const auto statuses = RunPair([this](Communicator& pair) -> absl::Status {
    if (pair.rank() == 1) return absl::OkStatus();
    pair.Abort("first");
    pair.Abort("second");
    EXPECT_GE(nccl_.num_aborted(), 1);
    return pair.Barrier();
  });
  EXPECT_EQ(statuses[0], absl::AbortedError("collectives aborted: first"));
}

TEST_F(NcclSessionTest, AnAbortThatHangsEndsTheProcess) {
  faults_.stall_operation = kFirstOperation;
  faults_.abort_hangs = true;
  faults_.notices_peers = healthy_.notices_peers = false;
  body_timeout_ = absl::Milliseconds(50);
  abort_grace_ = absl::Milliseconds(50);
  RunPair(&Sum);
  EXPECT_THAT(ends(), Contains(HasSubstr(
                          "abort of NCCL group generation-3/group-0+2 did not "
                          "return within 50ms: ending the process")));
}

TEST_F(NcclSessionTest, ACallThatHangsEndsTheProcessOnceItIsAborted) {
  faults_.hang_operation = kFirstOperation;
  abort_grace_ = absl::Milliseconds(50);
  RunPair([&](Communicator& pair) -> absl::Status {
    if (pair.rank() == 1) return Sum(pair);
    std::thread killer([&] {
      nccl_.AwaitStuckOperation();
      pair.Abort("the generation is over");
    });
    const absl::Status status = Sum(pair);
    killer.join();
    return status;
  });
  EXPECT_THAT(ends(),
              Contains(HasSubstr("the aborted collective of NCCL group")));
}

// Nobody aborts: the call's own time is up.
TEST_F(NcclSessionTest, ACallThatHangsEndsTheProcessAtItsTimeOut) {
  faults_.hang_operation = kFirstOperation;
  body_timeout_ = absl::Milliseconds(50);
  abort_grace_ = absl::Milliseconds(50);
  RunPair(&Sum);
  EXPECT_THAT(ends(), Contains(HasSubstr(
                          "all-reduce 3 of NCCL group generation-3/group-0+2 "
                          "did not return within 100ms: ending the process")));
}

TEST_F(NcclSessionTest, ACloseThatHangsEndsTheProcess) {
  faults_.finalize_hangs = true;
  abort_grace_ = absl::Milliseconds(50);
  RunPair(&Sum);
  EXPECT_THAT(ends(), Contains(HasSubstr("finalize of NCCL group")));
}

// A hang in NCCL's abort keeps the collective from ever saying that it failed:
// what the rank waited in is in the log before the process ends.
TEST_F(NcclSessionTest, AHungProcessLeavesItsLastCollectivesInTheLog) {
  faults_.stall_operation = kFirstOperation;
  faults_.abort_hangs = true;
  faults_.notices_peers = healthy_.notices_peers = false;
  abort_grace_ = absl::Milliseconds(50);
  FlightRecorder ring;
  int64_t dumps_at_end = -1;
  tables_.push_back(nccl_.MakeTable(&faults_));
  tables_.push_back(nccl_.MakeTable(&healthy_));
  RunRanks(2, [&](int rank) -> absl::Status {
    NcclOptions options;
    if (rank == 0) {
      options.abort_grace = abort_grace_;
      options.end_process = DumpThenEnd(&ring, [&](absl::string_view) {
        dumps_at_end = ring.num_dumps();
        nccl_.Release();
      });
    }
    auto factory = MakeNcclFactory(options, tables_[rank].get(), &store_);
    if (rank == 0) factory = MakeRecordingFactory(std::move(factory), &ring);
    EVENSTEP_ASSIGN_OR_RETURN(auto pair, factory->Create("pair", {0, 2}, rank));
    factory->SetTimeout(absl::Milliseconds(50));
    return Sum(*pair);
  });
  EXPECT_EQ(dumps_at_end, 1);
  EXPECT_EQ(ring.num_dumps(), 1) << "not again when the call returns";
  ASSERT_EQ(ring.Entries().size(), 1);
  EXPECT_EQ(ring.Entries()[0].kind, CollectiveKind::kAllReduce);
}

TEST_F(NcclSessionTest, ACloseThatDoesNotEndBecomesAnAbort) {
  faults_.finalize_in_progress = true;
  abort_grace_ = absl::Milliseconds(50);
  EXPECT_THAT(RunPair(&Sum), Each(absl::OkStatus()));
  EXPECT_EQ(nccl_.num_aborted(), 1);
  EXPECT_EQ(nccl_.num_destroyed(), 1);
  EXPECT_EQ(nccl_.num_live(), 0);
}

TEST_F(NcclSessionTest, AnEndedRendezvousIsPassedOn) {
  class EndedStore : public MemoryRendezvousStore {
    absl::StatusOr<std::string> Get(const std::string&,
                                    absl::Duration) override {
      return absl::AbortedError("generation 3 is over");
    }
  };
  EndedStore store;
  const auto table = nccl_.MakeTable(&faults_);
  auto factory = MakeNcclFactory({}, table.get(), &store);
  EXPECT_EQ(factory->Create("group", {0, 2}, 1).status(),
            absl::AbortedError("generation 3 is over"));
  EXPECT_EQ(factory->Create("group", {0, 2}, 2).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace evenstep::trainer
