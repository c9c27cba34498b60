#include "rpc/errors.h"

#include "evenstep/v1/errors.pb.h"
#include "gtest/gtest.h"

namespace evenstep::rpc {
namespace {

TEST(ErrorsTest, CodeMessageAndReasonSurviveTheWire) {
  const absl::Status error = WithReason(
      absl::FailedPreconditionError("needs 21 tokens, has 20"), "INFEASIBLE");
  const absl::Status back = FromGrpc(ToGrpc(error));
  EXPECT_EQ(back.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(back.message(), "needs 21 tokens, has 20");
  EXPECT_EQ(ReasonOf(back), "INFEASIBLE");
}

TEST(ErrorsTest, EveryCanonicalCodeSurvivesTheWire) {
  for (int code = 0; code <= 16; ++code) {
    const absl::Status error(static_cast<absl::StatusCode>(code), "text");
    EXPECT_EQ(FromGrpc(ToGrpc(error)).code(), error.code()) << code;
  }
}

TEST(ErrorsTest, AnErrorWithoutReasonHasNone) {
  EXPECT_EQ(ReasonOf(FromGrpc(ToGrpc(absl::NotFoundError("x")))), "");
  EXPECT_TRUE(ToGrpc(absl::NotFoundError("x")).error_details().empty());
}

TEST(ErrorsTest, OkStaysOk) {
  EXPECT_TRUE(WithReason(absl::OkStatus(), "X").ok());
  EXPECT_TRUE(ToGrpc(absl::OkStatus()).ok());
}

TEST(ErrorsTest, BrokenOrForeignDetailsAreLeftOut) {
  EXPECT_EQ(ReasonOf(FromGrpc(grpc::Status(grpc::StatusCode::INTERNAL, "x",
                                           "\xff\xff not a message"))),
            "");
  v1::ErrorInfo info;
  info.set_reason("R");
  info.set_domain("example.org");
  v1::ErrorStatus details;
  details.add_details()->set_type_url(
      "type.googleapis.com/google.rpc.ErrorInfo");
  details.mutable_details(0)->set_value(info.SerializeAsString());
  EXPECT_EQ(ReasonOf(FromGrpc(grpc::Status(grpc::StatusCode::INTERNAL, "x",
                                           details.SerializeAsString()))),
            "");
}

}  // namespace
}  // namespace evenstep::rpc
