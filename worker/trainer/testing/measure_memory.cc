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

absl::Status RunRank(const DecoderConfig& config, const MemoryCase& what,
                     CommunicatorFactory& factory, int rank, MemoryUse* use) {
  EVENSTEP_ASSIGN_OR_RETURN(auto groups,
                            GroupTree::Build(factory, 1, rank, what.degree));
  EVENSTEP_ASSIGN_OR_RETURN(auto model, MakeDecoder(config));
  StepRunner runner(model.get(), GroupsOf(groups.get()));
  wire::PlannedMicroBatch micro_batch;
  micro_batch.degree = what.degree;
  micro_batch.sample_ids = {0};
  micro_batch.lengths = {what.length};
  micro_batch.recompute_layers = what.recompute_layers;
  micro_batch.ulysses_degree = what.ulysses_degree;
  const auto read = [&](int64_t id) {
    return RandomSample(id, what.length, config.vocab);
  };
  const double before = ThreadCpuSeconds();
  EVENSTEP_ASSIGN_OR_RETURN(const MicroBatchResult result,
                            runner.RunMicroBatch(micro_batch, read, 1));
  *use = {result.activation_bytes, result.padded_tokens,
          ThreadCpuSeconds() - before};
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<MemoryUse> MeasureMemory(const DecoderConfig& config,
                                        const MemoryCase& what) {
  std::deque<TensorAccount> accounts(what.degree);
  std::vector<MemoryUse> uses(what.degree);
  Fabric fabric(BackEnd::kInProcess);
  const auto statuses = RunRanks(what.degree, [&](int rank) -> absl::Status {
    at::set_num_threads(1);
    ScopedTensorAccount scope(&accounts[rank]);
    EVENSTEP_ASSIGN_OR_RETURN(auto factory, fabric.MakeFactory());
    return RunRank(config, what, *factory, rank, &uses[rank]);
  });
  MemoryUse most;
  for (int rank = 0; rank < what.degree; ++rank) {
    EVENSTEP_RETURN_IF_ERROR(statuses[rank]);
    if (uses[rank].bytes > most.bytes) most = uses[rank];
  }
  return most;
}

}  // namespace evenstep::trainer::testing
