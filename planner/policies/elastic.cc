#include "planner/policies/elastic.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "planner/costs/cost_model.h"
#include "planner/costs/fits.h"
#include "planner/evaluate.h"
#include "planner/limits.h"
#include "planner/planner.h"
#include "planner/policies/buckets.h"
#include "planner/policies/elastic_draws.h"
#include "planner/proof/bounds.h"
#include "planner/validate.h"

namespace evenstep::planner {
namespace {

// What is left of a bucket.
struct Stock {
  BucketShape shape;
  std::vector<int> samples;  // indices into the pool
  size_t next = 0;

  int64_t left() const { return static_cast<int64_t>(samples.size() - next); }
  bool HasFull() const { return left() >= shape.batch; }
  std::vector<int> Take() {
    const size_t end =
        next + static_cast<size_t>(std::min(left(), shape.batch));
    std::vector<int> taken(samples.begin() + next, samples.begin() + end);
    next = end;
    return taken;
  }
};

struct Group {
  size_t stock = 0;
  std::vector<std::vector<int>> micro_batches;
};

// Whether a bucket has to fill its micro-batch.
enum class Filling { kFull, kAny };

class Drawing {
 public:
  Drawing(std::vector<Stock> stocks, int num_ranks, Accumulation accumulation,
          ElasticDraws& draws)
      : stocks_(std::move(stocks)), free_ranks_(num_ranks), draws_(draws) {
    while (DrawGroup(Filling::kFull)) {
    }
    // Only what fills no micro-batch is left: the end of the data.
    if (groups_.empty()) {
      while (DrawGroup(Filling::kAny)) {
      }
    }
    if (accumulation == Accumulation::kMatched) Accumulate();
  }

  // Widest first from rank 0 on, so that blocks are aligned; one micro-batch of
  // every group, then the next of those that have one.
  std::vector<Placement> Place() && {
    std::stable_sort(groups_.begin(), groups_.end(),
                     [&](const Group& a, const Group& b) {
                       return ShapeOf(a).degree > ShapeOf(b).degree;
                     });
    std::vector<Placement> placements;
    for (size_t k = 0, added = 1; added > 0; ++k) {
      added = 0;
      int first_rank = 0;
      for (Group& group : groups_) {
        const BucketShape& shape = ShapeOf(group);
        const Block block{first_rank, shape.degree};
        first_rank += shape.degree;
        if (k >= group.micro_batches.size()) continue;
        placements.push_back({block, std::move(group.micro_batches[k]),
                              static_cast<int>(k), shape.recompute_layers});
        ++added;
      }
    }
    return placements;
  }

 private:
  const BucketShape& ShapeOf(const Group& group) const {
    return stocks_[group.stock].shape;
  }

  bool CanDraw(const Stock& stock, Filling filling) const {
    return stock.left() > 0 && stock.shape.degree <= free_ranks_ &&
           (filling == Filling::kAny || stock.HasFull());
  }

  // By how many samples a bucket holds, as published.
  bool DrawGroup(Filling filling) {
    int64_t total = 0;
    for (const Stock& stock : stocks_) {
      if (CanDraw(stock, filling)) total += stock.left();
    }
    if (total == 0) return false;
    int64_t drawn = draws_.Below(total);
    for (size_t k = 0; k < stocks_.size(); ++k) {
      if (!CanDraw(stocks_[k], filling)) continue;
      drawn -= stocks_[k].left();
      if (drawn >= 0) continue;
      free_ranks_ -= stocks_[k].shape.degree;
      groups_.push_back({k, {stocks_[k].Take()}});
      break;
    }
    return true;
  }

  // Full micro-batches while a group ends no later than the slowest one.
  void Accumulate() {
    int64_t slowest_ns = 0;
    for (const Group& group : groups_) {
      slowest_ns = std::max(slowest_ns, ShapeOf(group).ns);
    }
    for (bool added = true; added;) {
      added = false;
      for (Group& group : groups_) {
        Stock& stock = stocks_[group.stock];
        const auto count = static_cast<int64_t>(group.micro_batches.size());
        if (!stock.HasFull() || stock.shape.ns > slowest_ns / (count + 1)) {
          continue;
        }
        group.micro_batches.push_back(stock.Take());
        added = true;
      }
    }
  }

