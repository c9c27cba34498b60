#include "planner/policies/bucket_shapes.h"

#include <algorithm>
#include <optional>

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

}  // namespace evenstep::planner
