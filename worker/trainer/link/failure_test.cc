#include "worker/trainer/link/failure.h"

#include <set>

#include "gtest/gtest.h"

namespace evenstep::trainer {
namespace {

constexpr FailureReason kAll[] = {
    FailureReason::kStartFailed,      FailureReason::kDataError,
    FailureReason::kNotFinite,        FailureReason::kPlanMismatch,
    FailureReason::kCollectiveFailed, FailureReason::kOutOfMemory,
    FailureReason::kInternal,         FailureReason::kStorageFull,
    FailureReason::kTerminated,       FailureReason::kPeerFailed};

TEST(FailureTest, EveryReasonComesBackFromItsStatusWithItsOwnExitCode) {
  std::set<int> codes;
  for (FailureReason reason : kAll) {
    const absl::Status status = FailureError(reason, 7, "why");
    EXPECT_EQ(ReasonOf(status), reason) << FailureReasonName(reason);
    EXPECT_EQ(StepOf(status), 7);
    EXPECT_EQ(status.message(), "why");
    EXPECT_TRUE(codes.insert(FailureExitCode(reason)).second);
    EXPECT_NE(FailureExitCode(reason), 0);
  }
}

TEST(FailureTest, TheFirstReasonStays) {
  const absl::Status first = FailureError(FailureReason::kDataError, 2, "gone");
  const absl::Status second =
      WithReason(first, FailureReason::kCollectiveFailed, 9);
  EXPECT_EQ(ReasonOf(second), FailureReason::kDataError);
  EXPECT_EQ(StepOf(second), 2);
}

TEST(FailureTest, AnOkStatusStaysOk) {
  EXPECT_TRUE(WithReason(absl::OkStatus(), FailureReason::kInternal, 1).ok());
}

TEST(FailureTest, AStatusWithoutAReasonIsInternalUnlessMemoryRanOut) {
  EXPECT_EQ(ReasonOf(absl::UnknownError("x")), FailureReason::kInternal);
  EXPECT_EQ(ReasonOf(absl::ResourceExhaustedError("x")),
            FailureReason::kOutOfMemory);
  EXPECT_EQ(StepOf(absl::UnknownError("x")), kNoStep);
}

}  // namespace
}  // namespace evenstep::trainer
