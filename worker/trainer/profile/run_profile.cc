#include "worker/trainer/profile/run_profile.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "jobspec/plan_request.h"
#include "planner/costs/degrees.h"
#include "planner/costs/memory_model.h"
#include "worker/trainer/comm/gloo_communicator.h"
#include "worker/trainer/comm/group_tree.h"
#include "worker/trainer/comm/in_process_communicator.h"
#include "worker/trainer/comm/rendezvous_store.h"
#include "worker/trainer/job/engine.h"
#include "worker/trainer/job/trainer_setup.h"
#include "worker/trainer/link/failure.h"
#include "worker/trainer/model/catch_torch.h"
#include "worker/trainer/model/tensor_memory.h"
#include "worker/trainer/profile/engine_costs.h"
#include "worker/trainer/profile/fit_profile.h"
#include "worker/trainer/profile/measure_costs.h"
#include "worker/trainer/profile/point_times.h"
#include "worker/trainer/profile/profile_key.h"
#include "worker/trainer/profile/profile_points.h"

namespace evenstep::trainer {
namespace {

using jobspec::ProfilePoint;

constexpr int kThreadsPerRank = 1;
constexpr absl::Duration kPatience = absl::Minutes(10);
// Of a rank's memory.
constexpr int64_t kSmallestShareOnDevice = 16;

// What one rank saw of one point.
struct PointResult {
  RankTimes times;
  int64_t activation_bytes = 0;  // the most
  int64_t own_tokens = 0;
};

// One rank's measurements, in the order of the points and of the depths.
struct RankResult {
  c10::Device device = c10::kCPU;
  std::string device_name;
  std::vector<PointResult> points;
  std::vector<StepFixedPoint> step_fixed;
  TensorAccount account;        // ranks are threads: of its own tensors
  std::vector<double> call_ns;  // collectives of the micro-batch at hand
};

TrainerSetup SetupOf(const ProfileRun& run, const RankResult& result, int rank,
                     int layers) {
  TrainerSetup setup;
  setup.spec = run.spec;
  setup.spec.model.layers = layers;
  setup.spec.model.weights.clear();  // what they hold costs the same
  setup.rank = rank;
  setup.world = run.ranks;
  setup.threads = kThreadsPerRank;
  setup.device = result.device;
  setup.device_name = result.device_name;
  setup.models = run.models;
  return setup;
}

// The micro-batch of the rank's own block; all blocks run theirs at once, as
// they do in a step.
wire::PlannedMicroBatch MicroBatchOf(const ProfileRun& run,
                                     const ProfilePoint& point, int rank) {
  const planner::SequenceSplit split =
      planner::SplitFor(jobspec::ToModelShape(run.spec.model), point.degree);
  wire::PlannedMicroBatch micro_batch;
  micro_batch.sp_mode = split.mode;
  micro_batch.ulysses_degree = split.ulysses_degree;
  micro_batch.first_rank = rank / point.degree * point.degree;
  micro_batch.degree = point.degree;
  micro_batch.lengths = point.lengths;
  micro_batch.shapes = point.shapes;
  micro_batch.recompute_layers = point.recompute_layers;
  micro_batch.recompute_temporal_layers = point.recompute_temporal_layers;
  for (size_t i = 0; i < point.lengths.size(); ++i) {
    micro_batch.sample_ids.push_back(static_cast<int64_t>(i));
  }
  return micro_batch;
}

data::SampleTokens SampleOf(const ProfileRun& run, const ProfilePoint& point,
                            int64_t id) {
  const jobspec::ModelSpec& model = run.spec.model;
  if (!model.is_video()) return MadeUpSample(point.lengths[id], model.vocab);
  return MadeUpClip(point.shapes[id], PatchValues(model));
}

// What runs the points of one depth.
struct DepthParts {
  const ProfileRun& run;
  const Engine& engine;
  std::vector<double>* call_ns;
};

absl::StatusOr<MicroBatchResult> RunPoint(const DepthParts& parts,
                                          const ProfilePoint& point) {
  const GroupTree& groups = *parts.engine.groups;
  const auto micro_batch = MicroBatchOf(parts.run, point, groups.rank());
  const SampleReader read = [&](int64_t id) {
    return SampleOf(parts.run, point, id);
  };
  // Ranks start together, so that each is timed beside busy neighbours.
  EVENSTEP_RETURN_IF_ERROR(groups.world().Barrier());
  parts.call_ns->clear();
  return parts.engine.runner->RunMicroBatch(micro_batch, read,
                                            point.lengths[0]);
}

// Runs the point once, and says how often it is timed: the same on all ranks.
absl::StatusOr<int64_t> WarmUp(const DepthParts& parts,
                               const ProfilePoint& point) {
  EVENSTEP_ASSIGN_OR_RETURN(const MicroBatchResult done,
                            RunPoint(parts, point));
  int64_t repeats = RepeatsOf(done.compute_ns, point.degree, parts.run.repeats);
  EVENSTEP_RETURN_IF_ERROR(
      parts.engine.groups->world().AllReduceMin(absl::MakeSpan(&repeats, 1)));
  return repeats;
}

absl::Status TimeOnce(const DepthParts& parts, const ProfilePoint& point,
                      PointResult* result) {
  EVENSTEP_ASSIGN_OR_RETURN(const MicroBatchResult done,
                            RunPoint(parts, point));
  result->activation_bytes =
      std::max(result->activation_bytes, done.activation_bytes);
  result->own_tokens = done.padded_tokens;
  return AddRepeat(static_cast<double>(done.compute_ns), *parts.call_ns,
                   &result->times);
}

// All points in turn, again and again, each as often as it is to be, spread
// over all rounds: whatever slows the machine down for some seconds meets one
// repeat of many points, and not all repeats of a few.
absl::Status MeasurePoints(const DepthParts& parts,
                           absl::Span<const ProfilePoint> points,
                           absl::Span<PointResult> results) {
  std::vector<int64_t> repeats;
  int64_t rounds = 1;
  for (const ProfilePoint& point : points) {
    EVENSTEP_ASSIGN_OR_RETURN(repeats.emplace_back(), WarmUp(parts, point));
    rounds = std::max(rounds, repeats.back());
  }
  for (int64_t round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < points.size(); ++i) {
      if (!IsTimedIn(round, rounds, repeats[i])) continue;
      EVENSTEP_RETURN_IF_ERROR(TimeOnce(parts, points[i], &results[i]));
    }
  }
  return absl::OkStatus();
}

// All points of one depth; they stand together.
absl::Status MeasureDepth(const ProfileRun& run,
                          const std::vector<ProfilePoint>& points, int layers,
                          GroupTree* groups, RankResult* result) {
  const TrainerSetup setup = SetupOf(run, *result, groups->rank(), layers);
  EVENSTEP_ASSIGN_OR_RETURN(const Engine engine,
                            MakeEngine(setup, FaultPlan(), groups));
  const size_t first = result->points.size();
  const size_t count =
      std::count_if(points.begin(), points.end(),
                    [&](const auto& point) { return point.layers == layers; });
  result->points.resize(first + count);
  EVENSTEP_RETURN_IF_ERROR(
      MeasurePoints({run, engine, &result->call_ns},
                    absl::MakeConstSpan(points).subspan(first, count),
                    absl::MakeSpan(result->points).subspan(first, count)));
  EVENSTEP_ASSIGN_OR_RETURN(const double step_ns,
                            MeasureStepFixed(PartsToMeasure(engine)));
  result->step_fixed.push_back({layers, step_ns});
  return absl::OkStatus();
}

// Where the ranks meet, and learn that one of them has failed; outlives them.
class Fabric {
 public:
  explicit Fabric(const ProfileRun& run) : run_(run) {}

