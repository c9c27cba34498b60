#include "jobspec/rules.h"

#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/parse_value.h"
#include "base/utf8.h"
#include "data/latents_dataset.h"
#include "data/source_kind.h"
#include "jobspec/model_memory.h"
#include "jobspec/profile.h"
#include "planner/costs/memory_model.h"
#include "planner/planner.h"
#include "planner/validate.h"

namespace evenstep::jobspec {
namespace {

constexpr size_t kMaxNameBytes = 128;
constexpr size_t kMaxSourceBytes = 4096;
constexpr size_t kMaxModelNameBytes = 128;
constexpr size_t kMaxKeyBytes = 1024;  // of one part of a profile's key
constexpr int kMaxWidth = 1 << 20;
constexpr int kMaxMlpWidth = 1 << 22;
constexpr double kMaxRopeTheta = 1e12;
constexpr double kMinNormEpsilon = 1e-20;
constexpr int kMinVocab = 257;  // bytes and an end token
constexpr int kMaxVocab = 1 << 24;
constexpr absl::string_view kLatents = "latents:";
constexpr int kMaxChannels = 1 << 12;
constexpr int64_t kMaxSteps = 1'000'000'000;
constexpr int kMaxLookAhead = 64;
constexpr absl::Duration kMaxTimeout = absl::Hours(24 * 7);

using Found = std::optional<RuleBreak>;

template <typename Number>
Found InRange(absl::string_view key, Number value, Number least, Number most) {
  if (value >= least && value <= most) return std::nullopt;  // false for NaN
  return RuleBreak{std::string(key),
                   absl::StrCat(FormatValue(value), " is not in ",
                                FormatValue(least), " to ", FormatValue(most))};
}

Found FirstOf(std::initializer_list<Found> found) {
  for (const Found& one : found) {
    if (one.has_value()) return one;
  }
  return std::nullopt;
}

bool HasControlCharacter(absl::string_view text) {
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) return true;
  }
  return false;
}

Found TextRule(absl::string_view key, absl::string_view text, size_t most) {
  if (text.empty()) return RuleBreak{std::string(key), "is required"};
  if (text.size() > most) {
    return RuleBreak{std::string(key),
                     absl::StrCat(text.size(), " bytes; at most ", most)};
  }
  const absl::Status valid = CheckUtf8("the text", text);
  if (!valid.ok()) {
    return RuleBreak{std::string(key), std::string(valid.message())};
  }
  if (HasControlCharacter(text)) {
    return RuleBreak{std::string(key), "holds a control character"};
  }
  return std::nullopt;
}

Found KindRule(const JobSpec& spec) {
  if (spec.kind == "train") return std::nullopt;
  return RuleBreak{"kind",
                   absl::StrCat("'", spec.kind, "' is unknown; known: train")};
}

Found ModelNameRule(const ModelSpec& model) {
  if (model.name.empty()) return std::nullopt;
  return TextRule("model.name", model.name, kMaxModelNameBytes);
}

Found HeadRules(const ModelSpec& model) {
  if (model.width % model.heads != 0) {
    return RuleBreak{"model.width",
                     absl::StrCat(model.width, " is not a multiple of ",
                                  model.heads, " heads")};
  }
  // Rows and columns of patches turn a half of a head each.
  if (model.is_video() && (model.width / model.heads) % 4 != 0) {
    return RuleBreak{
        "model.width",
        absl::StrCat(model.width, " / ", model.heads, " heads gives heads of ",
                     model.width / model.heads,
                     "; rotary positions of video need a multiple of 4")};
  }
  if ((model.width / model.heads) % 2 != 0) {
    return RuleBreak{
        "model.width",
        absl::StrCat(model.width, " / ", model.heads, " heads gives heads of ",
                     model.width / model.heads,
                     "; rotary positions need an even size")};
  }
  if (model.heads % model.kv_heads != 0) {
    return RuleBreak{"model.kv_heads",
                     absl::StrCat(model.kv_heads, " does not divide ",
                                  model.heads, " heads")};
  }
  return std::nullopt;
}

