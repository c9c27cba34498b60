#include "wire/step_plan.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "planner/digest.h"
#include "wire/sp_mode_proto.h"

namespace evenstep::wire {
namespace {

PlannedMicroBatch MakeMicroBatch(const planner::PlanRequest& request,
                                 const planner::MicroBatch& planned) {
  PlannedMicroBatch out;
  out.first_rank = planned.first_rank;
  out.degree = planned.degree;
  out.recompute_layers = planned.recompute_layers[0];
  out.recompute_temporal_layers = planned.recompute_layers[1];
  out.sp_mode = planned.sp_mode;
  if (planned.sp_mode != planner::SpMode::kUlysses) {
    out.ulysses_degree = planned.ulysses_degree;
  }
  out.round = planned.round;
  out.predicted_ns = planned.predicted_ns;
  for (const int index : planned.samples) {
    const planner::Sample& sample = request.samples[index];
    out.sample_ids.push_back(sample.id);
    out.lengths.push_back(sample.length);
    if (sample.frames == 0) continue;
    out.shapes.push_back({sample.frames, sample.height, sample.width});
  }
  return out;
}

v1::MicroBatch MicroBatchToProto(const PlannedMicroBatch& in) {
  v1::MicroBatch out;
  out.set_first_rank(in.first_rank);
  out.set_degree(in.degree);
  out.mutable_sample_ids()->Assign(in.sample_ids.begin(), in.sample_ids.end());
  out.mutable_lengths()->Assign(in.lengths.begin(), in.lengths.end());
  for (const data::ClipShape& shape : in.shapes) {
    *out.add_shapes() = ToProto(shape);
  }
  out.set_recompute_layers(in.recompute_layers);
  out.set_recompute_temporal_layers(in.recompute_temporal_layers);
  out.set_sp_mode(SpModeToProto(in.sp_mode));
  out.set_ulysses_degree(in.ulysses_degree);
  out.set_round(in.round);
  out.set_predicted_ns(in.predicted_ns);
  return out;
}

// Stands where the next block's first rank would: none is negative.
constexpr int64_t kMoreFollows = -1;

bool IsPlain(const PlannedMicroBatch& micro_batch) {
  return micro_batch.sp_mode == planner::SpMode::kUlysses &&
         micro_batch.recompute_temporal_layers == 0 && micro_batch.round == 0;
}

absl::Status CheckSharing(const v1::MicroBatch& proto) {
  const int degree = proto.degree();
  const int ulysses = proto.ulysses_degree();
  bool ok = false;
  switch (proto.sp_mode()) {
    case v1::SP_MODE_ULYSSES:
      ok = ulysses == 0 || ulysses == degree;
      break;
    case v1::SP_MODE_KV_GATHER:
    case v1::SP_MODE_SWITCH:
      ok = ulysses == 1;
      break;
    case v1::SP_MODE_BOTH:
      ok = ulysses > 1 && ulysses < degree && degree % ulysses == 0;
      break;
    default:
      break;
  }
  if (ok) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("mode ", static_cast<int>(proto.sp_mode()), " with ",
                   ulysses, " ulysses ranks at degree ", degree));
}

absl::Status CheckMicroBatch(const v1::MicroBatch& proto, int world) {
  if (proto.first_rank() < 0 || proto.degree() < 1 ||
      proto.first_rank() > world - proto.degree()) {
    return absl::InvalidArgumentError(
        absl::StrCat("block of ", proto.degree(), " ranks from rank ",
                     proto.first_rank(), " exceeds ", world, " ranks"));
  }
  const bool is_video = proto.shapes_size() > 0;
  if (proto.sample_ids_size() != proto.lengths_size() ||
      (is_video && proto.shapes_size() != proto.lengths_size()) ||
      proto.sample_ids_size() == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        proto.sample_ids_size(), " sample ids, ", proto.lengths_size(),
        " lengths and ", proto.shapes_size(), " shapes"));
  }
  for (int i = 0; i < proto.lengths_size(); ++i) {
    if (proto.lengths(i) < 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          "sample ", proto.sample_ids(i), " has length ", proto.lengths(i)));
    }
    if (!is_video) continue;
    EVENSTEP_RETURN_IF_ERROR(
        FromProto(proto.shapes(i), proto.lengths(i)).status());
  }
  if (proto.recompute_layers() < 0 || proto.recompute_temporal_layers() < 0 ||
      proto.round() < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        proto.recompute_layers(), " + ", proto.recompute_temporal_layers(),
        " layers recomputed in round ", proto.round()));
  }
  return CheckSharing(proto);
}

PlannedMicroBatch MicroBatchFromProto(const v1::MicroBatch& proto) {
  PlannedMicroBatch out;
  out.first_rank = proto.first_rank();
  out.degree = proto.degree();
  out.sample_ids.assign(proto.sample_ids().begin(), proto.sample_ids().end());
  out.lengths.assign(proto.lengths().begin(), proto.lengths().end());
  for (const v1::ClipShape& shape : proto.shapes()) {  // CheckMicroBatch
    out.shapes.push_back({shape.frames(), shape.height(), shape.width()});
  }
  out.recompute_layers = proto.recompute_layers();
  out.recompute_temporal_layers = proto.recompute_temporal_layers();
  out.sp_mode = *SpModeFromProto(proto.sp_mode());  // CheckSharing
  out.ulysses_degree = proto.ulysses_degree();
  out.round = proto.round();
  out.predicted_ns = proto.predicted_ns();
  return out;
}

