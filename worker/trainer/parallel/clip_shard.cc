#include "worker/trainer/parallel/clip_shard.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/trainer/model/sample_random.h"
#include "worker/trainer/parallel/clip_layout.h"

// Shapes: T own tokens, C values of a patch.

namespace evenstep::trainer {
namespace {

absl::Status CheckClip(const ClipBatch& batch, size_t index) {
  const data::SampleTokens& sample = batch.samples[index];
  const std::string name = absl::StrCat("sample ", batch.sample_ids[index]);
  if (sample.clip == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(name, " is not a clip"));
  }
  const data::Clip& clip = *sample.clip;
  const data::ClipShape& shape = clip.shape;
  const bool sound = shape.frames > 0 && shape.height > 0 && shape.width > 0 &&
                     clip.channels > 0 && sample.given_frames >= 0 &&
                     sample.given_frames <= shape.frames &&
                     clip.channels == batch.samples[0].clip->channels &&
                     static_cast<int64_t>(clip.values.size()) ==
                         shape.tokens() * clip.channels;
  if (sound) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      name, " has ", shape.frames, " frames, ", sample.given_frames,
      " of them given, of ", shape.height, " x ", shape.width, " patches of ",
      clip.channels, " values, and ", clip.values.size(), " values in all"));
}

absl::Status CheckSwitch(const ClipBatch& batch, size_t index, int degree) {
  const data::ClipShape& shape = batch.samples[index].clip->shape;
  if (shape.frames >= degree && shape.patches() >= degree) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("sample ", batch.sample_ids[index], " has ", shape.frames,
                   " frames of ", shape.patches(), " patches: too few for ",
                   degree, " ranks that switch between them"));
}

absl::Status CheckBatch(const ClipBatch& batch, int degree, int rank,
                        bool switches) {
  if (batch.samples.empty() ||
      batch.samples.size() != batch.sample_ids.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a micro-batch of ", batch.samples.size(), " clips and ",
                     batch.sample_ids.size(), " ids"));
  }
  if (rank < 0 || rank >= degree) {
    return absl::InvalidArgumentError(
        absl::StrCat("part ", rank, " of ", degree, " of a micro-batch"));
  }
  for (size_t i = 0; i < batch.samples.size(); ++i) {
    EVENSTEP_RETURN_IF_ERROR(CheckClip(batch, i));
    if (switches) EVENSTEP_RETURN_IF_ERROR(CheckSwitch(batch, i, degree));
  }
  return absl::OkStatus();
}

// Fills tensors of a rank's tokens, whose places are given.
class ClipNoiser {
 public:
  explicit ClipNoiser(const ClipBatch& batch)
      : batch_(batch), channels_(batch.samples[0].clip->channels) {
    for (const int64_t id : batch.sample_ids) {
      random_.emplace_back(batch.seed, id);
      timesteps_.push_back(random_.back().Timestep());
    }
    timesteps_.push_back(0);
  }

  const std::vector<double>& timesteps() const { return timesteps_; }

  ClipTokens Tokens(const std::vector<ClipPlace>& places) const {
    ClipTokens tokens{Indices(places), Indices(places), Indices(places),
                      Indices(places)};
    int64_t* condition = tokens.condition_T.mutable_data_ptr<int64_t>();
    int64_t* frame = tokens.frame_T.mutable_data_ptr<int64_t>();
    int64_t* row = tokens.row_T.mutable_data_ptr<int64_t>();
    int64_t* column = tokens.column_T.mutable_data_ptr<int64_t>();
    for (size_t t = 0; t < places.size(); ++t) {
      condition[t] = IsTrained(places[t])
                         ? places[t].clip
                         : static_cast<int64_t>(timesteps_.size()) - 1;
      if (places[t].clip < 0) continue;
      const int64_t width = ShapeOf(places[t]).width;
      frame[t] = places[t].frame;
      row[t] = places[t].patch / width;
      column[t] = places[t].patch % width;
    }
    return tokens;
  }

  at::Tensor Input(const std::vector<ClipPlace>& places) const {
    at::Tensor input_TC = Values(places);
    ForEachValue(places, &input_TC,
                 [](double x, double noise, double t, double* out) {
                   *out = (1 - t) * x + t * noise;
                 });
    return input_TC;
  }