  std::vector<Stock> stocks_;
  int free_ranks_;
  ElasticDraws& draws_;
  std::vector<Group> groups_;
};

std::vector<Stock> ToStocks(std::vector<Bucket> buckets,
                            const std::vector<BucketShape>& shapes) {
  std::vector<Stock> stocks;
  stocks.reserve(buckets.size());
  for (size_t k = 0; k < buckets.size(); ++k) {
    stocks.push_back({shapes[k], std::move(buckets[k].samples)});
  }
  return stocks;
}

// Buckets in shapes of their own.
std::vector<Stock> OwnShapes(const PlanRequest& pool, const CostModel& costs) {
  std::vector<Bucket> buckets = DivideIntoBuckets(pool);
  std::vector<LayerCounts> modes = RecomputeModes(pool);
  if (pool.options.policy == Policy::kDcpInter) {
    modes = {LeastModeThatHolds(pool, buckets)};
  }
  std::vector<BucketShape> shapes;
  shapes.reserve(buckets.size());
  for (const Bucket& bucket : buckets) {
    shapes.push_back(BestShape(pool, costs, bucket, modes, kMaxSamples));
  }
  return ToStocks(std::move(buckets), shapes);
}

absl::StatusOr<std::vector<Stock>> OneDegree(const PlanRequest& pool,
                                             const CostModel& costs) {
  PlanRequest request = pool;
  request.options.recompute_layers = RecomputeModes(pool).back();
  EVENSTEP_ASSIGN_OR_RETURN(const int degree, StaticDegree(request));
  std::vector<Bucket> buckets = DivideIntoBuckets(pool);
  const std::vector<BucketShape> shapes = EvenShapes(
      pool, costs, buckets, degree, request.options.recompute_layers);
  return ToStocks(std::move(buckets), shapes);
}

absl::StatusOr<std::vector<Placement>> DrawPacked(const PlanRequest& pool,
                                                  const CostModel& costs) {
  EVENSTEP_ASSIGN_OR_RETURN(const int degree, StaticDegree(pool));
  const LayerCounts& recompute = pool.options.recompute_layers;
  const int64_t capacity = TokensPerRank(pool, recompute, degree) * degree;
  std::vector<Placement> placements;
  size_t next = 0;
  for (int first = 0;
       first + degree <= pool.cluster.num_ranks() && next < pool.samples.size();
       first += degree) {
    Placement placement{{first, degree}, {}, 0, recompute};
    int64_t room = capacity;
    for (; next < pool.samples.size(); ++next) {
      room -= costs.SizeAt(degree, pool.samples[next]).tokens;
      if (room < 0) break;
      placement.samples.push_back(static_cast<int>(next));
    }
    placements.push_back(std::move(placement));
  }
  return placements;
}

absl::StatusOr<std::vector<Placement>> Draw(const PlanRequest& pool,
                                            const CostModel& costs,
                                            Accumulation accumulation,
                                            ElasticDraws& draws) {
  const int num_ranks = pool.cluster.num_ranks();
  switch (pool.options.policy) {
    case Policy::kPacked:
      return DrawPacked(pool, costs);
    case Policy::kBucket: {
      EVENSTEP_ASSIGN_OR_RETURN(std::vector<Stock> stocks,
                                OneDegree(pool, costs));
      return Drawing(std::move(stocks), num_ranks, accumulation, draws).Place();
    }
    case Policy::kDcpInter:
    case Policy::kDcpIntra:
      return Drawing(OwnShapes(pool, costs), num_ranks, accumulation, draws)
          .Place();
    default: {
      const absl::string_view name = PolicyName(pool.options.policy);
      return absl::InvalidArgumentError(
          absl::StrCat("policy '", name,
                       "' takes the batch as it is; elastic batches are drawn "
                       "by bucket, packed, dcp-inter and dcp-intra"));
    }
  }
}

// Moves what was drawn into the step's request; the rest is carried over.
void Split(const PlanRequest& pool, std::vector<Placement>& placements,
           ElasticStep& step) {
  std::vector<int> index_of(pool.samples.size(), -1);
  step.request = pool;
  step.request.samples.clear();
  for (Placement& placement : placements) {
    for (int& index : placement.samples) {
      index_of[index] = static_cast<int>(step.request.samples.size());
      step.request.samples.push_back(pool.samples[index]);
      index = index_of[index];
    }
  }
  for (size_t i = 0; i < pool.samples.size(); ++i) {
    if (index_of[i] < 0) step.carried_over.push_back(pool.samples[i]);
  }
}

// What is left of a pool, and where that stands in it.
struct Rest {
  PlanRequest request;
  std::vector<int> pool_index;

