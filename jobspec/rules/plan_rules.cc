#include "absl/strings/str_cat.h"
#include "base/parse_value.h"
#include "jobspec/plan_request.h"
#include "jobspec/rules/rule_parts.h"
#include "planner/costs/memory_model.h"
#include "planner/limits.h"
#include "planner/planner.h"

namespace evenstep::jobspec {
namespace {

constexpr int kMaxLookAhead = 64;

// What a plan takes at most (proto/evenstep/v1/plan.proto): a micro-batch of
// its own for each sample, every number at its longest; then the costs. Held
// against the real messages by wire/step_plan_test.cc.
constexpr int64_t kPlanBytesPerSample = 64;
constexpr int64_t kPlanBytesPerClip = 88;
constexpr int64_t kPlanBytesPerRank = 8;
constexpr int64_t kPlanBytes = 64 << 10;
// Of a message between coordinator and agents (rpc/transport.h).
constexpr int64_t kMaxPlanBytes = 16 << 20;
// About 250 MB of lengths, and as much of plans.
constexpr int64_t kMaxSamplesAhead = 1 << 21;

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

// The plan of a step travels in one message, and so do a rank's lengths.
Found PlanSizeRule(const JobSpec& spec) {
  const int64_t bytes = MostPlanBytes(spec);
  if (bytes <= kMaxPlanBytes) return std::nullopt;
  return RuleBreak{"batch.samples",
                   absl::StrCat("the plan of ", spec.batch_samples,
                                " samples on ", spec.ranks, " ranks can take ",
                                bytes, " bytes, and a message has at most ",
                                kMaxPlanBytes, "; use fewer samples a step")};
}

// The coordinator holds the lengths and plans of the steps that are ahead.
Found StepsAheadRule(const JobSpec& spec) {
  const int64_t held = spec.batch_samples * (spec.look_ahead + 1);
  if (held <= kMaxSamplesAhead) return std::nullopt;
  return RuleBreak{
      "batch.samples",
      absl::StrCat(spec.batch_samples, " samples of ", spec.look_ahead + 1,
                   " steps (look_ahead and the one that runs) are ", held,
                   "; at most ", kMaxSamplesAhead,
                   " are held: use fewer samples a step or a smaller "
                   "look_ahead")};
}

}  // namespace

int64_t MostPlanBytes(const JobSpec& spec) {
  const int64_t per_sample =
      spec.model.is_video() ? kPlanBytesPerClip : kPlanBytesPerSample;
  return spec.batch_samples * per_sample + spec.ranks * kPlanBytesPerRank +
         kPlanBytes;
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
  return FirstOf({BlockRules(spec), RecomputeRule(spec), PlanSizeRule(spec),
                  StepsAheadRule(spec)});
}

}  // namespace evenstep::jobspec
