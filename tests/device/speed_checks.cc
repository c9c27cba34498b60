// What a rank's work takes on the GPU, measured by the step runner's own
// accounts, which are checked against the host's clock first.

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "evenstep/trainer/initial_values.h"
#include "tests/device/checks.h"
#include "worker/trainer/comm/in_process_communicator.h"
#include "worker/trainer/optim/adamw.h"
#include "worker/trainer/parallel/step_runner.h"

namespace evenstep::trainer {
namespace {

using Clock = std::chrono::steady_clock;

double MillisecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin)
      .count();
}

// One rank with a model in bfloat16.
struct Rank {
  InProcessHub hub;
  std::unique_ptr<CommunicatorFactory> factory;
  std::unique_ptr<GroupTree> groups;
  std::unique_ptr<Model> model;
  std::unique_ptr<StepRunner> runner;
  int vocab = 0;

  data::SampleTokens Sample(int64_t tokens) const {
    data::SampleTokens sample;
    for (int64_t i = 0; i < tokens; ++i) {
      sample.tokens.push_back(static_cast<int32_t>(i * 7919 % vocab));
      sample.targets.push_back(static_cast<int32_t>((i * 7919 + 11) % vocab));
    }
    return sample;
  }
};

absl::StatusOr<std::unique_ptr<Rank>> MakeRank(DecoderConfig config) {
  config.dtype = at::kBFloat16;
  config.device = Gpu();
  auto rank = std::make_unique<Rank>();
  rank->vocab = config.vocab;
  rank->factory = rank->hub.MakeFactory();
  EVENSTEP_ASSIGN_OR_RETURN(rank->groups,
                            GroupTree::Build(*rank->factory, 1, 0, 1));
  EVENSTEP_ASSIGN_OR_RETURN(rank->model, MakeDecoder(config));
  rank->runner = std::make_unique<StepRunner>(rank->model.get(),
                                              GroupsOf(rank->groups.get()));
  return rank;
}

wire::PlannedMicroBatch MicroBatch(const std::vector<int64_t>& lengths,
                                   int recompute) {
  wire::PlannedMicroBatch micro_batch;
  micro_batch.lengths = lengths;
  micro_batch.recompute_layers = recompute;
  for (size_t i = 0; i < lengths.size(); ++i) {
    micro_batch.sample_ids.push_back(static_cast<int64_t>(i));
  }
  return micro_batch;
}

// The median by compute time of three, after one that chooses kernels.
absl::StatusOr<MicroBatchResult> Typical(Rank& rank,
                                         const std::vector<int64_t>& lengths,
                                         int recompute) {
  const SampleReader read = [&](int64_t id) {
    return rank.Sample(lengths[id]);
  };
  std::vector<MicroBatchResult> results;
  for (int i = 0; i < 4; ++i) {
    EVENSTEP_ASSIGN_OR_RETURN(
        const MicroBatchResult done,
        rank.runner->RunMicroBatch(MicroBatch(lengths, recompute), read, 1));
    if (i > 0) results.push_back(done);
  }
  std::sort(results.begin(), results.end(), [](const auto& a, const auto& b) {
    return a.compute_ns < b.compute_ns;
  });
  return results[1];
}

DecoderConfig MediumConfig() {
  DecoderConfig config;
  config.layers = 8;
  config.width = 1024;
  config.heads = 16;
  config.kv_heads = 4;
  return config;
}

// 0.9 billion parameters.
DecoderConfig LargeConfig() {
  DecoderConfig config;
  config.layers = 16;
  config.width = 2048;
  config.heads = 16;
  config.kv_heads = 4;
  config.vocab = 32000;
  return config;
}