  at::Tensor Target(const std::vector<ClipPlace>& places) const {
    at::Tensor target_TC = Values(places);
    ForEachValue(places, &target_TC,
                 [](double x, double noise, double /*t*/, double* out) {
                   *out = noise - x;
                 });
    return target_TC;
  }

  at::Tensor Weight(const std::vector<ClipPlace>& places) const {
    at::Tensor weight_T = at::zeros({static_cast<int64_t>(places.size())},
                                    at::TensorOptions().dtype(at::kDouble));
    double* weight = weight_T.mutable_data_ptr<double>();
    for (size_t t = 0; t < places.size(); ++t) {
      weight[t] = IsTrained(places[t]) ? 1 : 0;
    }
    return weight_T;
  }

  int64_t CountTrained(const std::vector<ClipPlace>& places) const {
    int64_t count = 0;
    for (const ClipPlace& place : places) count += IsTrained(place) ? 1 : 0;
    return count;
  }

 private:
  static at::Tensor Indices(const std::vector<ClipPlace>& places) {
    return at::zeros({static_cast<int64_t>(places.size())},
                     at::TensorOptions().dtype(at::kLong));
  }
  at::Tensor Values(const std::vector<ClipPlace>& places) const {
    return at::zeros({static_cast<int64_t>(places.size()), channels_},
                     at::TensorOptions().dtype(at::kDouble));
  }
  const data::ClipShape& ShapeOf(const ClipPlace& place) const {
    return batch_.samples[place.clip].clip->shape;
  }
  bool IsTrained(const ClipPlace& place) const {
    return place.clip >= 0 &&
           place.frame >= batch_.samples[place.clip].given_frames;
  }

  // body(latent, noise, timestep, out) for every value that is no padding; a
  // frame that is given has no noise and timestep 0.
  template <typename Body>
  void ForEachValue(const std::vector<ClipPlace>& places, at::Tensor* into_TC,
                    const Body& body) const {
    double* out = into_TC->mutable_data_ptr<double>();
    for (const ClipPlace& place : places) {
      if (place.clip >= 0) {
        const int64_t token =
            place.frame * ShapeOf(place).patches() + place.patch;
        const float* x = batch_.samples[place.clip].clip->token(token);
        const bool trained = IsTrained(place);
        for (int64_t c = 0; c < channels_; ++c) {
          body(x[c], trained ? random_[place.clip].Noise(token, c) : 0,
               trained ? timesteps_[place.clip] : 0, out + c);
        }
      }
      out += channels_;
    }
  }

  const ClipBatch& batch_;
  const int64_t channels_;
  std::vector<SampleRandom> random_;
  std::vector<double> timesteps_;
};

}  // namespace

absl::StatusOr<PackedShard> MakeClipShard(const ClipBatch& batch, int degree,
                                          int rank, ClipSharing sharing) {
  const bool switches = sharing == ClipSharing::kSwitch || degree == 1;
  EVENSTEP_RETURN_IF_ERROR(CheckBatch(batch, degree, rank, switches));
  PackedShard shard;
  std::vector<data::ClipShape> shapes;
  for (const data::SampleTokens& sample : batch.samples) {
    shapes.push_back(sample.clip->shape);
    shard.document_lengths.push_back(sample.clip->shape.tokens());
    shard.real_tokens += sample.clip->shape.tokens();
  }
  shard.degree = degree;
  shard.ulysses_degree = switches ? 1 : degree;
  shard.padded_tokens = PaddedClipTokens(shapes, degree, switches);
  const std::vector<ClipPlace> by_frame =
      switches ? PlacesByFrame(shapes, degree, rank)
               : PlacesInRuns(shapes, degree, rank);
  const std::vector<ClipPlace> by_patch =
      switches ? PlacesByPatch(shapes, degree, rank) : by_frame;
  const ClipNoiser noiser(batch);
  auto clips = std::make_shared<PackedClips>();
  clips->shapes =
      std::make_shared<const std::vector<data::ClipShape>>(std::move(shapes));
  clips->timesteps = noiser.timesteps();
  clips->by_frame = noiser.Tokens(by_frame);
  clips->by_patch = noiser.Tokens(by_patch);
  clips->input_TC = noiser.Input(by_frame);
  clips->target_TC = noiser.Target(by_patch);
  clips->weight_T = noiser.Weight(by_patch);
  shard.trained_tokens = noiser.CountTrained(by_patch);
  shard.clips = std::move(clips);
  return shard;
}

}  // namespace evenstep::trainer
