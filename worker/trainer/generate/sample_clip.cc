#include "worker/trainer/generate/sample_clip.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/trainer/comm/in_process_communicator.h"
#include "worker/trainer/model/catch_torch.h"
#include "worker/trainer/model/sample_random.h"
#include "worker/trainer/parallel/clip_attention.h"
#include "worker/trainer/parallel/clip_shard.h"

namespace evenstep::trainer {
namespace {

// Noise as a sample whose timestep is 1.
absl::StatusOr<data::Clip> Noise(const SampleClipOptions& options) {
  const data::ClipShape& shape = options.shape;
  if (shape.frames < 1 || shape.height < 1 || shape.width < 1 ||
      options.patch_values < 1 || options.steps < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(shape.frames, " frames of ", shape.height, " x ",
                     shape.width, " patches of ", options.patch_values,
                     " values in ", options.steps, " steps: none may be 0"));
  }
  data::Clip clip;
  clip.shape = shape;
  clip.channels = options.patch_values;
  const SampleRandom random(options.seed, /*sample_id=*/0);
  for (int64_t token = 0; token < shape.tokens(); ++token) {
    for (int64_t c = 0; c < clip.channels; ++c) {
      clip.values.push_back(static_cast<float>(random.Noise(token, c)));
    }
  }
  return clip;
}

// Of a clip at a timestep that is not drawn.
absl::StatusOr<PackedShard> ShardAt(const data::Clip& clip, double timestep) {
  data::SampleTokens sample;
  sample.clip = std::make_shared<data::Clip>(clip);
  const std::vector<data::SampleTokens> samples = {sample};
  const std::vector<int64_t> ids = {0};
  EVENSTEP_ASSIGN_OR_RETURN(
      PackedShard shard, MakeClipShard({samples, ids, /*seed=*/0}, /*degree=*/1,
                                       /*rank=*/0, ClipSharing::kSwitch));
  auto clips = std::make_shared<PackedClips>(*shard.clips);
  clips->timesteps.front() = timestep;
  clips->input_TC = at::tensor(at::ArrayRef<float>(clip.values))
                        .view({clip.shape.tokens(), clip.channels});
  shard.clips = std::move(clips);
  return shard;
}

// One step of the way, in place.
absl::Status StepBack(double timestep, double step, Communicator* alone,
                      DiffusionTransformer* model, data::Clip* clip) {
  EVENSTEP_ASSIGN_OR_RETURN(const PackedShard shard, ShardAt(*clip, timestep));
  GroupClipAttention attention(alone, &shard);
  const at::Tensor by_patch_TC = model->Predict(shard, attention, {});
  const at::Tensor velocity_TC =
      attention.Arrange(by_patch_TC, ClipAxis::kSpace)
          .to(at::kCPU, at::kFloat)
          .contiguous();
  const float* velocity = velocity_TC.const_data_ptr<float>();
  for (size_t i = 0; i < clip->values.size(); ++i) {
    clip->values[i] -= static_cast<float>(step) * velocity[i];
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<data::Clip> SampleClip(const SampleClipOptions& options,
                                      DiffusionTransformer* model) {
  EVENSTEP_ASSIGN_OR_RETURN(data::Clip clip, Noise(options));
  const std::unique_ptr<Communicator> alone = MakeSelfCommunicator();
  EVENSTEP_RETURN_IF_ERROR(CatchTorch("sampling a clip", [&]() -> absl::Status {
    const at::NoGradGuard without_graph;
    for (int i = 0; i < options.steps; ++i) {
      const double step = 1.0 / options.steps;
      EVENSTEP_RETURN_IF_ERROR(
          StepBack(1 - i * step, step, alone.get(), model, &clip));
    }
    return absl::OkStatus();
  }));
  return clip;
}

}  // namespace evenstep::trainer