// What a large product of matrices reaches here.
double PeakTeraflops() {
  constexpr int64_t kSize = 8192;
  constexpr int kRepeats = 10;
  const auto random = [] {
    return at::randn({kSize, kSize},
                     at::TensorOptions(at::kBFloat16).device(Gpu()));
  };
  const at::Tensor a = random();
  const at::Tensor b = random();
  for (int i = 0; i < 3; ++i) at::matmul(a, b);
  Synchronize();
  const Clock::time_point begin = Clock::now();
  for (int i = 0; i < kRepeats; ++i) at::matmul(a, b);
  Synchronize();
  return 2.0 * kRepeats * std::pow(static_cast<double>(kSize), 3) /
         (MillisecondsSince(begin) * 1e9);
}

// Micro-batches of at most `tokens` with lengths as of encyclopedia articles:
// exp of a normal number, 16 to 8192.
std::vector<std::vector<int64_t>> ArticleLengths(int micro_batches,
                                                 int64_t tokens) {
  std::vector<std::vector<int64_t>> all(micro_batches);
  uint64_t i = 0;
  for (std::vector<int64_t>& lengths : all) {
    int64_t left = tokens;
    while (left > 0) {
      const double length =
          std::exp(6.2 + 1.2 * NormalAt(1, "article lengths", i++));
      lengths.push_back(std::min(
          left, std::clamp<int64_t>(static_cast<int64_t>(length), 16, 8192)));
      left -= lengths.back();
    }
  }
  return all;
}

// A step's plan over all documents, and its arithmetic without recompute: 6 for
// each weight of a matrix and token, and causal attention, whose products are
// half a square.
struct Workload {
  wire::StepPlan plan;
  std::vector<int64_t> lengths;
  double flops = 0;
};

Workload MakeWorkload(const DecoderConfig& config, const Model& model,
                      int recompute) {
  double weights = -static_cast<double>(config.vocab) * config.width;
  for (const NamedParameter& p : model.parameters()) {
    if (p.value.dim() == 2) weights += static_cast<double>(p.value.numel());
  }
  Workload work;
  for (const auto& lengths : ArticleLengths(4, 32768)) {
    wire::PlannedMicroBatch micro_batch = MicroBatch(lengths, recompute);
    for (int64_t& id : micro_batch.sample_ids) {
      id += static_cast<int64_t>(work.lengths.size());
    }
    work.plan.micro_batches.push_back(std::move(micro_batch));
    work.lengths.insert(work.lengths.end(), lengths.begin(), lengths.end());
  }
  for (const int64_t length : work.lengths) {
    const double tokens = static_cast<double>(length);
    work.plan.trained_tokens += length;
    work.flops += 6 * weights * tokens +
                  6.0 * config.layers * config.width * tokens * tokens;
  }
  work.plan.world = 1;
  return work;
}

// Prints the median of three steps after one.
absl::Status MeasureTraining(const DecoderConfig& config, int recompute,
                             double peak) {
  EVENSTEP_ASSIGN_OR_RETURN(const auto rank, MakeRank(config));
  AdamW optimizer(rank->model->parameters(), {});
  const Workload work = MakeWorkload(config, *rank->model, recompute);
  const SampleReader read = [&](int64_t id) {
    return rank->Sample(work.lengths[id]);
  };
  std::vector<double> step_ms;
  double update_ms = 0;
  StepResult result;
  for (int step = 0; step < 4; ++step) {
    Synchronize();
    const Clock::time_point begin = Clock::now();
    EVENSTEP_ASSIGN_OR_RETURN(result, rank->runner->Run(work.plan, read));
    const Clock::time_point ran = Clock::now();
    EVENSTEP_RETURN_IF_ERROR(optimizer.Update(step).status());
    Synchronize();
    update_ms = MillisecondsSince(ran);
    if (step > 0) step_ms.push_back(MillisecondsSince(begin));
  }
  std::sort(step_ms.begin(), step_ms.end());
  const double teraflops = work.flops / (step_ms[1] * 1e9);
  const double tokens = static_cast<double>(work.plan.trained_tokens);
  absl::PrintF(
      "  recompute %2d of %d layers: %.0f tokens/s, %.0f TFLOP/s = %.1f %% of a"
      " large product's %.0f; step %.0f ms (update %.0f ms), peak %.1f GB, loss"
      " %.3f\n",
      recompute, config.layers, tokens * 1e3 / step_ms[1], teraflops,
      100 * teraflops / peak, peak, step_ms[1], update_ms,
      static_cast<double>(result.peak_tensor_bytes) / 1e9, result.loss);
  return Expect(std::isfinite(result.loss) && result.peak_tensor_bytes > 0,
                "the loss is not finite, or memory is not counted");
}

}  // namespace

