#include "worker/trainer/parallel/step_runner.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <c10/core/AutogradState.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/trainer/model/catch_torch.h"
#include "worker/trainer/model/recompute_count.h"
#include "worker/trainer/model/tensor_memory.h"
#include "worker/trainer/parallel/clip_attention.h"
#include "worker/trainer/parallel/clip_shard.h"
#include "worker/trainer/parallel/sequence_layout.h"
#include "worker/trainer/parallel/sequence_parallel.h"
#include "worker/trainer/parallel/shard.h"

namespace evenstep::trainer {
namespace {

int64_t NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Backward on this thread: for a device, torch has one thread of its own, whose
// collectives would be outside this one's accounts, and on which ranks that
// share the device (in tests) would wait for each other for ever.
class BackwardOnThisThread {
 public:
  BackwardOnThisThread() : before_(c10::AutogradState::get_tls_state()) {
    c10::AutogradState::get_tls_state().set_multithreading_enabled(false);
  }
  ~BackwardOnThisThread() { c10::AutogradState::set_tls_state(before_); }
  BackwardOnThisThread(const BackwardOnThisThread&) = delete;
  BackwardOnThisThread& operator=(const BackwardOnThisThread&) = delete;

 private:
  const c10::AutogradState before_;
};

// `attention` knows better when a collective was at fault.
template <typename Body>
absl::Status Translate(const GroupAttention& attention, const Body& body) {
  const absl::Status status = CatchTorch("a micro-batch", body);
  return status.ok() || attention.status().ok() ? status : attention.status();
}

// Layers that a plan recomputes: no more than there are.
int PlannedRecompute(const Model& model,
                     const wire::PlannedMicroBatch& micro_batch) {
  const int first = micro_batch.recompute_layers;
  const int second = micro_batch.recompute_temporal_layers;
  const std::vector<LayerKind> kinds = model.layers();
  if (kinds.size() == 2) {
    return std::min(first, kinds[0].count) + std::min(second, kinds[1].count);
  }
  int layers = 0;
  for (const LayerKind& kind : kinds) layers += kind.count;
  return std::min(first + second, layers);
}

// Memory is planned with these numbers. All ranks of a group come to the same
// verdict, before any of them waits for another in backward.
absl::Status CheckRecompute(int planned, int64_t recomputed) {
  if (recomputed >= planned) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the model ran ", recomputed, " layers through RunRecomputed where the ",
      "plan recomputes ", planned, ": it ignores ForwardOptions, and holds ",
      "more memory than planned; correct its Forward, or set ",
      "memory.recompute_layers to 0"));
}

absl::Status CheckPlan(const wire::StepPlan& plan, int world) {
  if (plan.world != world) {
    return absl::InvalidArgumentError(
        absl::StrCat("the plan of step ", plan.step, " is for ", plan.world,
                     " ranks, not ", world));
  }
  if (plan.trained_tokens < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "step ", plan.step, " has no trained tokens: nothing to divide by"));
  }
  return absl::OkStatus();
}

absl::StatusOr<SequenceLayout> LayoutOf(
    const wire::PlannedMicroBatch& micro_batch) {
  const int degree = micro_batch.degree;
  const int ulysses = micro_batch.ulysses_degree;
  if (micro_batch.sp_mode == planner::SpMode::kSwitch) {
    return absl::InvalidArgumentError(
        "a text model does not switch between frames and patches");
  }
  // 0 stands for the degree.
  return MakeLayout(degree, ulysses == 0 ? degree : ulysses);
}

absl::StatusOr<std::vector<data::SampleTokens>> ReadSamples(
    const wire::PlannedMicroBatch& micro_batch, const SampleReader& read) {
  std::vector<data::SampleTokens> samples;
  samples.reserve(micro_batch.sample_ids.size());
  for (size_t i = 0; i < micro_batch.sample_ids.size(); ++i) {
    const int64_t id = micro_batch.sample_ids[i];
    EVENSTEP_ASSIGN_OR_RETURN(data::SampleTokens sample, read(id));
    const int64_t length = data::NumTokens(sample);
    if (length != micro_batch.lengths[i]) {
      return absl::DataLossError(absl::StrCat("sample ", id, " has ", length,
                                              " tokens, its plan says ",
                                              micro_batch.lengths[i]));
    }
    samples.push_back(std::move(sample));
  }
  return samples;
}

absl::StatusOr<ClipSharing> SharingOf(
    const wire::PlannedMicroBatch& micro_batch) {
  if (micro_batch.sp_mode == planner::SpMode::kSwitch) {
    return ClipSharing::kSwitch;
  }
  if (micro_batch.sp_mode == planner::SpMode::kUlysses) {
    return ClipSharing::kHeads;
  }
  return absl::InvalidArgumentError(
      "a video model does not gather keys and values");
}

