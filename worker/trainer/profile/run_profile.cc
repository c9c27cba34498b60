#include "worker/trainer/profile/run_profile.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "base/status_macros.h"
#include "worker/trainer/comm/gloo_communicator.h"
#include "worker/trainer/comm/group_tree.h"
#include "worker/trainer/comm/in_process_communicator.h"
#include "worker/trainer/comm/rendezvous_store.h"
#include "worker/trainer/loop/engine.h"
#include "worker/trainer/model/catch_torch.h"
#include "worker/trainer/profile/fit_costs.h"
#include "worker/trainer/profile/fit_profile.h"
#include "worker/trainer/profile/measure_costs.h"
#include "worker/trainer/profile/profile_key.h"

namespace evenstep::trainer {
namespace {

using jobspec::ProfilePoint;

constexpr int kThreadsPerRank = 1;
// Long points are steady, and take as few repeats as fit into this.
constexpr int64_t kPointBudgetNs = 1'500'000'000;
constexpr absl::Duration kPatience = absl::Minutes(10);

// What one rank saw of one point, one value per repeat.
struct RankTimes {
  std::vector<double> compute_ns;
  std::vector<double> collective_ns;
};

// One rank's measurements, in the order of the points and of the depths.
struct RankResult {
  absl::Status status;
  std::vector<RankTimes> points;
  std::vector<StepFixedPoint> step_fixed;
};

TrainerSetup SetupOf(const ProfileRun& run, int rank, int layers) {
  TrainerSetup setup;
  setup.spec = run.spec;
  setup.spec.model.layers = layers;
  setup.rank = rank;
  setup.world = run.ranks;
  setup.threads = kThreadsPerRank;
  return setup;
}

// The micro-batch of the rank's own block; all blocks run theirs at once, as
// they do in a step.
wire::PlannedMicroBatch MicroBatchOf(const ProfilePoint& point, int rank) {
  wire::PlannedMicroBatch micro_batch;
  micro_batch.first_rank = rank / point.degree * point.degree;
  micro_batch.degree = point.degree;
  micro_batch.lengths = point.lengths;
  micro_batch.recompute_layers = point.recompute_layers;
  for (size_t i = 0; i < point.lengths.size(); ++i) {
    micro_batch.sample_ids.push_back(static_cast<int64_t>(i));
  }
  return micro_batch;
}

absl::StatusOr<RankTimes> MeasurePoint(const ProfileRun& run,
                                       const ProfilePoint& point,
                                       const Engine& engine) {
  const auto micro_batch = MicroBatchOf(point, engine.groups->rank());
  const SampleReader read = [&](int64_t id) {
    return MadeUpSample(point.lengths[id], run.spec.model.vocab);
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
  }
  return times;
}

// All points of one depth.
absl::Status MeasureDepth(const ProfileRun& run,
                          const std::vector<ProfilePoint>& points, int layers,
                          GroupTree* groups, RankResult* result) {
  const TrainerSetup setup = SetupOf(run, groups->rank(), layers);
  EVENSTEP_ASSIGN_OR_RETURN(const Engine engine,
                            MakeEngine(setup, FaultPlan(), groups));
  for (const ProfilePoint& point : points) {
    if (point.layers != layers) continue;
    EVENSTEP_ASSIGN_OR_RETURN(RankTimes times,
                              MeasurePoint(run, point, engine));
    result->points.push_back(std::move(times));
  }
  EVENSTEP_ASSIGN_OR_RETURN(
      const double step_ns,
      MeasureStepFixed({engine.model.get(), engine.runner.get(), groups}));
  result->step_fixed.push_back({layers, step_ns});
  return absl::OkStatus();
}

absl::Status MeasureRank(const ProfileRun& run,
                         const std::vector<ProfilePoint>& points,
                         CommunicatorFactory* factory, int rank,
                         RankResult* result) {
  return CatchTorch("a profile", [&]() -> absl::Status {
    at::set_num_threads(kThreadsPerRank);
    EVENSTEP_ASSIGN_OR_RETURN(const auto groups,
                              GroupTree::Build(*factory, 1, rank, run.ranks));
    for (const int layers : ProfileDepths(run.spec.model)) {
      EVENSTEP_RETURN_IF_ERROR(
          MeasureDepth(run, points, layers, groups.get(), result));
    }
    return groups->world().Barrier();
  });
}

// Where the ranks meet; outlives them.
class Fabric {
 public:
  // In-process for one rank, which has nobody to talk to.
  absl::Status Open(int ranks) {
    for (int rank = 0; rank < ranks; ++rank) {
      if (ranks == 1) {
        factories_.push_back(hub_.MakeFactory());
        continue;
      }
      EVENSTEP_ASSIGN_OR_RETURN(
          auto factory, MakeGlooFactory({"127.0.0.1", kPatience}, &store_));
      factories_.push_back(std::move(factory));
    }
    return absl::OkStatus();
  }
  CommunicatorFactory* factory(int rank) { return factories_[rank].get(); }

 private:
  InProcessHub hub_;
  MemoryRendezvousStore store_;
  std::vector<std::unique_ptr<CommunicatorFactory>> factories_;
};

absl::StatusOr<std::vector<RankResult>> MeasureAllRanks(
    const ProfileRun& run, const std::vector<ProfilePoint>& points) {
  Fabric fabric;
  EVENSTEP_RETURN_IF_ERROR(fabric.Open(run.ranks));
  std::vector<RankResult> results(run.ranks);
  std::vector<std::thread> threads;
  threads.reserve(run.ranks);
  for (int rank = 0; rank < run.ranks; ++rank) {
    threads.emplace_back([&, rank] {
      results[rank].status =
          MeasureRank(run, points, fabric.factory(rank), rank, &results[rank]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const RankResult& result : results) {
    EVENSTEP_RETURN_IF_ERROR(result.status);
  }
  return results;
}

// Over the ranks of every repeat: the slowest computes the longest, and who
// comes last waits for nobody. Over repeats: the median of computing, and the
// least of collectives.
void Combine(const std::vector<RankResult>& results, size_t index,
             ProfilePoint* point) {
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
  profile.key = LocalProfileKey(run.spec, {c10::kCPU, kThreadsPerRank});
  profile.points = ProfilePoints(
      {run.spec.model,
       std::min(run.spec.memory.tokens_per_rank, run.spec.data.max_length),
       run.ranks});
  EVENSTEP_ASSIGN_OR_RETURN(const std::vector<RankResult> results,
                            MeasureAllRanks(run, profile.points));
  for (size_t i = 0; i < profile.points.size(); ++i) {
    Combine(results, i, &profile.points[i]);
  }
  const ProfileFit fit =
      FitProfile(run.spec.model, results[0].step_fixed, &profile.points);
  profile.costs = fit.costs;
  profile.fit_error = fit.fit_error;
  profile.held_out_error = fit.held_out_error;
  return profile;
}

}  // namespace evenstep::trainer
