#include "data/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

namespace evenstep::data {
namespace {

using ::testing::ElementsAre;

std::vector<int64_t> Documents(const Sampler& sampler, int64_t from,
                               int64_t to) {
  std::vector<int64_t> documents;
  for (int64_t id = from; id < to; ++id) {
    documents.push_back(sampler.Document(id));
  }
  return documents;
}

TEST(SamplerTest, EachPermutationHoldsEveryDocumentOnceForManySizes) {
  std::vector<int64_t> sizes(130);
  std::iota(sizes.begin(), sizes.end(), 1);
  sizes.insert(sizes.end(), {255, 256, 257, 1023, 1024, 1025, 7013, 65537});
  for (const int64_t size : sizes) {
    const Sampler sampler(1, size, 4);
    for (int64_t permutation = 0; permutation < 3; ++permutation) {
      std::vector<int64_t> documents =
          Documents(sampler, permutation * size, (permutation + 1) * size);
      std::sort(documents.begin(), documents.end());
      for (int64_t i = 0; i < size; ++i) ASSERT_EQ(documents[i], i) << size;
    }
  }
}

TEST(SamplerTest, SameSeedSameOrderOtherSeedsOtherOrders) {
  const Sampler a(5, 1000, 8);
  const Sampler b(5, 1000, 16);  // the batch changes no document
  const Sampler c(6, 1000, 8);
  EXPECT_EQ(Documents(a, 0, 3000), Documents(b, 0, 3000));
  EXPECT_NE(Documents(a, 0, 1000), Documents(c, 0, 1000));
  EXPECT_NE(Documents(a, 0, 1000), Documents(a, 1000, 2000));
}

// A resumed job must find its samples again with a later program: a change of
// these numbers is a change of the format of checkpoints.
TEST(SamplerTest, OrderOfAKnownSeedStaysTheSame) {
  EXPECT_THAT(Documents(Sampler(42, 10, 1), 0, 20),
              ElementsAre(7, 2, 0, 6, 1, 3, 5, 9, 4, 8,    // first
                          9, 1, 5, 2, 4, 8, 7, 3, 6, 0));  // second
}

TEST(SamplerTest, StepsAreLaidEndToEndAcrossTheUnevenEnd) {
  const Sampler sampler(3, 10, 4);  // 10 is not a multiple of 4
  EXPECT_THAT(sampler.SampleIds(0), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(sampler.SampleIds(2), ElementsAre(8, 9, 10, 11));
  std::vector<int> seen(10, 0);
  for (int64_t step = 0; step < 5; ++step) {  // two whole permutations
    for (const int64_t id : sampler.SampleIds(step)) {
      ++seen[sampler.Document(id)];
    }
  }
  for (const int times : seen) EXPECT_EQ(times, 2);
}

TEST(SamplerTest, BatchLargerThanTheDataRepeatsDocumentsUnderOtherIds) {
  const Sampler sampler(3, 3, 7);
  const std::vector<int64_t> ids = sampler.SampleIds(1);
  EXPECT_THAT(ids, ElementsAre(7, 8, 9, 10, 11, 12, 13));
  for (const int64_t id : ids) EXPECT_LT(sampler.Document(id), 3);
}

TEST(SamplerTest, SharesOfAllRanksAreTheStepExactlyOnce) {
  const Sampler sampler(3, 100, 7);
  for (int world = 1; world <= 9; ++world) {
    std::vector<int64_t> all;
    for (int rank = 0; rank < world; ++rank) {
      const std::vector<int64_t> share = sampler.ReportShare(5, rank, world);
      for (const int64_t id : share) EXPECT_EQ((id - 35) % world, rank);
      all.insert(all.end(), share.begin(), share.end());
    }
    std::sort(all.begin(), all.end());
    EXPECT_EQ(all, sampler.SampleIds(5)) << world;
  }
}

// Each rank that begins at a step, with a sampler
// that has seen none before, stands where the uninterrupted ones do, also where
// a permutation ends within the step and where the world has another size.
TEST(SamplerTest, RanksThatResumeAtAStepStandWhereTheOthersDo) {
  constexpr int64_t kDocuments = 10;
  constexpr int64_t kBatch = 4;
  const Sampler uninterrupted(3, kDocuments, kBatch);
  for (int64_t step = 0; step < 12; ++step) {
    for (const int world : {1, 2, 3, 8}) {
      std::vector<int64_t> documents;
      for (int rank = 0; rank < world; ++rank) {
        const Sampler resumed(3, kDocuments, kBatch);
        EXPECT_EQ(resumed.ReportShare(step, rank, world),
                  uninterrupted.ReportShare(step, rank, world));
        for (const int64_t id : resumed.ReportShare(step, rank, world)) {
          documents.push_back(resumed.Document(id));
        }
      }
      std::vector<int64_t> expected =
          Documents(uninterrupted, step * kBatch, (step + 1) * kBatch);
      std::sort(documents.begin(), documents.end());
      std::sort(expected.begin(), expected.end());
      EXPECT_EQ(documents, expected) << step << " on " << world;
    }
  }
}

TEST(SamplerTest, LateStepsOfHugeDataNeedNoMoreMemoryOrTime) {
  const int64_t size = int64_t{1} << 40;
  const Sampler sampler(9, size, 1024);
  for (const int64_t id : sampler.SampleIds(int64_t{1} << 35)) {
    const int64_t document = sampler.Document(id);
    EXPECT_GE(document, 0);
    EXPECT_LT(document, size);
  }
}

// A sequence that is merely rotated or reversed would pass the tests above.
TEST(SamplerTest, OrderLooksShuffled) {
  const int64_t size = 4096;
  const std::vector<int64_t> order = Documents(Sampler(0, size, 1), 0, size);
  int ascents = 0;
  int in_place = 0;
  double distance = 0;
  for (int64_t i = 1; i < size; ++i) {
    ascents += order[i] > order[i - 1] ? 1 : 0;
    in_place += order[i] == i ? 1 : 0;
    distance += std::abs(static_cast<double>(order[i] - order[i - 1]));
  }
  EXPECT_NEAR(ascents, size / 2, 150);  // 8 standard deviations
  EXPECT_LT(in_place, 12);
  EXPECT_NEAR(distance / size, size / 3.0, 100);
}

TEST(SamplerDeathTest, SamplerWithoutDocumentsIsABug) {
  EXPECT_DEATH(Sampler(0, 0, 1), "broken invariant");
  EXPECT_DEATH(Sampler(0, 1, 0), "broken invariant");
}

}  // namespace
}  // namespace evenstep::data
