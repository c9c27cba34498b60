#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "data/latents/latents_dataset.h"
#include "jobspec/job_keys.h"
#include "jobspec/rules/rule_parts.h"
#include "planner/limits.h"

namespace evenstep::jobspec {
namespace {

constexpr size_t kMaxModelNameBytes = 128;
constexpr int kMaxWidth = 1 << 20;
constexpr int kMaxMlpWidth = 1 << 22;
constexpr double kMaxRopeTheta = 1e12;
constexpr double kMinNormEpsilon = 1e-20;
constexpr int kMinVocab = 2;  // what the data needs is a rule of the data
constexpr int kMaxVocab = 1 << 24;
constexpr int kMaxChannels = 1 << 12;

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
    const absl::string_view name = WordOf("model.sp_modes", mode);
    const bool known = model.is_video() ? mode == planner::SpMode::kSwitch ||
                                              mode == planner::SpMode::kUlysses
                                        : mode != planner::SpMode::kSwitch;
    if (!known) {
      return RuleBreak{
          "model.sp_modes",
          absl::StrCat(name, " is not for ", WordOf("model.kind", model.kind),
                       " models")};
    }
    if (!seen.insert(mode).second) {
      return RuleBreak{"model.sp_modes",
                       absl::StrCat(name, " is listed twice")};
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

}  // namespace

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

}  // namespace evenstep::jobspec
