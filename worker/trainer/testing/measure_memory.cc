#include "worker/trainer/testing/measure_memory.h"

#include <ATen/Parallel.h>
#include <sys/resource.h>

#include <deque>
#include <vector>

#include "base/status_macros.h"
#include "worker/trainer/comm/group_tree.h"
#include "worker/trainer/model/tensor_memory.h"
#include "worker/trainer/parallel/step_runner.h"
#include "worker/trainer/testing/parity.h"
#include "worker/trainer/testing/ranks.h"

namespace evenstep::trainer::testing {
namespace {

double ThreadCpuSeconds() {
  rusage usage = {};
  ::getrusage(RUSAGE_THREAD, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) +
           1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

absl::Status RunRank(Model* model, const wire::PlannedMicroBatch& micro_batch,
                     const SampleReader& read, CommunicatorFactory& factory,
                     int rank, MemoryUse* use) {
  EVENSTEP_ASSIGN_OR_RETURN(
      auto groups, GroupTree::Build(factory, 1, rank, micro_batch.degree));
  StepRunner runner(model, GroupsOf(groups.get()));
  const double before = ThreadCpuSeconds();
  EVENSTEP_ASSIGN_OR_RETURN(const MicroBatchResult result,
                            runner.RunMicroBatch(micro_batch, read, 1));
  *use = {result.activation_bytes, result.padded_tokens,
          ThreadCpuSeconds() - before};
  return absl::OkStatus();
}

// make_model() gives each rank a model of its own.
template <typename MakeModel>
absl::StatusOr<MemoryUse> MeasureRanks(
    const MakeModel& make_model, const wire::PlannedMicroBatch& micro_batch,
    const SampleReader& read) {
  const int degree = micro_batch.degree;
  std::deque<TensorAccount> accounts(degree);
  std::vector<MemoryUse> uses(degree);
  Fabric fabric(BackEnd::kInProcess);
  const auto statuses = RunRanks(degree, [&](int rank) -> absl::Status {
    at::set_num_threads(1);
    ScopedTensorAccount scope(&accounts[rank]);
    EVENSTEP_ASSIGN_OR_RETURN(auto factory, fabric.MakeFactory());
    EVENSTEP_ASSIGN_OR_RETURN(auto model, make_model());
    return RunRank(model.get(), micro_batch, read, *factory, rank, &uses[rank]);
  });
  MemoryUse most;
  for (int rank = 0; rank < degree; ++rank) {
    EVENSTEP_RETURN_IF_ERROR(statuses[rank]);
    if (uses[rank].bytes > most.bytes) most = uses[rank];
  }
  return most;
}

}  // namespace

absl::StatusOr<MemoryUse> MeasureMemory(const DecoderConfig& config,
                                        const MemoryCase& what) {
  wire::PlannedMicroBatch micro_batch;
  micro_batch.degree = what.degree;
  micro_batch.sample_ids = {0};
  micro_batch.lengths = {what.length};
  micro_batch.recompute_layers = what.recompute_layers;
  micro_batch.ulysses_degree = what.ulysses_degree;
  return MeasureRanks(
      [&] { return MakeDecoder(config); }, micro_batch,
      [&](int64_t id) { return RandomSample(id, what.length, config.vocab); });
}

absl::StatusOr<MemoryUse> MeasureMemory(
    const DiffusionTransformerConfig& config, const ClipMemoryCase& what) {
  wire::PlannedMicroBatch micro_batch;
  micro_batch.degree = what.degree;
  for (const data::ClipShape& shape : what.shapes) {
    micro_batch.sample_ids.push_back(
        static_cast<int64_t>(micro_batch.sample_ids.size()));
    micro_batch.lengths.push_back(shape.tokens());
  }
  micro_batch.shapes = what.shapes;
  micro_batch.recompute_layers = what.recompute_layers[0];
  micro_batch.recompute_temporal_layers = what.recompute_layers[1];
  micro_batch.sp_mode = what.sp_mode;
  return MeasureRanks([&] { return MakeDiffusionTransformer(config); },
                      micro_batch,
                      [&](int64_t id) {
                        return RandomClip(id, what.shapes[id], config.channels);
                      });
}

}  // namespace evenstep::trainer::testing
