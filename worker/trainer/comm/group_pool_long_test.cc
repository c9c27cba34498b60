// A hundred thousand groups opened and closed under random plans.

#include <sys/resource.h>

#include <cstdlib>

#include "absl/strings/numbers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/trainer/comm/testing/random_groups.h"

namespace evenstep::trainer {
namespace {

using ::testing::Each;

constexpr int64_t kAllOpenings = 100'000;

int64_t PeakResidentBytes() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} << 10;
}

// Fewer under sanitizers, whose memory is not ours to count.
int64_t NumOpenings() {
  int64_t openings = 0;
  const char* const said = std::getenv("EVENSTEP_GROUP_OPENINGS");
  return said != nullptr && absl::SimpleAtoi(said, &openings) ? openings
                                                              : kAllOpenings;
}

TEST(GroupPoolLongTest, AHundredThousandOpeningsLeaveNothingBehind) {
  const int64_t openings = NumOpenings();
  testing::RandomGroups setup{
      .world = 5, .budget = 5, .num_openings = openings / 10, .seed = 1};
  ASSERT_THAT(testing::RunRandomGroups(setup).statuses, Each(absl::OkStatus()));
  const int64_t after_a_tenth = PeakResidentBytes();
  setup.num_openings = openings - openings / 10;
  setup.seed = 2;
  const auto result = testing::RunRandomGroups(setup);
  EXPECT_THAT(result.statuses, Each(absl::OkStatus()));
  EXPECT_GE(result.opened, setup.num_openings);
  EXPECT_EQ(result.left_over, 0);
  const int64_t grown = PeakResidentBytes() - after_a_tenth;
  RecordProperty("steps", std::to_string(result.num_steps));
  RecordProperty("bytes_grown", std::to_string(grown));
  if (openings < kAllOpenings) return;
  EXPECT_LT(grown, int64_t{4} << 20) << "nine times as many groups";
}

}  // namespace
}  // namespace evenstep::trainer
