#ifndef EVENSTEP_WORKER_TRAINER_TESTING_PARITY_H_
#define EVENSTEP_WORKER_TRAINER_TESTING_PARITY_H_

// Runs plans on ranks that are threads, with the groups of a generation as a
// trainer has them, runs the oracle over the same samples, and says how far
// apart they are. Model and groups may be wrapped, so that a planted error
// shows that the comparison bites. For tests.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "wire/step_plan.h"
#include "worker/trainer/model/decoder.h"
#include "worker/trainer/model/diffusion_transformer.h"
#include "worker/trainer/parallel/step_runner.h"
#include "worker/trainer/testing/oracle.h"
#include "worker/trainer/testing/ranks.h"

namespace evenstep::trainer::testing {

// One micro-batch of a test's plan; ids are given in order.
struct TestMicroBatch {
  int first_rank = 0;
  int degree = 1;
  std::vector<int64_t> lengths;
  int recompute_layers = 0;
  int ulysses_degree = 0;  // 0: the whole degree
  // Of video; they stand in the place of lengths.
  std::vector<data::ClipShape> shapes = {};
  int recompute_temporal_layers = 0;
  planner::SpMode sp_mode = planner::SpMode::kUlysses;
  // Of every clip, at most all of its frames; absent: as RandomClip has it.
  std::optional<int64_t> given_frames = std::nullopt;
};

using ModelWrapper =
    std::function<std::unique_ptr<Model>(std::unique_ptr<Model> model)>;
using GroupWrapper = std::function<std::unique_ptr<Communicator>(
    std::unique_ptr<Communicator> group)>;
// Tokens of a sample, by id and length.
using SampleMaker =
    std::function<data::SampleTokens(int64_t id, int64_t length)>;

// A model of one's own in the place of the trainer's: how a rank makes it, and
// the slow, obvious form of what it computes.
struct OwnModel {
  std::function<absl::StatusOr<std::unique_ptr<Model>>()> make;  // empty: none
  SampleLoss loss;
};

struct ParityOptions {
  DecoderConfig config;
  std::optional<DiffusionTransformerConfig> video;  // in the place of config
  OwnModel own;  // in the place of both; tokens are below config.vocab
  int world = 1;
  // One list per step.
  std::vector<std::vector<TestMicroBatch>> steps;
  BackEnd back_end = BackEnd::kInProcess;
  IrregularHeads irregular_heads = IrregularHeads::kRefuse;
  Sharding sharding = Sharding::kNone;
  ModelWrapper wrap;        // empty: none
  GroupWrapper wrap_group;  // of two and more ranks; empty: none
  SampleMaker sample;       // empty: RandomSample with config.vocab
  // What the ranks are given in the place of a micro-batch's samples; empty:
  // the samples.
  std::function<std::vector<data::SampleTokens>(
      const std::vector<data::SampleTokens>& samples)>
      repack;
  // For ranks on config.device; the oracle is on the CPU. Empty: none.
  std::function<absl::Status()> start_rank;  // on each rank's thread
  std::function<std::unique_ptr<CommunicatorFactory>(
      std::unique_ptr<CommunicatorFactory> factory)>
      wrap_factory;
};

// Largest differences over all steps, ranks and parameters, each relative to
// the oracle's norm of the same parameter.
struct ParityReport {
  double loss = 0;  // absolute
  double gradient = 0;
  double parameter = 0;  // after the last step's update
  // Groups that were opened for a step, beside those of the tree.
  int64_t opened = 0;
  // By rank, of the last step.
  std::vector<StepResult> results;
  wire::StepPlan last_plan;
};

// Tokens drawn from (id, position); the last one has no target.
data::SampleTokens RandomSample(int64_t id, int64_t length, int vocab);

// A clip of values drawn from (id, place); of some ids the first frames are
// given.
data::SampleTokens RandomClip(int64_t id, const data::ClipShape& shape,
                              int64_t channels);

// Four query heads over two key and value heads, float64.
DecoderConfig SmallConfig();
// Two spatial and two temporal layers of four heads, float64.
DiffusionTransformerConfig SmallVideoConfig();

absl::StatusOr<ParityReport> RunParity(const ParityOptions& options);

}  // namespace evenstep::trainer::testing

#endif  // EVENSTEP_WORKER_TRAINER_TESTING_PARITY_H_
