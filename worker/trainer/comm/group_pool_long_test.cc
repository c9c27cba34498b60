// A hundred thousand groups opened and closed under random plans.

#include <malloc.h>

#include <cstdlib>

#include "absl/strings/numbers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/trainer/comm/in_process_communicator.h"
#include "worker/trainer/comm/testing/random_groups.h"

namespace evenstep::trainer {
namespace {

using ::testing::Each;

constexpr int64_t kAllOpenings = 100'000;
// In turns, so that trees have other groups and ranks other room.
constexpr int kWorlds[] = {5, 6, 7};

// Of malloc, in use; threads that have ended hold nothing back.
int64_t HeapBytes() { return static_cast<int64_t>(mallinfo2().uordblks); }

// Fewer under sanitizers, whose memory is not ours to count.
int64_t NumOpenings() {
  int64_t openings = 0;
  const char* const said = std::getenv("EVENSTEP_GROUP_OPENINGS");
  return said != nullptr && absl::SimpleAtoi(said, &openings) ? openings
                                                              : kAllOpenings;
}

// `openings` in all worlds together; how many there were.
int64_t OpenAndClose(int64_t openings, uint32_t seed) {
  int64_t opened = 0;
  int64_t closed = 0;
  for (const int world : kWorlds) {
    InProcessHub hub;
    const auto result = testing::RunRandomGroups(
        {.world = world,
         .budget = world == 7 ? 6 : 5,
         .num_openings = openings / 3 + 1,
         .seed = seed},
        [&hub](int /*rank*/) { return hub.MakeFactory(); });
    EXPECT_THAT(result.statuses, Each(absl::OkStatus()));
    EXPECT_EQ(hub.num_groups(), 0);
    opened += result.opened;
    closed += result.closed;
  }
  // The rest goes with its generation.
  EXPECT_GT(closed, opened / 2);
  return opened;
}

TEST(GroupPoolLongTest, AHundredThousandOpeningsLeaveNothingBehind) {
  const int64_t openings = NumOpenings();
  int64_t opened = OpenAndClose(openings / 10, /*seed=*/1);
  const int64_t after_a_tenth = HeapBytes();
  opened += OpenAndClose(openings - openings / 10, /*seed=*/2);
  EXPECT_GE(opened, openings);
  const int64_t grown = HeapBytes() - after_a_tenth;
  RecordProperty("opened", std::to_string(opened));
  RecordProperty("bytes_grown", std::to_string(grown));
  if (openings < kAllOpenings) return;
  EXPECT_LT(grown, openings / 10) << "a leak is of bytes for each";
}

}  // namespace
}  // namespace evenstep::trainer
