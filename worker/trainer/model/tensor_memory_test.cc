#include "worker/trainer/model/tensor_memory.h"

#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include <deque>

#include "worker/trainer/comm/testing/run_ranks.h"

namespace evenstep::trainer {
namespace {

using testing::RunRanks;

// Before any tensor of the process.
const bool kCounted = [] {
  CountTensorBytes();
  return true;
}();

TEST(TensorAccountTest, CountsWhatLivesAndTheMostThatLived) {
  ASSERT_TRUE(kCounted);
  TensorAccount account;
  ScopedTensorAccount scope(&account);
  {
    const at::Tensor kept = at::empty({1000}, at::kFloat);
    EXPECT_EQ(account.live_bytes(), 4000);
    { const at::Tensor gone = at::empty({500}, at::kFloat); }
    EXPECT_EQ(account.live_bytes(), 4000);
    EXPECT_EQ(account.peak_bytes(), 6000);
    account.ResetPeak();
    EXPECT_EQ(account.peak_bytes(), 4000);
  }
  EXPECT_EQ(account.live_bytes(), 0);
}

TEST(TensorAccountTest, EachThreadHasItsOwn) {
  std::deque<TensorAccount> accounts(2);
  RunRanks(2, [&](int rank) {
    ScopedTensorAccount scope(&accounts[rank]);
    const at::Tensor x = at::empty({1000 * (rank + 1)}, at::kFloat);
    return absl::OkStatus();
  });
  EXPECT_EQ(accounts[0].peak_bytes(), 4000);
  EXPECT_EQ(accounts[1].peak_bytes(), 8000);
}

}  // namespace
}  // namespace evenstep::trainer
