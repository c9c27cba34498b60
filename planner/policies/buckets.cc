#include "planner/policies/buckets.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "planner/costs/fits.h"
#include "planner/costs/sample_size.h"

namespace evenstep::planner {
namespace {

class Profile {
 public:
  Profile(const PlanRequest& request, const CostModel& costs)
      : request_(request), costs_(costs) {}

  // 0 if the degree cannot run such a sample at all.
  int64_t MostSamples(int degree, const LayerCounts& layers,
                      const Sample& sample) const {
    if (!CanShare(SplitFor(request_.model, degree), sample)) return 0;
    return TokensPerRank(request_, layers, degree) * degree /
           costs_.SizeAt(degree, sample).tokens;
  }
  BucketShape Measure(const BlockClass& block_class, const LayerCounts& layers,
                      int64_t batch, const Sample& sample) const {
    const BatchSize size = costs_.SizeAt(block_class.degree, sample);
    return {block_class.degree, layers, batch,
            costs_.WithRecompute(layers).MicroBatchNs(block_class,
                                                      size.Times(batch))};
  }
  // Rank-time of a sample is what a bucket's throughput is measured by; with
  // contiguous blocks that of the ranks which no group of the degree gets, too.
  bool IsBetter(const BucketShape& a, const BucketShape& b) const {
    const int128 a_ns = int128{a.ns} * b.batch;
    const int128 b_ns = int128{b.ns} * a.batch;
    if (request_.options.blocks == BlockShape::kAligned) {
      return a_ns * a.degree < b_ns * b.degree;
    }
    const int num_ranks = request_.cluster.num_ranks();
    return a_ns * (num_ranks / b.degree) < b_ns * (num_ranks / a.degree);
  }

 private:
  const PlanRequest& request_;
  const CostModel& costs_;
};

// One class of blocks per legal degree: within a node, if there are such.
std::vector<BlockClass> ClassPerDegree(const PlanRequest& request) {
  std::vector<BlockClass> classes = BlockClasses(request);
  const auto twins = std::unique(
      classes.begin(), classes.end(),
      [](const auto& a, const auto& b) { return a.degree == b.degree; });
  classes.erase(twins, classes.end());
  return classes;
}

}  // namespace

BucketShape BestShape(const PlanRequest& request, const CostModel& costs,
                      const Bucket& bucket,
                      const std::vector<LayerCounts>& modes,
                      int64_t most_samples) {
  const Profile profile(request, costs);
  const bool one_kind = request.model.num_kinds() == 1;
  std::optional<BucketShape> best;
  for (const BlockClass& block_class : ClassPerDegree(request)) {
    int64_t tried = 0;
    for (const LayerCounts& layers : modes) {
      const int64_t batch = std::min(
          profile.MostSamples(block_class.degree, layers, bucket.profiled),
          most_samples);
      // More recompute of one kind of layer only where it makes room for more.
      // Of two kinds, what holds less may be faster.
      if (batch == 0 || (one_kind && batch <= tried)) continue;
      tried = batch;
      const BucketShape shape =
          profile.Measure(block_class, layers, batch, bucket.profiled);
      if (!best.has_value() || profile.IsBetter(shape, *best)) best = shape;
    }
  }
  return *best;
}

std::vector<BucketShape> EvenShapes(const PlanRequest& request,
                                    const CostModel& costs,
                                    const std::vector<Bucket>& buckets,
                                    int degree, const LayerCounts& recompute) {
  const Profile profile(request, costs);
  const BlockClass block_class = costs.ClassOf({0, degree});
  const int64_t target_ns =
      profile.Measure(block_class, recompute, 1, buckets[0].profiled).ns;
  std::vector<BucketShape> shapes;
  for (const Bucket& bucket : buckets) {
    int64_t batch = std::min<int64_t>(
        std::max<int64_t>(
            1, profile.MostSamples(degree, recompute, bucket.profiled)),
        bucket.samples.size());
    while (batch > 1 &&
           profile.Measure(block_class, recompute, batch, bucket.profiled).ns >
               target_ns) {
      batch -= (batch + 7) / 8;
    }
    shapes.push_back(
        profile.Measure(block_class, recompute, batch, bucket.profiled));
  }
  return shapes;
}

LayerCounts LeastModeThatHolds(const PlanRequest& request,
                               const std::vector<Bucket>& buckets) {
  const std::vector<LayerCounts> modes = RecomputeModes(request);
  for (const LayerCounts& layers : modes) {
    if (std::all_of(buckets.begin(), buckets.end(), [&](const Bucket& bucket) {
          return FitsSomeDegree(request, layers, bucket.profiled);
        })) {
      return layers;
    }
  }
  return modes.back();
}

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