// What a model is given of a micro-batch.
struct RankShare {
  std::unique_ptr<PackedShard> shard;
  std::unique_ptr<GroupAttention> attention;
};

absl::StatusOr<RankShare> ShareOf(
    const wire::PlannedMicroBatch& micro_batch,
    const std::vector<data::SampleTokens>& samples, Communicator* group,
    const StepRunnerOptions& options) {
  RankShare share;
  // No samples are refused there.
  if (samples.empty() || samples.front().clip == nullptr) {
    EVENSTEP_ASSIGN_OR_RETURN(const SequenceLayout layout,
                              LayoutOf(micro_batch));
    EVENSTEP_ASSIGN_OR_RETURN(PackedShard shard,
                              MakeShard(samples, layout, group->rank()));
    share.shard = std::make_unique<PackedShard>(std::move(shard));
    share.attention = std::make_unique<SequenceParallelAttention>(
        group, share.shard.get(), options.irregular_heads);
    return share;
  }
  EVENSTEP_ASSIGN_OR_RETURN(const ClipSharing sharing, SharingOf(micro_batch));
  EVENSTEP_ASSIGN_OR_RETURN(
      PackedShard shard,
      MakeClipShard({samples, micro_batch.sample_ids, options.seed},
                    group->size(), group->rank(), sharing));
  share.shard = std::make_unique<PackedShard>(std::move(shard));
  share.attention =
      std::make_unique<GroupClipAttention>(group, share.shard.get());
  return share;
}

}  // namespace

StepRunner::StepRunner(Model* model, StepGroups groups,
                       const StepRunnerOptions& options)
    : model_(model),
      groups_(std::move(groups)),
      options_(options),
      compute_clock_(
          ComputeClockFor(model->parameters().front().value.device())),
      gradients_(model->parameters()) {}

absl::StatusOr<StepResult> StepRunner::Run(const wire::StepPlan& plan,
                                           const SampleReader& read) {
  EVENSTEP_RETURN_IF_ERROR(CheckPlan(plan, groups_.world->size()));
  StepResult result;
  EVENSTEP_RETURN_IF_ERROR(
      CatchTorch("a step", [&] { return RunPlan(plan, read, &result); }));
  return result;
}

absl::Status StepRunner::RunPlan(const wire::StepPlan& plan,
                                 const SampleReader& read, StepResult* result) {
  gradients_.Zero();
  TensorMeter memory(compute_clock_.device);
  memory.ResetPeak();
  for (size_t i = 0; i < plan.micro_batches.size(); ++i) {
    if (!plan.micro_batches[i].Contains(groups_.rank)) continue;
    EVENSTEP_ASSIGN_OR_RETURN(
        MicroBatchResult done,
        RunMicroBatch(plan.micro_batches[i], read, plan.trained_tokens));
    done.index = static_cast<int>(i);
    result->padded_tokens += done.padded_tokens;
    result->peak_tensor_bytes =
        std::max(result->peak_tensor_bytes, memory.peak_bytes());
    result->micro_batches.push_back(done);
  }
  const int64_t before_ns = groups_.world->collective_ns();
  const ComputeTimer timer(compute_clock_, *groups_.world);
  EVENSTEP_RETURN_IF_ERROR(ReduceTotals(plan, result));
  // All ranks know the same total, so all leave the gradients alone or none.
  if (result->not_finite == 0) EVENSTEP_RETURN_IF_ERROR(ReduceGradients());
  result->reduction_ns = groups_.world->collective_ns() - before_ns;
  result->peak_tensor_bytes =
      std::max(result->peak_tensor_bytes, memory.peak_bytes());
  result->reduction_compute_ns = timer.ElapsedNs();
  return absl::OkStatus();
}