  // On the rank's own thread. In-process for one rank, which has nobody to talk
  // to.
  absl::StatusOr<std::unique_ptr<CommunicatorFactory>> MakeFactory() {
    if (run_.ranks == 1) return hub_.MakeFactory();
    EVENSTEP_ASSIGN_OR_RETURN(
        auto host, MakeGlooFactory({"127.0.0.1", kPatience}, &store_));
    if (run_.device == nullptr) return host;
    return run_.device->make_factory({.host = std::move(host),
                                      .store = &store_,
                                      .timeout = kPatience,
                                      .end_process = EndHungProfile});
  }

  // A rank has failed: those that still wait for its address fail with the same
  // error. What comes later is a consequence.
  void End(const absl::Status& why) { store_.End(why); }
  // What the first rank that failed failed with.
  absl::Status failure() const { return store_.end(); }

 private:
  static void EndHungProfile(absl::string_view why) {
    Log(LogLevel::kError, "hung", {{"reason", why}});
    std::_Exit(kExitCollectiveFailed);
  }

  const ProfileRun& run_;
  InProcessHub hub_;
  MemoryRendezvousStore store_;
};

// Chooses the rank's device, for this thread.
absl::Status StartDevice(const ProfileRun& run, int rank, RankResult* result) {
  if (run.device == nullptr) return absl::OkStatus();
  EVENSTEP_ASSIGN_OR_RETURN(result->device, run.device->start(rank));
  result->device_name = run.device->name(result->device);
  return absl::OkStatus();
}

absl::Status MeasureDepths(const ProfileRun& run,
                           const std::vector<ProfilePoint>& points,
                           GroupTree* groups, RankResult* result) {
  return CatchTorch("a profile", [&]() -> absl::Status {
    for (const int layers : ProfileDepths(run.spec.model)) {
      EVENSTEP_RETURN_IF_ERROR(
          MeasureDepth(run, points, layers, groups, result));
    }
    return groups->world().Barrier();
  });
}

absl::Status MeasureRank(const ProfileRun& run,
                         const std::vector<ProfilePoint>& points, int rank,
                         Fabric* fabric, RankResult* result) {
  const ScopedTensorAccount scope(&result->account);
  at::set_num_threads(kThreadsPerRank);
  EVENSTEP_RETURN_IF_ERROR(StartDevice(run, rank, result));
  EVENSTEP_ASSIGN_OR_RETURN(auto inner, fabric->MakeFactory());
  const auto factory = MakeCallTimesFactory(std::move(inner), &result->call_ns);
  EVENSTEP_ASSIGN_OR_RETURN(const auto groups,
                            GroupTree::Build(*factory, 1, rank, run.ranks));
  absl::Status measured = MeasureDepths(run, points, groups.get(), result);
  // Before the groups go, by which the peers would fail first.
  if (!measured.ok()) fabric->End(measured);
  return measured;
}

absl::StatusOr<std::vector<RankResult>> MeasureAllRanks(
    const ProfileRun& run, const std::vector<ProfilePoint>& points) {
  Fabric fabric(run);
  std::vector<RankResult> results(run.ranks);
  std::vector<std::thread> threads;
  threads.reserve(run.ranks);
  for (int rank = 0; rank < run.ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const absl::Status status =
          MeasureRank(run, points, rank, &fabric, &results[rank]);
      if (!status.ok()) fabric.End(status);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EVENSTEP_RETURN_IF_ERROR(fabric.failure());
  return results;
}

// A CPU's time for a micro-batch grows with its tokens from the first on, and
// long ones take long to measure. A device waits for the host in small ones,
// and is filled by the planner: there a memory's worth is measured, and parts
// of it.
ProfileShape ShapeOf(const ProfileRun& run) {
  const int64_t memory = run.spec.memory.tokens_per_rank;
  ProfileShape shape;
  shape.model = run.spec.model;
  shape.longest = std::min(memory, run.spec.data.max_length);
  shape.ranks = run.ranks;
  if (run.device == nullptr) return shape;
  shape.fullest = memory;
  shape.smallest = std::max<int64_t>(1, memory / kSmallestShareOnDevice);
  return shape;
}

// What the memory model says of a point.
int64_t PredictedBytes(const ProfileRun& run, const ProfilePoint& point,
                       int64_t own_tokens) {
  jobspec::JobSpec spec = run.spec;
  spec.model.layers = point.layers;
  return planner::PredictBytes(
      jobspec::ToPlanRequest(spec),
      {point.recompute_layers, point.recompute_temporal_layers}, point.degree,
      own_tokens * point.degree);
}

// Of memory, the most over the ranks.
absl::Status Combine(const ProfileRun& run,
                     const std::vector<RankResult>& results, size_t index,
                     ProfilePoint* point) {
  std::vector<RankTimes> times;
  for (const RankResult& result : results) {
    const PointResult& of_rank = result.points[index];
    times.push_back(of_rank.times);
    point->activation_bytes =
        std::max(point->activation_bytes, of_rank.activation_bytes);
  }
  if (point->activation_bytes > 0) {
    point->predicted_bytes =
        PredictedBytes(run, *point, results[0].points[index].own_tokens);
  }
  EVENSTEP_ASSIGN_OR_RETURN(const PointTime time, CombineTimes(times));
  point->compute_ns = time.compute_ns;
  point->collective_ns = time.collective_ns;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<jobspec::Profile> RunProfile(const ProfileRun& run) {
  jobspec::Profile profile;
  profile.points = ProfilePoints(ShapeOf(run));
  EVENSTEP_ASSIGN_OR_RETURN(const std::vector<RankResult> results,
                            MeasureAllRanks(run, profile.points));
  profile.key = LocalProfileKey(
      run.spec, {results[0].device, kThreadsPerRank, results[0].device_name});
  for (size_t i = 0; i < profile.points.size(); ++i) {
    EVENSTEP_RETURN_IF_ERROR(Combine(run, results, i, &profile.points[i]));
  }
  const ProfileFit fit =
      FitProfile(run.spec.model, results[0].step_fixed, &profile.points);
  profile.costs = fit.costs;
  profile.fit_error = fit.fit_error;
  profile.held_out_error = fit.held_out_error;
  return profile;
}

}  // namespace evenstep::trainer