absl::Status CheckHead(const v1::StepPlan& proto) {
  if (proto.generation() < 0 || proto.step() < 0 || proto.world() < 1 ||
      proto.trained_tokens() < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("plan of generation ", proto.generation(), ", step ",
                     proto.step(), ", world ", proto.world(), ", ",
                     proto.trained_tokens(), " trained tokens: out of range"));
  }
  return absl::OkStatus();
}

// Everything but the micro-batches.
StepPlan HeadFromProto(const v1::StepPlan& proto) {
  StepPlan plan;
  plan.generation = proto.generation();
  plan.step = proto.step();
  plan.world = proto.world();
  plan.trained_tokens = proto.trained_tokens();
  plan.digest = proto.digest();
  plan.predicted_step_ns = proto.predicted_step_ns();
  plan.lower_bound_ns = proto.lower_bound_ns();
  plan.predicted_imbalance = proto.predicted_imbalance();
  plan.padding_ratio = proto.padding_ratio();
  plan.policy = proto.policy();
  return plan;
}

absl::Status WithStep(int64_t step, int index, const absl::Status& status) {
  return absl::InvalidArgumentError(absl::StrCat(
      "plan of step ", step, ", micro-batch ", index, ": ", status.message()));
}

}  // namespace

uint64_t StepPlanDigest(const StepPlan& plan) {
  planner::Fnv1a hash;
  hash.Add(plan.world);
  hash.Add(plan.step);
  hash.Add(plan.trained_tokens);
  hash.Add(static_cast<int64_t>(plan.micro_batches.size()));
  for (const PlannedMicroBatch& micro_batch : plan.micro_batches) {
    hash.Add(micro_batch.first_rank);
    hash.Add(micro_batch.degree);
    hash.Add(micro_batch.recompute_layers);
    hash.Add(static_cast<int64_t>(micro_batch.sample_ids.size()));
    for (const int64_t id : micro_batch.sample_ids) hash.Add(id);
    for (const int64_t length : micro_batch.lengths) hash.Add(length);
    if (IsPlain(micro_batch)) continue;
    hash.Add(kMoreFollows);
    hash.Add(static_cast<int64_t>(micro_batch.sp_mode));
    hash.Add(micro_batch.ulysses_degree);
    hash.Add(micro_batch.recompute_temporal_layers);
    hash.Add(micro_batch.round);
  }
  return hash.value();
}

StepPlan MakeStepPlan(const planner::PlanRequest& request,
                      const planner::Plan& plan, int64_t generation,
                      int64_t step, absl::string_view policy) {
  StepPlan out;
  out.generation = generation;
  out.step = step;
  out.world = request.cluster.num_ranks();
  for (const planner::MicroBatch& micro_batch : plan.micro_batches) {
    out.micro_batches.push_back(MakeMicroBatch(request, micro_batch));
  }
  out.trained_tokens = plan.trained_tokens;
  out.predicted_step_ns = plan.predicted_step_ns;
  out.lower_bound_ns = plan.lower_bound_ns;
  out.predicted_imbalance = plan.predicted_imbalance;
  out.padding_ratio = plan.padding_ratio;
  out.policy = std::string(policy);
  out.digest = StepPlanDigest(out);
  return out;
}

v1::StepPlan ToProto(const StepPlan& plan) {
  v1::StepPlan proto;
  proto.set_generation(plan.generation);
  proto.set_step(plan.step);
  proto.set_world(plan.world);
  for (const PlannedMicroBatch& micro_batch : plan.micro_batches) {
    *proto.add_micro_batches() = MicroBatchToProto(micro_batch);
  }
  proto.set_trained_tokens(plan.trained_tokens);
  proto.set_digest(plan.digest);
  proto.set_predicted_step_ns(plan.predicted_step_ns);
  proto.set_lower_bound_ns(plan.lower_bound_ns);
  proto.set_predicted_imbalance(plan.predicted_imbalance);
  proto.set_padding_ratio(plan.padding_ratio);
  proto.set_policy(plan.policy);
  return proto;
}

absl::StatusOr<StepPlan> FromProto(const v1::StepPlan& proto) {
  EVENSTEP_RETURN_IF_ERROR(CheckHead(proto));
  StepPlan plan = HeadFromProto(proto);
  for (int i = 0; i < proto.micro_batches_size(); ++i) {
    const v1::MicroBatch& micro_batch = proto.micro_batches(i);
    if (absl::Status status = CheckMicroBatch(micro_batch, plan.world);
        !status.ok()) {
      return WithStep(plan.step, i, status);
    }
    plan.micro_batches.push_back(MicroBatchFromProto(micro_batch));
  }
  const uint64_t digest = StepPlanDigest(plan);
  if (digest != plan.digest) {
    return absl::InvalidArgumentError(absl::StrCat(
        "plan of step ", plan.step, " says digest ", absl::Hex(plan.digest),
        " but its content has ", absl::Hex(digest)));
  }
  return plan;
}

v1::ClipShape ToProto(const data::ClipShape& shape) {
  v1::ClipShape proto;
  proto.set_frames(shape.frames);
  proto.set_height(shape.height);
  proto.set_width(shape.width);
  return proto;
}

absl::StatusOr<data::ClipShape> FromProto(const v1::ClipShape& proto,
                                          int64_t length) {
  __int128 tokens = 1;
  for (const int64_t side : {proto.frames(), proto.height(), proto.width()}) {
    if (side < 1 || side > length) tokens = 0;
    tokens *= side;
  }
  if (tokens == length) {
    return data::ClipShape{proto.frames(), proto.height(), proto.width()};
  }
  return absl::InvalidArgumentError(
      absl::StrCat(proto.frames(), " frames of ", proto.height(), " x ",
                   proto.width(), " patches are not ", length, " tokens"));
}

}  // namespace evenstep::wire