absl::Status TrainingSpeed() {
  const double peak = PeakTeraflops();
  const DecoderConfig config = LargeConfig();
  absl::PrintF(
      "  bfloat16, %d layers, width %d, vocabulary %d; 4 micro-batches of 32768"
      " tokens a step\n",
      config.layers, config.width, config.vocab);
  EVENSTEP_RETURN_IF_ERROR(MeasureTraining(config, 0, peak));
  return MeasureTraining(config, config.layers, peak);
}

// The share of a pass that recompute costs, over lengths: what DCP-intra
// trades, at degree 1.
absl::Status RecomputeMemoryAndTime() {
  constexpr int64_t kTokens = 65536;
  const DecoderConfig config = MediumConfig();
  EVENSTEP_ASSIGN_OR_RETURN(const auto rank, MakeRank(config));
  absl::PrintF(
      "  bfloat16, %d layers, width %d, %d tokens in all\n"
      "  length |  none: ms     GB |  half: ms     GB |   all: ms     GB |"
      " time of all / none, bytes of all / none\n",
      config.layers, config.width, kTokens);
  double worst = 0;
  for (int64_t length = 1024; length <= kTokens; length *= 2) {
    const std::vector<int64_t> lengths(kTokens / length, length);
    MicroBatchResult results[3];
    absl::PrintF("  %6d |", length);
    for (int i = 0; i < 3; ++i) {
      EVENSTEP_ASSIGN_OR_RETURN(results[i],
                                Typical(*rank, lengths, config.layers * i / 2));
      absl::PrintF(" %9.1f %6.2f |",
                   static_cast<double>(results[i].compute_ns) / 1e6,
                   static_cast<double>(results[i].activation_bytes) / 1e9);
    }
    const double bytes = static_cast<double>(results[2].activation_bytes) /
                         static_cast<double>(results[0].activation_bytes);
    absl::PrintF(" %.3f, %.3f\n",
                 static_cast<double>(results[2].compute_ns) /
                     static_cast<double>(results[0].compute_ns),
                 bytes);
    worst = std::max(worst, bytes);
  }
  return Expect(worst <= 0.4,
                "full recompute keeps more than 40 % of the memory");
}

absl::Status ReportedTimesAreTheDevices() {
  EVENSTEP_ASSIGN_OR_RETURN(const auto rank, MakeRank(MediumConfig()));
  const std::vector<int64_t> lengths(4, 8192);
  EVENSTEP_RETURN_IF_ERROR(Typical(*rank, lengths, 0).status());
  const SampleReader read = [&](int64_t) { return rank->Sample(8192); };
  Synchronize();
  const Clock::time_point begin = Clock::now();
  EVENSTEP_ASSIGN_OR_RETURN(
      const MicroBatchResult done,
      rank->runner->RunMicroBatch(MicroBatch(lengths, 0), read, 1));
  const double returned_ms = MillisecondsSince(begin);
  Synchronize();
  const double over_ms = MillisecondsSince(begin);
  const double reported_ms = static_cast<double>(done.compute_ns) / 1e6;
  absl::PrintF(
      "  reported %.2f ms, returned after %.2f ms, device done after"
      " %.2f ms\n",
      reported_ms, returned_ms, over_ms);
  return Expect(reported_ms > 0.9 * over_ms && over_ms < 1.05 * returned_ms,
                "a micro-batch is reported before the device has done it");
}

}  // namespace evenstep::trainer
