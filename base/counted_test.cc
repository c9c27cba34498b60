#include "base/counted.h"

#include <gtest/gtest.h>

namespace evenstep {
namespace {

TEST(CountedTest, OneIsSingular) {
  EXPECT_EQ(Counted(1, "GPU"), "1 GPU");
  EXPECT_EQ(Counted(0, "GPU"), "0 GPUs");
  EXPECT_EQ(Counted(1, "micro-batch"), "1 micro-batch");
  EXPECT_EQ(Counted(2, "micro-batch"), "2 micro-batches");
}

}  // namespace
}  // namespace evenstep
