#include "planner/policies/buckets.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <map>
#include <tuple>
#include <utility>

#include "planner/costs/fits.h"

namespace evenstep::planner {
namespace {

// The least bound that is not below the length.
int64_t BoundOf(const RunFacts& run, int64_t length) {
  for (int64_t bound : run.bucket_bounds) {
    if (length <= bound) return bound;
  }
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(length)));
}

std::vector<Bucket> DivideByShape(const PlanRequest& request) {
  using Shape =
      std::tuple<int64_t, int64_t, int64_t>;  // tokens, frames, height
  std::map<Shape, Bucket, std::greater<>> by_shape;
  for (size_t i = 0; i < request.samples.size(); ++i) {
    const Sample& sample = request.samples[i];
    Bucket& bucket = by_shape[{sample.length, sample.frames, sample.height}];
    bucket.profiled = sample;
    bucket.samples.push_back(static_cast<int>(i));
  }
  std::vector<Bucket> buckets;
  buckets.reserve(by_shape.size());
  for (auto& [shape, bucket] : by_shape) buckets.push_back(std::move(bucket));
  return buckets;
}

}  // namespace

std::vector<Bucket> DivideIntoBuckets(const PlanRequest& request) {
  if (request.model.is_video()) return DivideByShape(request);
  int64_t longest_possible = request.run.max_length;
  std::map<int64_t, Bucket, std::greater<>> by_bound;
  for (size_t i = 0; i < request.samples.size(); ++i) {
    const int64_t length = request.samples[i].length;
    longest_possible = std::max(longest_possible, length);
    by_bound[BoundOf(request.run, length)].samples.push_back(
        static_cast<int>(i));
  }
  const LayerCounts roomiest = RoomiestMode(request);
  std::vector<Bucket> buckets;
  for (auto& [bound, bucket] : by_bound) {
    bucket.profiled.length = std::min(bound, longest_possible);
    if (!FitsSomeDegree(request, roomiest, bucket.profiled)) {
      bucket.profiled.length = 0;
      for (int index : bucket.samples) {
        bucket.profiled.length =
            std::max(bucket.profiled.length, request.samples[index].length);
      }
    }
    buckets.push_back(std::move(bucket));
  }
  return buckets;
}

}  // namespace evenstep::planner