Found SpModeRule(const ModelSpec& model) {
  std::set<planner::SpMode> seen;
  for (const planner::SpMode mode : model.sp_modes) {
    const std::string name = SpModesText({mode});
    const bool known = model.is_video() ? mode == planner::SpMode::kSwitch ||
                                              mode == planner::SpMode::kUlysses
                                        : mode != planner::SpMode::kSwitch;
    if (!known) {
      return RuleBreak{"model.sp_modes",
                       absl::StrCat(name, " is not for ",
                                    ModelKindName(model.kind), " models")};
    }
    if (!seen.insert(mode).second) {
      return RuleBreak{"model.sp_modes", absl::StrCat(name, " stands twice")};
    }
  }
  return std::nullopt;
}

Found VideoRules(const ModelSpec& model) {
  if (!model.is_video()) {
    if (model.channels == 0 && model.patch == 1 &&
        model.max_switch_degree == 0) {
      return std::nullopt;
    }
    return RuleBreak{"model.kind",
                     "channels, patch and max_switch_degree are of video "
                     "models; this one is text"};
  }
  if (model.layers % 2 != 0) {
    return RuleBreak{"model.layers",
                     absl::StrCat(model.layers,
                                  " is odd; spatial and temporal layers take "
                                  "turns")};
  }
  if (model.kv_heads != model.heads) {
    return RuleBreak{"model.kv_heads",
                     absl::StrCat(model.kv_heads, " of ", model.heads,
                                  " heads; a video model has as many")};
  }
  return FirstOf({
      InRange("model.channels", model.channels, 1, kMaxChannels),
      InRange("model.patch", model.patch, 1, data::kMaxPatch),
      InRange("model.max_switch_degree", model.max_switch_degree, 0,
              planner::kMaxRanks),
  });
}

// What makes a text model that of others' weights.
Found TextModelRules(const ModelSpec& model) {
  if (model.is_video()) {
    if (model.mlp_width == 0 && model.rope_theta == kRopeTheta &&
        model.norm_epsilon == kNormEpsilon) {
      return std::nullopt;
    }
    return RuleBreak{"model.kind",
                     "mlp_width, rope_theta and norm_epsilon are of text "
                     "models; this one is video"};
  }
  return FirstOf({
      InRange("model.mlp_width", model.mlp_width, 0, kMaxMlpWidth),
      InRange("model.rope_theta", model.rope_theta, 1.0, kMaxRopeTheta),
      InRange("model.norm_epsilon", model.norm_epsilon, kMinNormEpsilon, 1.0),
  });
}

Found WeightsRule(const ModelSpec& model) {
  if (model.weights.empty()) return std::nullopt;
  return TextRule("model.weights", model.weights, kMaxSourceBytes);
}

Found ModelRules(const ModelSpec& model) {
  Found ranges = FirstOf({
      InRange("model.layers", model.layers, 1, planner::kMaxLayers),
      InRange("model.width", model.width, 1, kMaxWidth),
      InRange("model.heads", model.heads, 1, planner::kMaxHeads),
      InRange("model.kv_heads", model.kv_heads, 1, planner::kMaxHeads),
      InRange("model.vocab", model.vocab, kMinVocab, kMaxVocab),
  });
  if (ranges.has_value()) return ranges;
  return FirstOf({ModelNameRule(model), HeadRules(model), VideoRules(model),
                  TextModelRules(model), WeightsRule(model),
                  SpModeRule(model)});
}

Found SourceRule(absl::string_view key, const std::string& source,
                 const ModelSpec& model) {
  Found text = TextRule(key, source, kMaxSourceBytes);
  if (text.has_value()) return text;
  if (data::FindSourceKind(source) == nullptr) {
    return RuleBreak{
        std::string(key),
        absl::StrCat("'", source, "' is none of ", data::SourceForms())};
  }
  if (absl::StartsWith(source, kLatents) == model.is_video()) {
    return std::nullopt;
  }
  return RuleBreak{
      std::string(key),
      absl::StrCat("'", source, "' is not what a ", ModelKindName(model.kind),
                   " model is trained on; video takes ", kLatents,
                   "PATH, text the others")};
}

Found TokenizerRule(const DataSpec& data) {
  if (data.tokenizer.empty()) return std::nullopt;
  Found text = TextRule("data.tokenizer", data.tokenizer, kMaxSourceBytes);
  if (text.has_value() || absl::StartsWith(data.source, "text:")) return text;
  return RuleBreak{"data.tokenizer",
                   absl::StrCat("'", data.source,
                                "' has tokens of its own; a tokenizer is for "
                                "text:PATH")};
}