  void Drop(const std::vector<bool>& drawn) {
    size_t kept = 0;
    for (size_t i = 0; i < pool_index.size(); ++i) {
      if (drawn[pool_index[i]]) continue;
      request.samples[kept] = request.samples[i];
      pool_index[kept++] = pool_index[i];
    }
    request.samples.resize(kept);
    pool_index.resize(kept);
  }
};

// A step without a trained token has no divisor, so further rounds are drawn
// until there is one; the pool holds one.
absl::StatusOr<std::vector<Placement>> DrawTrained(
    const PlanRequest& pool, const ElasticOptions& options) {
  ElasticDraws draws(options.seed, options.step);
  Rest rest{pool, std::vector<int>(pool.samples.size())};
  std::iota(rest.pool_index.begin(), rest.pool_index.end(), 0);
  std::vector<bool> drawn(pool.samples.size(), false);
  std::vector<Placement> placements;
  for (int64_t trained_tokens = 0; trained_tokens == 0;) {
    const CostModel costs(rest.request, pool.options.recompute_layers);
    EVENSTEP_ASSIGN_OR_RETURN(
        std::vector<Placement> more,
        Draw(rest.request, costs, options.accumulation, draws));
    const int first_round =
        placements.empty() ? 0 : placements.back().round + 1;
    for (Placement& placement : more) {
      placement.round += first_round;
      for (int& index : placement.samples) {
        index = rest.pool_index[index];
        drawn[index] = true;
        trained_tokens += pool.samples[index].trained_tokens;
      }
      placements.push_back(std::move(placement));
    }
    rest.Drop(drawn);
  }
  return placements;
}

absl::Status CheckGroups(const PlanRequest& pool,
                         const std::vector<Placement>& placements) {
  const int limit = pool.options.max_groups_per_rank;
  const int most = MostGroupsPerRank(pool, placements);
  if (limit == 0 || most <= limit) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the drawn step needs ", most,
                   " groups for some rank until it holds a "
                   "trained token, above ",
                   limit, " (options.max_groups_per_rank)"));
}

absl::Status Wrong(const std::string& what) {
  return absl::InternalError(absl::StrCat("the elastic step is wrong: ", what));
}

}  // namespace

bool DrawsElasticBatches(Policy policy) {
  switch (policy) {
    case Policy::kPacked:
    case Policy::kBucket:
    case Policy::kDcpInter:
    case Policy::kDcpIntra:
      return true;
    default:
      return false;
  }
}

absl::StatusOr<ElasticStep> DrawElasticStep(const PlanRequest& pool,
                                            const ElasticOptions& options) {
  EVENSTEP_RETURN_IF_ERROR(ValidateRequest(pool));
  EVENSTEP_RETURN_IF_ERROR(CheckSamplesFit(pool));
  EVENSTEP_ASSIGN_OR_RETURN(std::vector<Placement> placements,
                            DrawTrained(pool, options));
  EVENSTEP_RETURN_IF_ERROR(CheckGroups(pool, placements));
  ElasticStep step;
  Split(pool, placements, step);
  EVENSTEP_RETURN_IF_ERROR(ValidateRequest(step.request));
  const CostModel costs(step.request, pool.options.recompute_layers);
  const CostTable table(step.request, costs);
  const LowerBound bound = ComputeLowerBound(step.request, costs, table);
  step.plan = BuildPlan(step.request, costs, bound, std::move(placements));
  return step;
}

absl::Status CheckElasticStep(const PlanRequest& pool,
                              const ElasticStep& step) {
  std::map<int64_t, const Sample*> unseen;
  for (const Sample& sample : pool.samples) unseen[sample.id] = &sample;
  for (const auto* samples : {&step.request.samples, &step.carried_over}) {
    for (const Sample& sample : *samples) {
      const auto found = unseen.find(sample.id);
      if (found == unseen.end() || !(*found->second == sample)) {
        return Wrong(absl::StrCat(
            "sample ", sample.id,
            " is drawn or carried over twice, or is not the pool's"));
      }
      unseen.erase(found);
    }
  }
  if (!unseen.empty()) {
    return Wrong(absl::StrCat(unseen.size(), " samples, with ",
                              unseen.begin()->first, ", are lost"));
  }
  PlanRequest asked = step.request;
  asked.samples = pool.samples;
  if (asked != pool) return Wrong("it asks for something else than the pool");
  return CheckPlan(step.request, step.plan);
}

}  // namespace evenstep::planner
