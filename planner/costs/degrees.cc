#include "planner/costs/degrees.h"

#include <algorithm>

namespace evenstep::planner {
namespace {

bool Contains(const std::vector<int>& degrees, int degree) {
  return std::find(degrees.begin(), degrees.end(), degree) != degrees.end();
}

bool ModeIsAllowed(const ModelShape& model, SpMode mode) {
  const SpMode by_default =
      model.is_video() ? SpMode::kSwitch : SpMode::kUlysses;
  if (model.sp_modes.empty()) return mode == by_default;
  return std::find(model.sp_modes.begin(), model.sp_modes.end(), mode) !=
         model.sp_modes.end();
}

// The widest ulysses part of a group that shares by both modes; 1: none.
int WidestUlyssesPart(const ModelShape& model, int degree) {
  for (int part = degree / 2; part > 1; --part) {
    if (degree % part == 0 && HeadsAllow(model, part)) return part;
  }
  return 1;
}

bool MaySwitch(const ModelShape& model, int degree) {
  return ModeIsAllowed(model, SpMode::kSwitch) &&
         (model.max_switch_degree == 0 || degree <= model.max_switch_degree);
}

}  // namespace

bool HeadsAllow(const ModelShape& model, int degree) {
  if (model.heads % degree != 0) return false;
  return model.expand_kv_heads || model.kv_heads % degree == 0 ||
         degree % model.kv_heads == 0;
}

int CopiedKvHeads(const ModelShape& model, int ulysses_degree) {
  if (model.kv_heads % ulysses_degree == 0) return 0;
  const bool replicated = ulysses_degree % model.kv_heads == 0;
  return (replicated ? ulysses_degree : model.heads) - model.kv_heads;
}

std::optional<SequenceSplit> FindSplit(const ModelShape& model, int degree) {
  if (degree == 1) return SequenceSplit();
  const bool forced = !model.forced_degrees.empty();
  if (forced && !Contains(model.forced_degrees, degree)) return std::nullopt;
  if (model.is_video() && MaySwitch(model, degree)) {
    return SequenceSplit{SpMode::kSwitch, degree};
  }
  if (ModeIsAllowed(model, SpMode::kUlysses) &&
      (forced || HeadsAllow(model, degree))) {
    return SequenceSplit{SpMode::kUlysses, degree, degree, 1};
  }
  if (ModeIsAllowed(model, SpMode::kKvGather)) {
    return SequenceSplit{SpMode::kKvGather, degree, 1, degree};
  }
  if (!ModeIsAllowed(model, SpMode::kBoth)) return std::nullopt;
  const int part = WidestUlyssesPart(model, degree);
  if (part == 1) return std::nullopt;
  return SequenceSplit{SpMode::kBoth, degree, part, degree / part};
}

SequenceSplit SplitFor(const ModelShape& model, int degree) {
  return FindSplit(model, degree)
      .value_or(SequenceSplit{SpMode::kUlysses, degree, degree, 1});
}

std::vector<int> LegalDegreesFor(int num_ranks, const ModelShape& model,
                                 BlockShape shape) {
  std::vector<int> degrees;
  if (shape == BlockShape::kContiguous) {
    for (int degree = 1; degree <= num_ranks; ++degree) {
      if (FindSplit(model, degree)) degrees.push_back(degree);
    }
    return degrees;
  }
  int degree = 1;
  for (; degree <= num_ranks; degree *= 2) {
    if (FindSplit(model, degree)) degrees.push_back(degree);
  }
  const bool power_of_two = degree / 2 == num_ranks;
  if (!power_of_two && FindSplit(model, num_ranks)) {
    degrees.push_back(num_ranks);
  }
  return degrees;
}

std::vector<int> LegalDegrees(const PlanRequest& request) {
  std::vector<int> degrees = LegalDegreesFor(
      request.cluster.num_ranks(), request.model, request.options.blocks);
  const std::vector<int>& asked = request.options.degrees;
  if (asked.empty()) return degrees;
  std::erase_if(degrees, [&](int degree) {
    return degree > 1 && !Contains(asked, degree);
  });
  return degrees;
}

std::vector<Block> AlignedBlocks(int num_ranks, int degree) {
  std::vector<Block> blocks;
  for (int first = 0; first + degree <= num_ranks; first += degree) {
    blocks.push_back({first, degree});
  }
  return blocks;
}

std::vector<Block> BlocksOf(int num_ranks, int degree, BlockShape shape) {
  if (shape == BlockShape::kAligned) return AlignedBlocks(num_ranks, degree);
  std::vector<Block> blocks;
  for (int first = 0; first + degree <= num_ranks; ++first) {
    blocks.push_back({first, degree});
  }
  return blocks;
}

NodeMap::NodeMap(const TimeModel& time, const Cluster& cluster) {
  if (time.collective_across.empty() && time.gather_across.empty() &&
      time.collective_latency_across_ns == 0) {
    return;
  }
  int node = 0;
  for (int ranks : cluster.ranks_per_node) {
    node_of_rank_.insert(node_of_rank_.end(), ranks, node++);
  }
}

std::vector<BlockClass> BlockClasses(const PlanRequest& request) {
  const NodeMap nodes(request.time, request.cluster);
  std::vector<BlockClass> classes;
  for (int degree : LegalDegrees(request)) {
    bool found[2] = {false, false};
    for (const Block& block : BlocksOf(request.cluster.num_ranks(), degree,
                                       request.options.blocks)) {
      found[nodes.ClassOf(block).crosses_nodes ? 1 : 0] = true;
    }
    if (found[0]) classes.push_back({degree, false});
    if (found[1]) classes.push_back({degree, true});
  }
  return classes;
}

std::vector<Block> BlocksOfClass(const PlanRequest& request,
                                 const BlockClass& block_class) {
  const NodeMap nodes(request.time, request.cluster);
  std::vector<Block> blocks = BlocksOf(
      request.cluster.num_ranks(), block_class.degree, request.options.blocks);
  std::erase_if(blocks, [&](const Block& block) {
    return nodes.ClassOf(block) != block_class;
  });
  return blocks;
}

int64_t PaddedTokens(int64_t tokens, int64_t degree) {
  return (tokens + degree - 1) / degree * degree;
}

}  // namespace evenstep::planner