Found DataRules(const JobSpec& spec) {
  Found found =
      FirstOf({SourceRule("data.source", spec.data.source, spec.model),
               TokenizerRule(spec.data)});
  if (found.has_value()) return found;
  if (spec.model.is_video()) {
    return InRange("data.given_frames", spec.data.given_frames, 0.0, 1.0);
  }
  if (spec.data.given_frames == 0) return std::nullopt;
  return RuleBreak{"data.given_frames", "is of video; the model is text"};
}

Found EvaluationRules(const JobSpec& spec) {
  const EvaluationSpec& evaluation = spec.evaluation;
  Found ranges = FirstOf({
      InRange<int64_t>("evaluation.every", evaluation.every, 0, kMaxSteps),
      InRange<int64_t>("evaluation.samples", evaluation.samples, 0,
                       std::numeric_limits<int64_t>::max()),
  });
  if (ranges.has_value()) return ranges;
  if (!(evaluation.share >= 0 && evaluation.share < 1)) {
    return RuleBreak{"evaluation.share",
                     absl::StrCat(FormatValue(evaluation.share),
                                  " is not from 0 to below 1")};
  }
  if (!evaluation.enabled()) {
    if (evaluation.every == 0 && evaluation.samples == 0) return std::nullopt;
    return RuleBreak{
        evaluation.every > 0 ? "evaluation.every" : "evaluation.samples",
        "there is nothing to evaluate on; name "
        "evaluation.share or evaluation.source"};
  }
  if (evaluation.source.empty()) return std::nullopt;
  if (evaluation.share > 0) {
    return RuleBreak{"evaluation.source",
                     "stands beside evaluation.share; choose one"};
  }
  if (absl::StripSuffix(evaluation.source, "/") ==
      absl::StripSuffix(spec.data.source, "/")) {
    return RuleBreak{"evaluation.source",
                     absl::StrCat("'", evaluation.source,
                                  "' is what is trained on; a part of it is "
                                  "held out with evaluation.share")};
  }
  return SourceRule("evaluation.source", evaluation.source, spec.model);
}

Found BatchRules(const JobSpec& spec) {
  Found ranges = FirstOf({
      // One byte and the end token at least.
      InRange<int64_t>("data.max_length", spec.data.max_length, 2,
                       planner::kMaxLengthTokens),
      InRange<int64_t>("batch.samples", spec.batch_samples, 1,
                       planner::kMaxSamples),
  });
  if (ranges.has_value()) return ranges;
  const int64_t most = spec.batch_samples * spec.data.max_length;
  if (most <= planner::kMaxTotalTokens) return std::nullopt;
  return RuleBreak{
      "batch.samples",
      absl::StrCat(spec.batch_samples, " samples of up to ",
                   spec.data.max_length, " tokens are ", most,
                   " tokens a step; at most ", planner::kMaxTotalTokens)};
}

Found OptimizerRules(const OptimizerSpec& optimizer, int64_t steps) {
  if (!(optimizer.lr > 0)) {
    return RuleBreak{"optimizer.lr", absl::StrCat(FormatValue(optimizer.lr),
                                                  " is not above 0")};
  }
  return FirstOf({
      InRange("optimizer.lr", optimizer.lr, 0.0, 1e3),
      InRange<int64_t>("optimizer.warmup", optimizer.warmup, 0, steps),
      InRange("optimizer.weight_decay", optimizer.weight_decay, 0.0, 1e3),
      InRange("optimizer.clip", optimizer.clip, 0.0, 1e9),
  });
}

Found TimeoutRule(absl::string_view key, absl::Duration value) {
  if (value < absl::Milliseconds(1) || value > kMaxTimeout) {
    return RuleBreak{std::string(key),
                     absl::StrCat(FormatValue(value), " is not in 1ms to ",
                                  FormatValue(kMaxTimeout))};
  }
  if (value % absl::Milliseconds(1) != absl::ZeroDuration()) {
    return RuleBreak{std::string(key),
                     absl::StrCat(FormatValue(value),
                                  " is not a whole number of milliseconds")};
  }
  return std::nullopt;
}

Found TimeoutRules(const TimeoutSpec& timeouts) {
  return FirstOf({
      timeouts.collective.has_value()
          ? TimeoutRule("timeouts.collective", *timeouts.collective)
          : std::nullopt,
      TimeoutRule("timeouts.start", timeouts.start),
      TimeoutRule("timeouts.stop", timeouts.stop),
  });
}