absl::StatusOr<MicroBatchResult> StepRunner::RunMicroBatch(
    const wire::PlannedMicroBatch& micro_batch, const SampleReader& read,
    int64_t divisor_tokens) {
  const int64_t start_ns = NowNs();
  TensorMeter memory(compute_clock_.device);
  const int64_t bytes_before = memory.live_bytes();
  memory.ResetPeak();
  EVENSTEP_ASSIGN_OR_RETURN(
      Communicator * group,
      groups_.find(micro_batch.first_rank, micro_batch.degree));
  const int64_t before_ns = group->collective_ns();
  const ComputeTimer timer(compute_clock_, *group);
  EVENSTEP_ASSIGN_OR_RETURN(const std::vector<data::SampleTokens> samples,
                            ReadSamples(micro_batch, read));
  RankShare share;
  EVENSTEP_RETURN_IF_ERROR(CatchTorch("a shard", [&]() -> absl::Status {
    EVENSTEP_ASSIGN_OR_RETURN(share,
                              ShareOf(micro_batch, samples, group, options_));
    return absl::OkStatus();
  }));
  MicroBatchResult result;
  EVENSTEP_RETURN_IF_ERROR(Translate(*share.attention, [&]() -> absl::Status {
    const int64_t recomputed_before = NumRecomputedLayers();
    const at::Tensor loss_sum = model_->Forward(
        *share.shard, *share.attention,
        {.recompute_layers = micro_batch.recompute_layers,
         .recompute_temporal_layers = micro_batch.recompute_temporal_layers});
    EVENSTEP_RETURN_IF_ERROR(
        CheckRecompute(PlannedRecompute(*model_, micro_batch),
                       NumRecomputedLayers() - recomputed_before));
    const BackwardOnThisThread on_this_thread;
    torch::autograd::backward(
        {loss_sum}, {at::full({}, 1.0 / static_cast<double>(divisor_tokens),
                              loss_sum.options())});
    // A device is asked once, when all of its work is queued.
    result.loss_sum = loss_sum.item().toDouble();
    return absl::OkStatus();
  }));
  result.trained_tokens = share.shard->trained_tokens;
  result.loss_not_finite = !std::isfinite(result.loss_sum);
  result.padded_tokens = share.shard->padded_tokens / share.shard->degree;
  result.activation_bytes = memory.peak_bytes() - bytes_before;
  result.collective_ns = group->collective_ns() - before_ns;
  result.compute_ns = timer.ElapsedNs();
  result.total_ns = NowNs() - start_ns;
  return result;
}

// Sums of doubles are exact for counts, and equal to the last bit on all ranks.
absl::Status StepRunner::ReduceTotals(const wire::StepPlan& plan,
                                      StepResult* result) {
  double loss_sum = 0;
  int64_t tokens = 0;
  int64_t not_finite = gradients_.CountNotFinite();
  int64_t num_bad_losses = 0;
  for (const MicroBatchResult& done : result->micro_batches) {
    loss_sum += done.loss_sum;
    tokens += done.trained_tokens;
    num_bad_losses += done.loss_not_finite ? 1 : 0;
  }
  // Gradients of all micro-batches are in one sum: each is a suspect.
  for (MicroBatchResult& done : result->micro_batches) {
    done.gradient_not_finite = not_finite > 0 && num_bad_losses == 0;
  }
  not_finite += num_bad_losses;
  std::vector<double> totals = {loss_sum, static_cast<double>(tokens),
                                static_cast<double>(not_finite)};
  EVENSTEP_RETURN_IF_ERROR(groups_.world->AllReduceSum(absl::MakeSpan(totals)));
  result->trained_tokens = static_cast<int64_t>(totals[1]);
  result->not_finite = static_cast<int64_t>(totals[2]);
  result->loss = totals[0] / static_cast<double>(plan.trained_tokens);
  if (result->trained_tokens != plan.trained_tokens) {
    return absl::InternalError(
        absl::StrCat("the ranks counted ", result->trained_tokens,
                     " trained tokens in step ", plan.step, ", its plan says ",
                     plan.trained_tokens));
  }
  return absl::OkStatus();
}

absl::StatusOr<ForwardResult> StepRunner::RunForward(const wire::StepPlan& plan,
                                                     const SampleReader& read) {
  EVENSTEP_RETURN_IF_ERROR(CheckPlan(plan, groups_.world->size()));
  ForwardResult result;
  for (const wire::PlannedMicroBatch& micro_batch : plan.micro_batches) {
    if (!micro_batch.Contains(groups_.rank)) continue;
    EVENSTEP_RETURN_IF_ERROR(CatchTorch("a forward pass", [&] {
      return AddLosses(micro_batch, read, &result);
    }));
  }
  return result;
}

absl::Status StepRunner::AddLosses(const wire::PlannedMicroBatch& micro_batch,
                                   const SampleReader& read,
                                   ForwardResult* result) {
  const at::NoGradGuard without_graph;
  EVENSTEP_ASSIGN_OR_RETURN(
      Communicator * group,
      groups_.find(micro_batch.first_rank, micro_batch.degree));
  EVENSTEP_ASSIGN_OR_RETURN(const std::vector<data::SampleTokens> samples,
                            ReadSamples(micro_batch, read));
  EVENSTEP_ASSIGN_OR_RETURN(const RankShare share,
                            ShareOf(micro_batch, samples, group, options_));
  result->trained_tokens += share.shard->trained_tokens;
  return Translate(*share.attention, [&] {
    result->loss_sum +=
        model_->Forward(*share.shard, *share.attention, {}).item().toDouble();
    return absl::OkStatus();
  });
}

absl::Status StepRunner::ReduceGradients() {
  return gradients_.Reduce(*groups_.world, options_.sharding);
}

}  // namespace evenstep::trainer
