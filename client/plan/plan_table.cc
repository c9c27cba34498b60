#include "client/plan/plan_table.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/text.h"

namespace evenstep::plan {
namespace {

using planner::MicroBatch;
using planner::Plan;
using planner::PlanRequest;

constexpr size_t kSamplesShown = 8;

std::string Seconds(int64_t ns) {
  return absl::StrFormat("%.4f", static_cast<double>(ns) * 1e-9);
}

std::string Share(double share) {
  return absl::StrFormat("%.1f%%", share * 100);
}

std::string Name(planner::Policy policy) {
  const auto name = planner::PolicyName(policy);
  return std::string(name.data(), name.size());
}

std::string DescribeNodes(const planner::Cluster& cluster) {
  const std::vector<int>& nodes = cluster.ranks_per_node;
  const bool equal = std::all_of(nodes.begin(), nodes.end(),
                                 [&](int gpus) { return gpus == nodes[0]; });
  if (nodes.size() == 1) return Counted(nodes[0], "GPU") + " on one node";
  const std::string each =
      equal ? absl::StrCat(nodes.size(), " nodes of ", nodes[0])
            : absl::StrCat("nodes of ", absl::StrJoin(nodes, ", "));
  return absl::StrCat(Counted(cluster.num_ranks(), "GPU"), " on ", each);
}

// "12", or "6+8" of spatial and temporal layers.
std::string Layers(const PlanRequest& request,
                   const planner::LayerCounts& layers) {
  return request.model.is_video() ? absl::StrCat(layers[0], "+", layers[1])
                                  : absl::StrCat(layers.total());
}

std::string AgainstBest(const PolicyRun* best, const PolicyRun& run) {
  if (best == nullptr || run.plan.predicted_step_ns == 0) return "-";
  return absl::StrFormat("%.3fx",
                         static_cast<double>(best->plan.predicted_step_ns) /
                             static_cast<double>(run.plan.predicted_step_ns));
}

std::string Samples(const PlanRequest& request, const MicroBatch& batch) {
  const size_t shown = std::min(kSamplesShown, batch.samples.size());
  std::string text =
      absl::StrJoin(batch.samples.begin(), batch.samples.begin() + shown, ",",
                    [&](std::string* out, int index) {
                      absl::StrAppend(out, request.samples[index].id);
                    });
  if (shown < batch.samples.size()) {
    absl::StrAppend(&text, ",... (", batch.samples.size(), ")");
  }
  return text;
}

// What the table shows of a run before its figures.
std::vector<std::string> Batch(const Comparison& comparison,
                               const PolicyRun& run) {
  if (!comparison.IsElastic()) return {};
  return {
      absl::StrCat(comparison.RequestOf(run).samples.size()),
      WithCommas(TokensOf(comparison.RequestOf(run).samples)),
      absl::StrCat(run.drawn.has_value() ? run.drawn->left.size() : size_t{0}),
  };
}

std::vector<std::string> ComparisonRow(const Comparison& comparison,
                                       const PolicyRun& run) {
  const Plan& plan = run.plan;
  const PlanRequest& request = comparison.RequestOf(run);
  std::vector<std::string> row = {Name(run.policy)};
  for (std::string& text : Batch(comparison, run)) {
    row.push_back(std::move(text));
  }
  row.insert(row.end(),
             {Seconds(plan.predicted_step_ns),
              absl::StrFormat("%.4f", RatioToBound(plan)),
              BoundName(plan.active_bound), DegreesOf(plan),
              Share(plan.predicted_imbalance), Share(plan.padding_ratio),
              Share(RecomputeRatio(request, plan)),
              ShortCount(TokensPerSecond(request, plan))});
  if (!comparison.IsElastic()) {
    row.push_back(AgainstBest(comparison.BestBaseline(), run));
  }
  row.push_back(absl::StrFormat("%.2f", run.planning_seconds * 1e3));
  if (run.simulated.has_value()) {
    row.push_back(Seconds(run.simulated->step_ns));
    row.push_back(Share(run.simulated->idle_share));
  }
  return row;
}

}  // namespace

int64_t TokensOf(const std::vector<planner::Sample>& samples) {
  int64_t tokens = 0;
  for (const auto& sample : samples) tokens += sample.length;
  return tokens;
}

std::vector<const PolicyRun*> FastestFirst(const Comparison& comparison) {
  std::vector<const PolicyRun*> ordered;
  for (const PolicyRun& run : comparison.runs) {
    if (run.status.ok()) ordered.push_back(&run);
  }
  auto tokens_per_second = [&](const PolicyRun* run) {
    return TokensPerSecond(comparison.RequestOf(*run), run->plan);
  };
  const bool elastic = comparison.IsElastic();
  std::stable_sort(
      ordered.begin(), ordered.end(),
      [&](const PolicyRun* a, const PolicyRun* b) {
        return elastic ? tokens_per_second(a) > tokens_per_second(b)
                       : a->plan.predicted_step_ns < b->plan.predicted_step_ns;
      });
  return ordered;
}

std::string ShortCount(double count) {
  if (count < 1e3) return absl::StrFormat("%.0f", count);
  if (count < 1e6) return absl::StrFormat("%.3gk", count * 1e-3);
  if (count < 1e9) return absl::StrFormat("%.3gM", count * 1e-6);
  return absl::StrFormat("%.3gG", count * 1e-9);
}

std::string WithCommas(int64_t value) {
  const std::string digits = absl::StrCat(value);
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    const bool group_starts = (digits.size() - i) % 3 == 0;
    if (group_starts && i > 0 && digits[i - 1] != '-') text += ',';
    text += digits[i];
  }
  return text;
}

