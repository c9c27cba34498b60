#include "planner/buckets.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <map>
#include <utility>

#include "planner/degrees.h"
#include "planner/planner.h"

namespace evenstep::planner {
namespace {

// The least bound that is not below the length.
int64_t BoundOf(const RunFacts& run, int64_t length) {
  for (int64_t bound : run.bucket_bounds) {
    if (length <= bound) return bound;
  }
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(length)));
}

}  // namespace

std::vector<Bucket> DivideIntoBuckets(const PlanRequest& request) {
  int64_t longest_possible = request.run.max_length;
  std::map<int64_t, Bucket, std::greater<>> by_bound;
  for (size_t i = 0; i < request.samples.size(); ++i) {
    const int64_t length = request.samples[i].length;
    longest_possible = std::max(longest_possible, length);
    by_bound[BoundOf(request.run, length)].samples.push_back(
        static_cast<int>(i));
  }
  const int64_t most_tokens =
      MostTokensPerRank(request) * LegalDegrees(request).back();
  std::vector<Bucket> buckets;
  for (auto& [bound, bucket] : by_bound) {
    bucket.profiled_length = std::min(bound, longest_possible);
    if (bucket.profiled_length > most_tokens) {
      bucket.profiled_length = 0;
      for (int index : bucket.samples) {
        bucket.profiled_length =
            std::max(bucket.profiled_length, request.samples[index].length);
      }
    }
    buckets.push_back(std::move(bucket));
  }
  return buckets;
}

}  // namespace evenstep::planner
