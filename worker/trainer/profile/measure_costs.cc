#include "worker/trainer/profile/measure_costs.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <utility>

#include "base/status_macros.h"
#include "planner/costs/cost_limits.h"
#include "planner/costs/cost_model.h"
#include "planner/costs/degrees.h"
#include "worker/trainer/parallel/compute_timer.h"
#include "worker/trainer/profile/fit_costs.h"

namespace evenstep::trainer {
namespace {

constexpr int64_t kSmallExchangeBytes = 4 << 10;
constexpr int64_t kLargeExchangeBytes = 4 << 20;
// Updates are short: more of them steady the median.
constexpr int kUpdateRepeats = 5;
// On a busy machine a call that is left in peace is rare, and calls are short.
constexpr int kExchangeRepeats = 25;
constexpr int64_t kTinyClipTokens = 16;
constexpr int64_t kLongClipTokens = 1024;

// What one call cost a rank.
struct CallCost {
  double compute_ns = 0;
  double collective_ns = 0;
};
using Timed = std::function<absl::StatusOr<CallCost>()>;

// One warm-up, then the median of what the rank computed in `repeats` calls,
// and its least time in collectives: more was waiting for a late peer.
absl::StatusOr<CallCost> Typical(int repeats, const Timed& timed) {
  EVENSTEP_RETURN_IF_ERROR(timed().status());
  std::vector<double> compute;
  std::vector<double> collectives;
  for (int i = 0; i < repeats; ++i) {
    EVENSTEP_ASSIGN_OR_RETURN(const CallCost cost, timed());
    compute.push_back(cost.compute_ns);
    collectives.push_back(cost.collective_ns);
  }
  return CallCost{Median(std::move(compute)),
                  *std::min_element(collectives.begin(), collectives.end())};
}

// A sample to measure, and what it is to the planner.
struct TimedSample {
  planner::Sample size;
  data::SampleTokens tokens;
};

std::vector<TimedSample> SamplesToTime(const MeasureOptions& options) {
  std::vector<TimedSample> samples;
  if (!options.model.is_video()) {
    for (int64_t tokens : MeasuredSizes(options)) {
      planner::Sample size;
      size.length = tokens;
      samples.push_back({size, MadeUpSample(tokens, options.vocab)});
    }
    return samples;
  }
  for (const data::ClipShape& shape : MeasuredShapes(options.tokens_per_rank)) {
    planner::Sample size;
    size.length = shape.tokens();
    size.frames = shape.frames;
    size.height = shape.height;
    size.width = shape.width;
    samples.push_back({size, MadeUpClip(shape, options.patch_values)});
  }
  return samples;
}

absl::StatusOr<ComputePoint> MeasureSample(const MeasureOptions& options,
                                           const TimedSample& sample,
                                           const MeasuredParts& parts) {
  wire::PlannedMicroBatch micro_batch;
  micro_batch.first_rank = parts.groups->rank();
  micro_batch.sample_ids = {0};
  micro_batch.lengths = {sample.size.length};
  if (options.model.is_video()) {
    micro_batch.shapes = {sample.tokens.clip->shape};
  }
  micro_batch.recompute_layers = options.recompute_layers[0];
  micro_batch.recompute_temporal_layers = options.recompute_layers[1];
  EVENSTEP_ASSIGN_OR_RETURN(
      const double ns,
      MeasureMicroBatchNs(
          micro_batch, [&sample](int64_t) { return sample.tokens; },
          options.repeats, parts.runner));
  return ComputePoint{planner::WorkOf(options.model, {}, {sample.size},
                                      options.recompute_layers),
                      ns};
}

int BytesPerElement(const Model& model) {
  return static_cast<int>(model.parameters().front().value.element_size());
}

// In memory of the device, as the model's own exchanges are.
absl::StatusOr<AllToAllPoint> MeasureExchange(Communicator& group,
                                              at::Device device,
                                              int64_t bytes) {
  const int64_t share = bytes / group.size();
  const std::vector<int64_t> counts(group.size(), share);
  const at::Tensor send = at::ones({share * group.size()},
                                   at::TensorOptions(at::kByte).device(device));
  const at::Tensor recv = at::zeros_like(send);
  EVENSTEP_ASSIGN_OR_RETURN(
      const CallCost cost,
      Typical(kExchangeRepeats, [&]() -> absl::StatusOr<CallCost> {
        const int64_t before_ns = group.collective_ns();
        EVENSTEP_RETURN_IF_ERROR(group.AllToAllv(
            send.const_data_ptr(), counts, recv.mutable_data_ptr(), counts));
        return CallCost{0,
                        static_cast<double>(group.collective_ns() - before_ns)};
      }));
  return AllToAllPoint{send.numel(), cost.collective_ns};
}

// `bytes` in all, of which each rank gives its share.
absl::StatusOr<AllToAllPoint> MeasureGather(Communicator& group,
                                            at::Device device, int64_t bytes) {
  const int64_t share = bytes / group.size();
  const std::vector<int64_t> counts(group.size(), share);
  const at::Tensor send =
      at::ones({share}, at::TensorOptions(at::kByte).device(device));
  const at::Tensor recv = at::empty({share * group.size()}, send.options());
  EVENSTEP_ASSIGN_OR_RETURN(
      const CallCost cost,
      Typical(kExchangeRepeats, [&]() -> absl::StatusOr<CallCost> {
        const int64_t before_ns = group.collective_ns();
        EVENSTEP_RETURN_IF_ERROR(group.AllGatherv(
            send.const_data_ptr(), recv.mutable_data_ptr(), counts));
        return CallCost{0,
                        static_cast<double>(group.collective_ns() - before_ns)};
      }));
  return AllToAllPoint{recv.numel(), cost.collective_ns};
}

using MeasureBytes = absl::StatusOr<AllToAllPoint> (*)(Communicator&,
                                                       at::Device, int64_t);

// The line through a small and a large call.
absl::StatusOr<AllToAllCosts> MeasureLine(MeasureBytes measure,
                                          Communicator& group,
                                          at::Device device) {
  EVENSTEP_ASSIGN_OR_RETURN(const AllToAllPoint small,
                            measure(group, device, kSmallExchangeBytes));
  EVENSTEP_ASSIGN_OR_RETURN(const AllToAllPoint large,
                            measure(group, device, kLargeExchangeBytes));
  return FitAllToAll(small, large);
}

// Parameters of the same shapes with gradients of zero, so that an update costs
// what the job's costs and changes nothing of the job.
std::vector<NamedParameter> ScratchParameters(const Model& model) {
  std::vector<NamedParameter> scratch;
  for (const NamedParameter& parameter : model.parameters()) {
    at::Tensor value = parameter.value.detach().clone();
    value.set_requires_grad(true);
    value.mutable_grad() = at::zeros_like(parameter.value.grad());
    scratch.push_back({parameter.name, std::move(value)});
  }
  return scratch;
}

}  // namespace

// Groups are walked in the tree's order, which is the same on all ranks. What a
// degree moves follows from how the planner splits it.
absl::Status MeasureCollectives(const planner::ModelShape& model,
                                const MeasuredParts& parts,
                                planner::TimeModel* costs) {
  const GroupTree& groups = *parts.groups;
  const at::Device device = parts.model->parameters().front().value.device();
  const int element = BytesPerElement(*parts.model);
  std::vector<double> latencies;
  for (const RankBlock& block :
       TreeBlocks(groups.rank(), groups.world_size())) {
    EVENSTEP_ASSIGN_OR_RETURN(Communicator * group,
                              groups.GroupFor(block.first_rank, block.degree));
    const planner::SequenceSplit split = planner::SplitFor(model, block.degree);
    if (planner::ExchangesAll(split)) {
      EVENSTEP_ASSIGN_OR_RETURN(const AllToAllCosts fit,
                                MeasureLine(MeasureExchange, *group, device));
      latencies.push_back(fit.latency_ns);
      costs->collective.push_back(
          {block.degree, fit.ns_per_byte * AllToAllBytesPerToken(
                                               model, block.degree, element)});
    }
    if (split.gather_degree > 1) {
      EVENSTEP_ASSIGN_OR_RETURN(const AllToAllCosts fit,
                                MeasureLine(MeasureGather, *group, device));
      latencies.push_back(fit.latency_ns);
      costs->gather.push_back(
          {block.degree, fit.ns_per_byte * GatherBytesPerToken(
                                               model, block.degree, element)});
    }
  }
  costs->collective_latency_ns =
      planner::FixedCostNs(Median(std::move(latencies)));
  return absl::OkStatus();
}

absl::StatusOr<double> MeasureMicroBatchNs(
    const wire::PlannedMicroBatch& micro_batch, const SampleReader& read,
    int repeats, StepRunner* runner) {
  EVENSTEP_ASSIGN_OR_RETURN(
      const CallCost cost, Typical(repeats, [&]() -> absl::StatusOr<CallCost> {
        EVENSTEP_ASSIGN_OR_RETURN(
            const MicroBatchResult done,
            runner->RunMicroBatch(micro_batch, read,
                                  /*divisor_tokens=*/micro_batch.lengths[0]));
        return CallCost{static_cast<double>(done.compute_ns), 0};
      }));
  return std::max(cost.compute_ns, 1.0);
}

data::SampleTokens MadeUpSample(int64_t tokens, int vocab) {
  data::SampleTokens sample;
  for (int64_t i = 0; i < tokens; ++i) {
    sample.tokens.push_back(static_cast<int32_t>((i * 31) % vocab));
    sample.targets.push_back(static_cast<int32_t>((i * 31 + 31) % vocab));
  }
  return sample;
}

absl::StatusOr<double> MeasureStepFixed(const MeasuredParts& parts) {
  AdamW optimizer(ScratchParameters(*parts.model), AdamWOptions(),
                  parts.sharded_over);
  const Communicator& world = parts.groups->world();
  EVENSTEP_ASSIGN_OR_RETURN(
      const CallCost cost,
      Typical(kUpdateRepeats, [&]() -> absl::StatusOr<CallCost> {
        const int64_t before_ns = world.collective_ns();
        const ComputeTimer timer(parts.runner->compute_clock(), world);
        EVENSTEP_RETURN_IF_ERROR(parts.runner->ReduceGradients());
        EVENSTEP_RETURN_IF_ERROR(optimizer.Update(0).status());
        return CallCost{static_cast<double>(timer.ElapsedNs()),
                        static_cast<double>(world.collective_ns() - before_ns)};
      }));
  return cost.compute_ns + cost.collective_ns;
}

std::vector<int64_t> MeasuredSizes(const MeasureOptions& options) {
  const int64_t cap = std::max<int64_t>(1, options.tokens_per_rank);
  const int64_t longest = std::min(options.long_tokens, cap);
  const int64_t middle =
      std::clamp<int64_t>(longest / 8, 1, options.short_tokens);
  const int64_t tiny = std::clamp<int64_t>(middle / 8, 1, options.tiny_tokens);
  std::vector<int64_t> sizes = {tiny, middle, longest};
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

absl::StatusOr<planner::TimeModel> MeasureCosts(const MeasureOptions& options,
                                                const MeasuredParts& parts) {
  std::vector<ComputePoint> points;
  for (const TimedSample& sample : SamplesToTime(options)) {
    // Ranks start together, so that each is timed beside busy neighbours.
    EVENSTEP_RETURN_IF_ERROR(parts.groups->world().Barrier());
    EVENSTEP_ASSIGN_OR_RETURN(points.emplace_back(),
                              MeasureSample(options, sample, parts));
  }
  planner::TimeModel costs = FitCompute(options.model, points);
  EVENSTEP_RETURN_IF_ERROR(MeasureCollectives(options.model, parts, &costs));
  EVENSTEP_ASSIGN_OR_RETURN(const double step_ns, MeasureStepFixed(parts));
  costs.step_fixed_ns = planner::FixedCostNs(step_ns);
  return costs;
}

data::SampleTokens MadeUpClip(const data::ClipShape& shape,
                              int64_t patch_values) {
  auto clip = std::make_shared<data::Clip>();
  clip->shape = shape;
  clip->channels = patch_values;
  clip->values.resize(shape.tokens() * patch_values);
  data::SampleTokens sample;
  sample.clip = std::move(clip);
  return sample;
}

std::vector<data::ClipShape> MeasuredShapes(int64_t tokens_per_rank) {
  using data::ClipShape;
  const int64_t longest =
      std::clamp<int64_t>(tokens_per_rank, 1, kLongClipTokens);
  const int64_t middle = std::max<int64_t>(1, longest / 4);
  const auto balanced = [](int64_t tokens) {
    const auto side = std::max<int64_t>(
        1, std::llround(std::floor(std::sqrt(static_cast<double>(tokens)))));
    return ClipShape{side, 1, tokens / side};
  };
  std::vector<ClipShape> shapes = {{1, 1, std::min(kTinyClipTokens, longest)},
                                   {1, 1, longest},
                                   {longest, 1, 1},
                                   balanced(middle),
                                   balanced(longest)};
  std::vector<ClipShape> distinct;
  for (const ClipShape& shape : shapes) {
    if (std::find(distinct.begin(), distinct.end(), shape) == distinct.end()) {
      distinct.push_back(shape);
    }
  }
  return distinct;
}

}  // namespace evenstep::trainer
