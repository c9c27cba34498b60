#include "jobspec/job_spec.h"

#include <initializer_list>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "planner/costs/memory_model.h"
#include "planner/planner.h"

namespace evenstep::jobspec {
namespace {

// The value of that name.
template <typename Enum>
absl::Status ParseOneOf(absl::string_view name,
                        std::initializer_list<Enum> values,
                        absl::string_view (*name_of)(Enum), Enum* parsed) {
  std::vector<std::string> known;
  for (const Enum value : values) {
    if (name == name_of(value)) {
      *parsed = value;
      return absl::OkStatus();
    }
    known.emplace_back(name_of(value));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("'", name, "' is unknown", KnownNamesHint(name, known)));
}

absl::string_view SpModeName(planner::SpMode mode) {
  switch (mode) {
    case planner::SpMode::kUlysses:
      return "ulysses";
    case planner::SpMode::kKvGather:
      return "kv_gather";
    case planner::SpMode::kBoth:
      return "both";
    case planner::SpMode::kSwitch:
      return "switch";
  }
  return "ulysses";
}

}  // namespace

absl::string_view OnTooLongName(OnTooLong value) {
  switch (value) {
    case OnTooLong::kFail:
      return "fail";
    case OnTooLong::kTruncate:
      return "truncate";
    case OnTooLong::kSkip:
      return "skip";
  }
  return "fail";
}

absl::string_view OnBadSampleName(OnBadSample value) {
  return value == OnBadSample::kSkip ? "skip" : "fail";
}

absl::Status ParseOnTooLong(absl::string_view name, OnTooLong* value) {
  return ParseOneOf(name,
                    {OnTooLong::kFail, OnTooLong::kTruncate, OnTooLong::kSkip},
                    OnTooLongName, value);
}

absl::Status ParseOnBadSample(absl::string_view name, OnBadSample* value) {
  return ParseOneOf(name, {OnBadSample::kFail, OnBadSample::kSkip},
                    OnBadSampleName, value);
}

absl::string_view ModelKindName(ModelKind value) {
  return value == ModelKind::kVideo ? "video" : "text";
}

absl::Status ParseModelKind(absl::string_view name, ModelKind* value) {
  return ParseOneOf(name, {ModelKind::kText, ModelKind::kVideo}, ModelKindName,
                    value);
}

absl::string_view AttentionName(Attention value) {
  return value == Attention::kFull ? "full" : "causal";
}

absl::Status ParseAttention(absl::string_view name, Attention* value) {
  return ParseOneOf(name, {Attention::kCausal, Attention::kFull}, AttentionName,
                    value);
}

std::string SpModesText(const std::vector<planner::SpMode>& modes) {
  return absl::StrJoin(modes, ", ", [](std::string* out, planner::SpMode mode) {
    absl::StrAppend(out, SpModeName(mode));
  });
}

absl::Status ParseSpModes(absl::string_view text,
                          std::vector<planner::SpMode>* modes) {
  std::vector<planner::SpMode> parsed;
  for (absl::string_view name :
       absl::StrSplit(text, ',', absl::SkipWhitespace())) {
    planner::SpMode mode = planner::SpMode::kUlysses;
    EVENSTEP_RETURN_IF_ERROR(
        ParseOneOf(absl::StripAsciiWhitespace(name),
                   {planner::SpMode::kUlysses, planner::SpMode::kKvGather,
                    planner::SpMode::kBoth, planner::SpMode::kSwitch},
                   SpModeName, &mode));
    parsed.push_back(mode);
  }
  *modes = std::move(parsed);
  return absl::OkStatus();
}

absl::string_view PrecisionName(Precision value) {
  switch (value) {
    case Precision::kFloat32:
      return "float32";
    case Precision::kBFloat16:
      return "bfloat16";
    case Precision::kFloat64:
      return "float64";
  }
  return "float32";
}

absl::Status ParsePrecision(absl::string_view name, Precision* value) {
  return ParseOneOf(
      name, {Precision::kFloat32, Precision::kBFloat16, Precision::kFloat64},
      PrecisionName, value);
}

absl::string_view RecomputeName(Recompute value) {
  return value == Recompute::kPlan ? "plan" : "fixed";
}

absl::Status ParseRecompute(absl::string_view name, Recompute* value) {
  return ParseOneOf(name, {Recompute::kFixed, Recompute::kPlan}, RecomputeName,
                    value);
}

absl::string_view BlockShapeName(planner::BlockShape value) {
  return value == planner::BlockShape::kContiguous ? "contiguous" : "aligned";
}

absl::Status ParseBlockShape(absl::string_view name,
                             planner::BlockShape* value) {
  return ParseOneOf(
      name, {planner::BlockShape::kAligned, planner::BlockShape::kContiguous},
      BlockShapeName, value);
}

absl::string_view OptimizerShardingName(OptimizerSharding value) {
  return value == OptimizerSharding::kZero1 ? "zero1" : "none";
}

absl::Status ParseOptimizerSharding(absl::string_view name,
                                    OptimizerSharding* value) {
  return ParseOneOf(name, {OptimizerSharding::kNone, OptimizerSharding::kZero1},
                    OptimizerShardingName, value);
}

data::DatasetOptions ToDatasetOptions(const JobSpec& spec) {
  data::DatasetOptions options;
  options.source = spec.data.source;
  options.tokenizer = spec.data.tokenizer;
  options.max_length = spec.data.max_length;
  options.vocab = spec.model.is_video() ? 0 : spec.model.vocab;
  options.on_too_long = spec.data.on_too_long;
  options.on_bad_sample = spec.data.on_bad_sample;
  options.patch = spec.model.patch;
  options.channels = spec.model.channels;
  return options;
}

data::DatasetOptions ToEvaluationOptions(const JobSpec& spec) {
  data::DatasetOptions options = ToDatasetOptions(spec);
  options.source = spec.evaluation.source;
  return options;
}

planner::ModelShape ToModelShape(const ModelSpec& model) {
  planner::ModelShape shape;
  if (model.is_video()) {
    shape.spatial_layers = shape.temporal_layers = model.layers / 2;
    shape.max_switch_degree = model.max_switch_degree;
  } else {
    shape.num_layers = model.layers;
  }
  shape.width = model.width;
  shape.heads = model.heads;
  shape.kv_heads = model.kv_heads;
  shape.sp_modes = model.sp_modes;
  shape.expand_kv_heads = model.expand_kv_heads;
  return shape;
}

planner::LayerCounts ToRecomputeLayers(const MemorySpec& memory) {
  return {memory.recompute_layers, memory.recompute_temporal_layers};
}

int NumAlignedGroups(int ranks) {
  int groups = 0;
  int64_t degree = 2;
  for (; degree <= ranks; degree *= 2) ++groups;
  return degree / 2 == ranks || ranks == 1 ? groups : groups + 1;  // the world
}

}  // namespace evenstep::jobspec
