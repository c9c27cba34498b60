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
#include "planner/costs/degrees.h"
#include "planner/costs/memory_model.h"
#include "worker/trainer/comm/gloo_communicator.h"
#include "worker/trainer/comm/group_tree.h"
#include "worker/trainer/comm/in_process_communicator.h"
#include "worker/trainer/comm/rendezvous_store.h"
#include "worker/trainer/loop/engine.h"
#include "worker/trainer/loop/failure.h"
#include "worker/trainer/loop/model_config.h"
#include "worker/trainer/model/catch_torch.h"
#include "worker/trainer/model/tensor_memory.h"
#include "worker/trainer/profile/fit_costs.h"
#include "worker/trainer/profile/fit_profile.h"
#include "worker/trainer/profile/measure_clip_costs.h"
#include "worker/trainer/profile/measure_costs.h"
#include "worker/trainer/profile/profile_key.h"
#include "worker/trainer/profile/profile_points.h"

namespace evenstep::trainer {
namespace {

using jobspec::ProfilePoint;

constexpr int kThreadsPerRank = 1;
// Long points are steady, and take as few repeats as fit into this.
constexpr int64_t kPointBudgetNs = 1'500'000'000;
constexpr absl::Duration kPatience = absl::Minutes(10);
// Of a rank's memory.
constexpr int64_t kSmallestShareOnDevice = 16;

// What one rank saw of one point, one value per repeat.
struct RankTimes {
  std::vector<double> compute_ns;
  std::vector<double> collective_ns;
  int64_t activation_bytes = 0;  // the most
  int64_t own_tokens = 0;
};

// One rank's measurements, in the order of the points and of the depths.
struct RankResult {
  c10::Device device = c10::kCPU;
  std::string device_name;
  std::vector<RankTimes> points;
  std::vector<StepFixedPoint> step_fixed;
  TensorAccount account;  // ranks are threads: of its own tensors
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

absl::StatusOr<RankTimes> MeasurePoint(const ProfileRun& run,
                                       const ProfilePoint& point,
                                       const Engine& engine) {
  const auto micro_batch = MicroBatchOf(run, point, engine.groups->rank());
  const SampleReader read = [&](int64_t id) {
    return SampleOf(run, point, id);
  };
  Communicator& world = engine.groups->world();
  RankTimes times;
  int64_t repeats = run.repeats;
  for (int64_t repeat = -1; repeat < repeats; ++repeat) {
    // Ranks start together, so that each is timed beside busy neighbours.
    EVENSTEP_RETURN_IF_ERROR(world.Barrier());
    EVENSTEP_ASSIGN_OR_RETURN(
        const MicroBatchResult done,
        engine.runner->RunMicroBatch(micro_batch, read, point.lengths[0]));
    if (repeat < 0) {  // the warm-up
      repeats = std::clamp<int64_t>(kPointBudgetNs / (done.compute_ns + 1), 1,
                                    run.repeats);
      EVENSTEP_RETURN_IF_ERROR(world.AllReduceMin(absl::MakeSpan(&repeats, 1)));
      continue;
    }
    times.compute_ns.push_back(static_cast<double>(done.compute_ns));
    times.collective_ns.push_back(static_cast<double>(done.collective_ns));
    times.activation_bytes =
        std::max(times.activation_bytes, done.activation_bytes);
    times.own_tokens = done.padded_tokens;
  }
  return times;
}

// All points of one depth.
absl::Status MeasureDepth(const ProfileRun& run,
                          const std::vector<ProfilePoint>& points, int layers,
                          GroupTree* groups, RankResult* result) {
  const TrainerSetup setup = SetupOf(run, *result, groups->rank(), layers);
  EVENSTEP_ASSIGN_OR_RETURN(const Engine engine,
                            MakeEngine(setup, FaultPlan(), groups));
  for (const ProfilePoint& point : points) {
    if (point.layers != layers) continue;
    EVENSTEP_ASSIGN_OR_RETURN(RankTimes times,
                              MeasurePoint(run, point, engine));
    result->points.push_back(std::move(times));
  }
  EVENSTEP_ASSIGN_OR_RETURN(const double step_ns,
                            MeasureStepFixed(PartsToMeasure(setup, engine)));
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
  EVENSTEP_ASSIGN_OR_RETURN(const auto factory, fabric->MakeFactory());
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

// Over the ranks of every repeat: the slowest computes the longest, and who
// comes last waits for nobody. Over repeats: the median of computing, and the
// least of collectives. Of memory, the most.
void Combine(const ProfileRun& run, const std::vector<RankResult>& results,
             size_t index, ProfilePoint* point) {
  for (const RankResult& result : results) {
    point->activation_bytes = std::max(point->activation_bytes,
                                       result.points[index].activation_bytes);
  }
  if (point->activation_bytes > 0) {
    point->predicted_bytes =
        PredictedBytes(run, *point, results[0].points[index].own_tokens);
  }
  const size_t repeats = results[0].points[index].compute_ns.size();
  std::vector<double> compute;
  std::vector<double> collective;
  for (size_t repeat = 0; repeat < repeats; ++repeat) {
    double slowest = 0;
    double least = results[0].points[index].collective_ns[repeat];
    for (const RankResult& result : results) {
      const RankTimes& times = result.points[index];
      slowest = std::max(slowest, times.compute_ns[repeat]);
      least = std::min(least, times.collective_ns[repeat]);
    }
    compute.push_back(slowest);
    collective.push_back(least);
  }
  point->compute_ns = Median(std::move(compute));
  point->collective_ns =
      *std::min_element(collective.begin(), collective.end());
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
    Combine(run, results, i, &profile.points[i]);
  }
  const ProfileFit fit =
      FitProfile(run.spec.model, results[0].step_fixed, &profile.points);
  profile.costs = fit.costs;
  profile.fit_error = fit.fit_error;
  profile.held_out_error = fit.held_out_error;
  return profile;
}

}  // namespace evenstep::trainer
