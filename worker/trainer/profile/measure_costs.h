#ifndef EVENSTEP_WORKER_TRAINER_PROFILE_MEASURE_COSTS_H_
#define EVENSTEP_WORKER_TRAINER_PROFILE_MEASURE_COSTS_H_

// Measures what the planner needs to know, when an attempt starts and the job
// names no costs: one document of 512 and of 4,096 tokens at degree 1 and a
// very small one (so that the fixed cost separates), a small and a large
// all-to-all in every group of the rank, and a reduction with an optimizer
// update on scratch parameters. Of a video model: a very small clip, one frame
// of many patches, many frames of one patch, and two clips in between, which
// tell the pairs of spatial layers from those of temporal ones. Computing by
// the compute clock (parallel/compute_timer.h), medians of a few repeats after
// a warm-up; collectives by the wall, the least of the repeats. Parameters and
// optimizer states of the job are never changed; gradients mean nothing
// afterwards. Main thread only.

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "data/clip.h"
#include "data/dataset.h"
#include "evenstep/trainer/model.h"
#include "planner/request.h"
#include "worker/trainer/comm/group_tree.h"
#include "worker/trainer/optim/adamw.h"
#include "worker/trainer/parallel/step_runner.h"

namespace evenstep::trainer {

struct MeasureOptions {
  planner::ModelShape model;
  int vocab = 257;                        // text
  int64_t patch_values = 1;               // video
  int64_t tokens_per_rank = 0;            // no measured micro-batch is larger
  planner::LayerCounts recompute_layers;  // as the job runs
  int repeats = 3;
  int64_t long_tokens = 4096;  // text, as the next two
  int64_t short_tokens = 512;
  int64_t tiny_tokens = 16;
};

// Parts of a rank that are measured; not owned.
struct MeasuredParts {
  const Model* model;
  StepRunner* runner;
  const GroupTree* groups;
  Communicator* sharded_over = nullptr;  // as the job's optimizer
};

// Collective over the world: every rank measures at the same time, as it will
// run, and gets its own numbers; rank 0's are the job's. Errors of the runner
// and of collectives are passed on.
absl::StatusOr<planner::TimeModel> MeasureCosts(const MeasureOptions& options,
                                                const MeasuredParts& parts);

// Costs of the all-to-alls of every group of the rank. Collective over the
// world.
absl::Status MeasureCollectives(const planner::ModelShape& model,
                                const MeasuredParts& parts,
                                planner::TimeModel* costs);

// What the rank computes in one micro-batch: the median of `repeats` after a
// warm-up. Collective over the micro-batch's group.
absl::StatusOr<double> MeasureMicroBatchNs(
    const wire::PlannedMicroBatch& micro_batch, const SampleReader& read,
    int repeats, StepRunner* runner);

// Collective over the world: a reduction and an update of scratch parameters.
absl::StatusOr<double> MeasureStepFixed(const MeasuredParts& parts);

// A document of made-up tokens: what they are does not change the cost.
data::SampleTokens MadeUpSample(int64_t tokens, int vocab);

// Sizes that are measured under a memory of `tokens_per_rank`: ascending,
// distinct, none above it.
std::vector<int64_t> MeasuredSizes(const MeasureOptions& options);

// A clip of zeros: what it shows does not change the cost.
data::SampleTokens MadeUpClip(const data::ClipShape& shape,
                              int64_t patch_values);

// Distinct; none of more tokens than memory allows.
std::vector<data::ClipShape> MeasuredShapes(int64_t tokens_per_rank);

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_PROFILE_MEASURE_COSTS_H_