// Aligned blocks need their own groups alone, which are always open.
Found BlockRules(const JobSpec& spec) {
  if (spec.blocks == planner::BlockShape::kAligned) return std::nullopt;
  if (spec.ranks > planner::kMaxContiguousRanks) {
    return RuleBreak{"blocks", absl::StrCat("contiguous blocks of ", spec.ranks,
                                            " ranks; at most ",
                                            planner::kMaxContiguousRanks)};
  }
  const int aligned = NumAlignedGroups(spec.ranks);
  if (spec.groups_per_rank > aligned) return std::nullopt;
  return RuleBreak{
      "groups_per_rank",
      absl::StrCat(spec.groups_per_rank, " groups for each of ", spec.ranks,
                   " ranks; aligned blocks take ", aligned,
                   " and contiguous ones at least one more")};
}

bool ChoosesRecompute(planner::Policy policy) {
  return policy != planner::Policy::kStatic &&
         policy != planner::Policy::kBalanced &&
         policy != planner::Policy::kPacked;
}

// Where the plan chooses, tokens are counted in bytes.
Found RecomputeRule(const JobSpec& spec) {
  if (spec.memory.recompute == Recompute::kFixed) return std::nullopt;
  if (!spec.model.name.empty()) {
    return RuleBreak{"memory.recompute",
                     "plan counts the memory of the trainer's own models; with "
                     "model.name say fixed"};
  }
  if (!ChoosesRecompute(spec.policy)) {
    return RuleBreak{
        "memory.recompute",
        absl::StrCat("plan: the policy ", planner::PolicyName(spec.policy),
                     " does not choose; it recomputes "
                     "memory.recompute_layers with fixed")};
  }
  if (ModelRules(spec.model).has_value()) return std::nullopt;  // said already
  planner::PlanRequest request;
  request.model = ToModelShape(spec.model);
  request.memory = ModelMemory(spec.model, spec.precision);
  const double bytes = static_cast<double>(spec.memory.tokens_per_rank) *
                       static_cast<double>(planner::BytesPerToken(
                           request, /*recompute=*/0, /*degree=*/1));
  constexpr auto kMost = static_cast<double>(planner::kMaxActivationBytes);
  if (bytes <= kMost) return std::nullopt;
  return RuleBreak{
      "memory.tokens_per_rank",
      absl::StrCat(spec.memory.tokens_per_rank, " tokens take about ",
                   FormatValue(bytes), " bytes; at most ", FormatValue(kMost),
                   " where the plan chooses what is recomputed")};
}

Found RankRules(const JobSpec& spec) {
  Found ranges = FirstOf({
      InRange("ranks", spec.ranks, 1, planner::kMaxRanks),
      InRange("groups_per_rank", spec.groups_per_rank, 1, planner::kMaxRanks),
      InRange("look_ahead", spec.look_ahead, 1, kMaxLookAhead),
      InRange<int64_t>("memory.tokens_per_rank", spec.memory.tokens_per_rank, 1,
                       planner::kMaxTokensPerRank),
      InRange(
          "memory.recompute_layers", spec.memory.recompute_layers, 0,
          spec.model.is_video() ? spec.model.layers / 2 : spec.model.layers),
      InRange("memory.recompute_temporal_layers",
              spec.memory.recompute_temporal_layers, 0,
              spec.model.is_video() ? spec.model.layers / 2 : 0),
  });
  if (ranges.has_value()) return ranges;
  return FirstOf({BlockRules(spec), RecomputeRule(spec)});
}

Found ProfileRules(const JobSpec& spec) {
  if (spec.profile.empty()) return std::nullopt;
  for (const auto& [key, text] :
       {std::pair("profile.model", &spec.profile.model),
        {"profile.device", &spec.profile.device},
        {"profile.software", &spec.profile.software},
        {"profile.precision", &spec.profile.precision}}) {
    Found found = TextRule(key, *text, kMaxKeyBytes);
    if (found.has_value()) return found;
  }
  if (!spec.costs.has_value()) {
    return RuleBreak{"profile.model", "there are no costs that it could be of"};
  }
  // The rest of the key is known where the job runs.
  ProfileKey own = spec.profile;
  own.model = ModelKey(spec.model);
  own.precision = PrecisionKey(spec);
  const absl::Status same = CheckProfileKey(spec.profile, own);
  if (same.ok()) return std::nullopt;
  return RuleBreak{"profile.model", std::string(same.message())};
}