std::string DescribeRequest(const PlanRequest& request) {
  const int64_t tokens = TokensOf(request.samples);
  int64_t longest = 0;
  for (const auto& sample : request.samples) {
    longest = std::max(longest, sample.length);
  }
  const bool per_round = request.options.sync == planner::SyncMode::kPerRound;
  const bool aligned = request.options.blocks == planner::BlockShape::kAligned;
  const auto samples = static_cast<int64_t>(request.samples.size());
  return absl::StrCat(
      WithCommas(samples), samples == 1 ? " sample" : " samples", ", ",
      WithCommas(tokens), tokens == 1 ? " token" : " tokens", ", longest ",
      WithCommas(longest), "; ", DescribeNodes(request.cluster), "; ",
      per_round ? "per_round" : "per_step", ", ",
      aligned ? "aligned" : "contiguous", " blocks");
}

std::string DescribeBound(const Comparison& comparison) {
  if (comparison.IsElastic()) {
    return "the samples are a pool; each policy draws the step that it would "
           "run first, and leaves the rest to later steps";
  }
  for (const PolicyRun& run : comparison.runs) {
    if (!run.status.ok()) continue;
    return absl::StrCat("lower bound ", Seconds(run.plan.lower_bound_ns),
                        " s (", BoundName(run.plan.active_bound), ")");
  }
  return "";
}

TextRows ComparisonTable(const Comparison& comparison) {
  const bool elastic = comparison.IsElastic();
  TextRows rows = {{"policy"}};
  std::vector<std::string>& header = rows[0];
  if (elastic) header.insert(header.end(), {"samples", "tokens", "left"});
  header.insert(header.end(),
                {"step s", "ratio", "bound", "degree", "imbalance", "padding",
                 "recompute", "tokens/s"});
  if (!elastic) header.push_back("vs best");
  header.push_back("plan ms");
  const bool simulated = std::any_of(
      comparison.runs.begin(), comparison.runs.end(),
      [](const PolicyRun& run) { return run.simulated.has_value(); });
  if (simulated) header.insert(header.end(), {"simulated s", "idle"});
  for (const PolicyRun* run : FastestFirst(comparison)) {
    rows.push_back(ComparisonRow(comparison, *run));
  }
  return rows;
}

std::vector<std::string> Failures(const Comparison& comparison) {
  std::vector<std::string> order;  // reasons, as they come first
  std::map<std::string, std::vector<std::string>> names;
  for (const PolicyRun& run : comparison.runs) {
    if (run.status.ok()) continue;
    const std::string reason(run.status.message());
    if (names[reason].empty()) order.push_back(reason);
    names[reason].push_back(Name(run.policy));
  }
  std::vector<std::string> lines;
  lines.reserve(order.size());
  for (const std::string& reason : order) {
    lines.push_back(absl::StrCat(absl::StrJoin(names[reason], ", "),
                                 ": no plan: ", reason));
  }
  return lines;
}

TextRows PlanRows(const PlanRequest& request, const Plan& plan) {
  TextRows rows = {{"order", "round", "ranks", "degree", "tokens/rank",
                    "recompute", "seconds", "samples"}};
  for (size_t i = 0; i < plan.micro_batches.size(); ++i) {
    const MicroBatch& batch = plan.micro_batches[i];
    const int last = batch.first_rank + batch.degree - 1;
    rows.push_back({absl::StrCat(i), absl::StrCat(batch.round),
                    batch.degree == 1
                        ? absl::StrCat(last)
                        : absl::StrCat(batch.first_rank, "-", last),
                    absl::StrCat(batch.degree),
                    absl::StrCat(batch.padded_tokens / batch.degree),
                    absl::StrCat(Layers(request, batch.recompute_layers), "/",
                                 Layers(request, request.model.layers())),
                    Seconds(batch.predicted_ns), Samples(request, batch)});
  }
  return rows;
}

}  // namespace evenstep::plan
