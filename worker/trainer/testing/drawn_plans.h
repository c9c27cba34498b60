#ifndef EVENSTEP_WORKER_TRAINER_TESTING_DRAWN_PLANS_H_
#define EVENSTEP_WORKER_TRAINER_TESTING_DRAWN_PLANS_H_

// Plans that nobody thought of: what they are drawn with, and what a drawn one
// holds, so that tests can say that chance has left nothing out. For the parity
// tests of either kind of model. A Dice is of one thread.

#include <algorithm>
#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "worker/trainer/testing/parity.h"

namespace evenstep::trainer::testing {

class Dice {
 public:
  explicit Dice(uint64_t seed) : random_(seed) {}

  int Below(int n) {
    return static_cast<int>(random_() % static_cast<uint64_t>(n));
  }
  int OneOf(const std::vector<int>& values) {
    return values[Below(static_cast<int>(values.size()))];
  }
  // Of half the world and more as often as of any.
  int Degree(int world) {
    return Below(2) == 0 ? world - Below((world + 1) / 2) : 1 + Below(world);
  }

 private:
  std::mt19937_64 random_;
};

// "idle": a rank has no micro-batch; "uneven": ranks have different numbers of
// them; "mixed": they are of different degrees.
inline std::set<std::string> SeenInPlan(const std::vector<TestMicroBatch>& plan,
                                        int world) {
  std::vector<int> runs(world);
  std::set<int> degrees;
  for (const TestMicroBatch& test : plan) {
    degrees.insert(test.degree);
    for (int i = 0; i < test.degree; ++i) ++runs[test.first_rank + i];
  }
  std::set<std::string> seen;
  const auto [least, most] = std::minmax_element(runs.begin(), runs.end());
  if (*least == 0) seen.insert("idle");
  if (*least != *most) seen.insert("uneven");
  if (degrees.size() > 1) seen.insert("mixed");
  return seen;
}

}  // namespace evenstep::trainer::testing

#endif  // EVENSTEP_WORKER_TRAINER_TESTING_DRAWN_PLANS_H_
