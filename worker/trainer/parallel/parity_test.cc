// Law 2: every plan's gradient equals that of one process over the same
// samples. The oracle is the slow decoder of testing/oracle.h; float64.

#include <gtest/gtest.h>

#include <csignal>
#include <thread>
#include <utility>
#include <vector>

#include "worker/trainer/testing/expect_parity.h"

namespace evenstep::trainer {
namespace {

using testing::BackEnd;
using testing::ExpectParity;
using testing::MustRun;
using testing::OneStep;
using testing::ParityOptions;
using testing::ParityReport;
using testing::RunParity;

TEST(ParityTest, OneRankPacksDocumentsOfAnyLength) {
  ExpectParity(OneStep(1, {{0, 1, {5, 1, 2, 17, 3}}, {0, 1, {9}}}));
}

TEST(ParityTest, TwoRanksAtDegreeOne) {
  ExpectParity(OneStep(2, {{0, 1, {11, 1}}, {1, 1, {2, 23}}}));
}

TEST(ParityTest, TwoRanksShareAMicroBatch) {
  ExpectParity(OneStep(2, {{0, 2, {7, 2, 1, 19}}}));
}

// Four ranks over two key and value heads: those are replicated.
TEST(ParityTest, FourRanksShareAMicroBatchWithFewerKeyValueHeads) {
  ExpectParity(OneStep(4, {{0, 4, {13, 1, 6}}, {0, 4, {2}}}));
}

TEST(ParityTest, ASingleTokenIsSharedByFourRanks) {
  ExpectParity(OneStep(4, {{0, 4, {1}}, {0, 4, {30}}}));
}

TEST(ParityTest, DegreesAreMixedWithinAStep) {
  ExpectParity(OneStep(4, {{0, 4, {33, 2}},
                           {0, 2, {12, 1, 5}},
                           {2, 1, {8}},
                           {3, 1, {3, 3}},
                           {2, 2, {10}},
                           {0, 1, {4}}}));
}

// Ranks without work take part in the reduction.
TEST(ParityTest, RanksWithoutWorkTakePart) {
  ExpectParity(OneStep(4, {{1, 1, {6}}}));
  ExpectParity(OneStep(4, {{2, 2, {6, 9}}}));
}

// Five samples each, at most 100 tokens in a micro-batch of degree 1.
TEST(ParityTest, RanksWithDifferentNumbersOfMicroBatchesLeaveTogether) {
  ExpectParity(OneStep(2, {{0, 1, {95}},
                           {0, 1, {95}},
                           {1, 1, {20, 20, 20, 20, 20}},
                           {0, 1, {95}},
                           {0, 1, {95}},
                           {0, 1, {95}}}));
}

TEST(ParityTest, ThreeRanksReduceOverTheWorldsOwnGroup) {
  ExpectParity(OneStep(3, {{0, 2, {9, 4}}, {2, 1, {6}}}));
}

TEST(ParityTest, EveryRecomputeCountGivesTheSame) {
  for (int layers = 0; layers <= 3; ++layers) {
    ExpectParity(OneStep(2, {{0, 2, {7, 5}, layers}, {1, 1, {4, 1}, layers}}));
  }
}

TEST(ParityTest, AsManyKeyValueHeadsAsQueryHeads) {
  ParityOptions options = OneStep(4, {{0, 4, {9, 6}}, {0, 2, {5}}});
  options.config.kv_heads = 4;
  ExpectParity(options);
}

TEST(ParityTest, OneKeyValueHeadForAll) {
  ParityOptions options = OneStep(4, {{0, 4, {9, 6}}, {0, 2, {5, 1}}});
  options.config.kv_heads = 1;
  ExpectParity(options);
}

// KV-gather: zigzag shards, any degree.
TEST(ParityTest, KeysAndValuesAreGatheredAtAnyDegree) {
  for (int degree : {2, 3, 5, 6, 7, 8}) {
    SCOPED_TRACE(degree);
    ExpectParity(OneStep(8, {{0, degree, {31, 1, 2, 17}, 1, 1},
                             {8 - degree, degree, {3, 40}, 0, 1}}));
  }
}

TEST(ParityTest, HeadsAreExchangedWithinPartsAndKeysGatheredAcrossThem) {
  for (const auto& [degree, ulysses] :
       std::vector<std::pair<int, int>>{{4, 2}, {6, 2}, {8, 2}, {8, 4}}) {
    SCOPED_TRACE(degree);
    ExpectParity(OneStep(8, {{0, degree, {31, 1, 2, 17}, 0, ulysses},
                             {8 - degree, degree, {3, 40}, 2, ulysses}}));
  }
}

TEST(ParityTest, FullAttentionInEveryMode) {
  for (int ulysses : {1, 2, 4}) {
    SCOPED_TRACE(ulysses);
    ParityOptions options = OneStep(
        4, {{0, 4, {21, 1, 2, 9}, 1, ulysses}, {0, 1, {8, 3}}, {1, 2, {5}}});
    options.config.attention = AttentionMask::kFull;
    ExpectParity(options);
  }
}

// 10 query heads over 2 key and value heads at degree 5.
TEST(ParityTest, HeadsThatDoNotDivideAreExpandedOrGathered) {
  ParityOptions options = OneStep(5, {{0, 5, {13, 6}, 0, 5}});
  options.config.heads = 10;
  options.config.width = 20;
  options.config.kv_heads = 2;
  EXPECT_EQ(RunParity(options).status().code(),
            absl::StatusCode::kInvalidArgument);
  options.irregular_heads = IrregularHeads::kExpand;
  ExpectParity(options);
  options.irregular_heads = IrregularHeads::kRefuse;
  options.steps[0][0].ulysses_degree = 1;
  ExpectParity(options);
}

// Head counts belong to the job.
TEST(ParityTest, TwoModelsAtOnceKeepTheirOwnHeads) {
  ParityOptions four = OneStep(4, {{0, 4, {13, 6}}});
  ParityOptions six = OneStep(6, {{0, 6, {11, 20}}});
  six.config.heads = 6;
  six.config.width = 24;
  six.config.kv_heads = 3;
  std::thread other([&] { ExpectParity(six); });
  ExpectParity(four);
  other.join();
}

TEST(ParityTest, BlocksMayBeginAtAnyRank) {
  ExpectParity(OneStep(7, {{1, 2, {12, 5}},
                           {3, 4, {9, 30}},
                           {2, 3, {14}, 0, 1},
                           {0, 1, {6}},
                           {1, 5, {3, 22}, 2, 1}}));
}

TEST(ParityTest, ParametersAgreeAfterTenSteps) {
  ParityOptions options = OneStep(4, {});
  options.steps.clear();
  for (int step = 0; step < 10; ++step) {
    const int64_t odd = 2 * step + 1;
    options.steps.push_back({{0, 4, {odd, 12}, step % 3},
                             {0, 2, {5, odd}},
                             {2, 1, {odd}},
                             {3, 1, {1, 7, 2}}});
  }
  ExpectParity(options);
}

// Cut into equal runs of elements, whatever the tensors.
TEST(ParityTest, SplitOptimizerStatesGiveTheSame) {
  for (int world : {1, 2, 3, 8}) {
    SCOPED_TRACE(world);
    ParityOptions options = OneStep(world, {});
    options.steps.clear();
    for (int64_t step = 0; step < 10; ++step) {
      options.steps.push_back({{0, world, {step + 2, 7}, 0, 1}});
    }
    options.sharding = Sharding::kZero1;
    ExpectParity(options);
  }
}

// Parameters with 8 bits of mantissa: far from the oracle's, but no further
// than rounding takes them, and the same way at every degree.
TEST(ParityTest, BFloat16StaysWithinRounding) {
  for (int ulysses : {1, 2, 4}) {
    SCOPED_TRACE(ulysses);
    ParityOptions options =
        OneStep(4, {{0, 4, {33, 2}, 1, ulysses}, {0, 2, {12}}});
    options.config.dtype = at::kBFloat16;
    options.sharding = Sharding::kZero1;
    const ParityReport report = MustRun(options);
    EXPECT_LE(report.loss, 1e-2);
    EXPECT_LE(report.gradient, 0.1);
  }
}

// Ulysses, KV-gather and both, over sockets.
TEST(ParityTest, GlooGivesTheSame) {
  std::signal(SIGPIPE, SIG_IGN);
  for (const int ulysses : {4, 1, 2}) {
    SCOPED_TRACE(ulysses);
    ParityOptions options = OneStep(
        4, {{0, 4, {33, 2}, 1, ulysses}, {0, 2, {12, 1, 5}}, {2, 1, {8}}});
    options.back_end = BackEnd::kGloo;
    options.sharding = Sharding::kZero1;
    ExpectParity(options);
  }
}

// Float32 differs by rounding only.
TEST(ParityTest, SinglePrecisionStaysWithinRounding) {
  ParityOptions options = OneStep(4, {{0, 4, {33, 2}}, {0, 2, {12}}});
  options.config.dtype = at::kFloat;
  const ParityReport report = MustRun(options);
  EXPECT_LE(report.loss, 1e-6);
  EXPECT_LE(report.gradient, 1e-4);
}

}  // namespace
}  // namespace evenstep::trainer