Found CostRules(const JobSpec& spec) {
  if (!spec.costs.has_value()) return ProfileRules(spec);
  Found found = FindCostRuleBreak(*spec.costs);
  const bool of_video = spec.costs->spatial != planner::LayerTime() ||
                        spec.costs->temporal != planner::LayerTime();
  if (!found.has_value() && of_video != spec.model.is_video()) {
    found = RuleBreak{
        "spatial_linear_ns_per_token",
        absl::StrCat("the costs are of a ", of_video ? "video" : "text",
                     " model, the job's is ", ModelKindName(spec.model.kind))};
  }
  if (!found.has_value()) return ProfileRules(spec);
  found->key = "costs." + found->key;
  return found;
}

Found CollectiveRules(
    const char* key,
    const std::vector<planner::TimeModel::CollectiveCost>& costs) {
  int previous = 0;
  for (const auto& entry : costs) {
    if (entry.degree <= previous || entry.degree > planner::kMaxRanks) {
      return RuleBreak{
          key, absl::StrCat("degree ", entry.degree, " after ", previous,
                            "; degrees ascend from 1 to ", planner::kMaxRanks)};
    }
    previous = entry.degree;
    Found range =
        InRange(key, entry.ns_per_token, 0.0, planner::kMaxLinearNsPerToken);
    if (range.has_value()) return range;
  }
  return std::nullopt;
}

absl::Status ToStatus(const Found& found) {
  if (!found.has_value()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(found->key, ": ", found->sentence));
}

}  // namespace

std::optional<RuleBreak> FindCostRuleBreak(const planner::TimeModel& costs) {
  const int64_t most = planner::kMaxFixedNs;
  Found ranges = FirstOf({
      InRange<int64_t>("micro_batch_fixed_ns", costs.micro_batch_fixed_ns, 0,
                       most),
      InRange("linear_ns_per_token", costs.linear_ns_per_token, 0.0,
              planner::kMaxLinearNsPerToken),
      InRange("quadratic_ns_per_token2", costs.quadratic_ns_per_token2, 0.0,
              planner::kMaxQuadraticNsPerToken2),
      InRange<int64_t>("collective_latency_ns", costs.collective_latency_ns, 0,
                       most),
      InRange<int64_t>("step_fixed_ns", costs.step_fixed_ns, 0, most),
      InRange("head_ns_per_token", costs.head_ns_per_token, 0.0,
              planner::kMaxLinearNsPerToken),
      InRange("spatial_linear_ns_per_token", costs.spatial.linear_ns_per_token,
              0.0, planner::kMaxLinearNsPerToken),
      InRange("spatial_quadratic_ns_per_token2",
              costs.spatial.quadratic_ns_per_token2, 0.0,
              planner::kMaxQuadraticNsPerToken2),
      InRange("temporal_linear_ns_per_token",
              costs.temporal.linear_ns_per_token, 0.0,
              planner::kMaxLinearNsPerToken),
      InRange("temporal_quadratic_ns_per_token2",
              costs.temporal.quadratic_ns_per_token2, 0.0,
              planner::kMaxQuadraticNsPerToken2),
  });
  if (ranges.has_value()) return ranges;
  return FirstOf({CollectiveRules("collective", costs.collective),
                  CollectiveRules("gather", costs.gather)});
}

std::optional<RuleBreak> FindRuleBreak(const JobSpec& spec) {
  return FirstOf({
      TextRule("name", spec.name, kMaxNameBytes),
      KindRule(spec),
      ModelRules(spec.model),
      DataRules(spec),
      EvaluationRules(spec),
      BatchRules(spec),
      InRange<int64_t>("steps", spec.steps, 1, kMaxSteps),
      OptimizerRules(spec.optimizer, spec.steps),
      RankRules(spec),
      CostRules(spec),
      TimeoutRules(spec.timeouts),
  });
}

absl::Status ValidateModelSpec(const ModelSpec& model) {
  return ToStatus(ModelRules(model));
}

absl::Status ValidateJobSpec(const JobSpec& spec) {
  return ToStatus(FindRuleBreak(spec));
}

absl::Status ValidateCosts(const planner::TimeModel& costs) {
  return ToStatus(FindCostRuleBreak(costs));
}

}  // namespace evenstep::jobspec
