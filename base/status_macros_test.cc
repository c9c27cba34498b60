#include "base/status_macros.h"

#include <gtest/gtest.h>

#include <memory>

namespace evenstep {
namespace {

absl::StatusOr<int> Half(int value) {
  if (value % 2 != 0) return absl::InvalidArgumentError("odd");
  return value / 2;
}

absl::StatusOr<int> Quarter(int value) {
  EVENSTEP_ASSIGN_OR_RETURN(const int half, Half(value));
  EVENSTEP_ASSIGN_OR_RETURN(int quarter, Half(half));
  return quarter;
}

absl::Status CheckEven(int value, int* calls) {
  EVENSTEP_RETURN_IF_ERROR([&]() -> absl::Status {
    ++*calls;
    return Half(value).status();
  }());
  return absl::OkStatus();
}

TEST(StatusMacrosTest, AssignTakesTheValueOrReturnsTheFirstError) {
  EXPECT_EQ(*Quarter(8), 2);
  EXPECT_EQ(Quarter(6).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Quarter(7).status().message(), "odd");
}

TEST(StatusMacrosTest, ExpressionRunsOnce) {
  int calls = 0;
  EXPECT_TRUE(CheckEven(2, &calls).ok());
  EXPECT_FALSE(CheckEven(3, &calls).ok());
  EXPECT_EQ(calls, 2);
}

absl::StatusOr<std::unique_ptr<int>> MakeBox() {
  return std::make_unique<int>(5);
}

TEST(StatusMacrosTest, AssignMovesValuesThatCannotBeCopied) {
  const auto open = []() -> absl::StatusOr<int> {
    EVENSTEP_ASSIGN_OR_RETURN(const std::unique_ptr<int> box, MakeBox());
    return *box;
  };
  EXPECT_EQ(*open(), 5);
}

}  // namespace
}  // namespace evenstep
