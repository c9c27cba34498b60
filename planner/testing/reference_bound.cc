#include "planner/testing/reference_bound.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "planner/costs/degrees.h"
#include "planner/planner.h"
#include "planner/proof/checker_formulas.h"

namespace evenstep::planner::testing {
namespace {

double EntryOf(const std::vector<TimeModel::CollectiveCost>& costs,
               int degree) {
  double chosen = 0;
  for (const auto& entry : costs) {
    chosen = entry.ns_per_token;
    if (entry.degree >= degree) break;
  }
  return chosen;
}

double SpeedOf(const PlanRequest& request, int rank) {
  const auto& speeds = request.cluster.rank_speed;
  return speeds.empty() ? 1 : speeds[rank];
}

// Blocks of one degree that cost the same but for their speed.
struct BlockKind {
  int degree = 1;
  bool crosses = false;
  double speed = 0;  // of the fastest such block: that of its slowest rank
};

bool NodesDiffer(const TimeModel& time) {
  return !time.collective_across.empty() || !time.gather_across.empty() ||
         time.collective_latency_across_ns > 0;
}

int NodeOf(const PlanRequest& request, int rank) {
  int node = 0;
  for (int ranks : request.cluster.ranks_per_node) {
    if (rank < ranks) break;
    rank -= ranks;
    ++node;
  }
  return node;
}

std::vector<BlockKind> BlockKinds(const PlanRequest& request) {
  std::vector<BlockKind> kinds;
  const int num_ranks = request.cluster.num_ranks();
  const bool aligned = request.options.blocks == BlockShape::kAligned;
  for (int degree : LegalDegrees(request)) {
    BlockKind of_degree[2] = {{degree, false}, {degree, true}};
    for (int first = 0; first + degree <= num_ranks;
         first += aligned ? degree : 1) {
      double slowest = INFINITY;
      for (int rank = first; rank < first + degree; ++rank) {
        slowest = std::min(slowest, SpeedOf(request, rank));
      }
      const bool crosses =
          NodesDiffer(request.time) &&
          NodeOf(request, first) != NodeOf(request, first + degree - 1);
      double& speed = of_degree[crosses ? 1 : 0].speed;
      speed = std::max(speed, slowest);
    }
    for (const BlockKind& kind : of_degree) {
      if (kind.speed > 0) kinds.push_back(kind);
    }
  }
  return kinds;
}

// One way to run a sample.
struct Way {
  double tokens = 0;
  double work_ns = 0;
  double fixed_ns = 0;  // of its micro-batch
  double alone_ns = 0;  // both, at the speed of its block
  double capacity = 0;  // tokens a rank holds
  int degree = 1;
};

// Tokens and pairs of tokens as a degree pads them.
struct Padded {
  double tokens = 0;
  double pairs[2] = {0, 0};  // by kind of layer
};

Padded PadAt(const PlanRequest& request, const Sample& s, int degree,
             const checker::Sharing& sharing) {
  const double d = degree;
  const auto length = static_cast<double>(s.length);
  Padded padded;
  padded.tokens = length;
  padded.pairs[0] = length * length;
  if (sharing.gather > 1) padded.tokens = std::ceil(length / (2 * d)) * 2 * d;
  if (!request.model.is_video()) return padded;
  auto frames = static_cast<double>(s.frames);
  auto patches = static_cast<double>(s.height * s.width);
  double spatial_frames = frames, temporal_patches = patches;
  if (degree > 1 && sharing.mode == SpMode::kSwitch) {
    spatial_frames = std::ceil(frames / d) * d;
    temporal_patches = std::ceil(patches / d) * d;
    padded.tokens =
        std::max(spatial_frames * patches, temporal_patches * frames);
  }
  padded.pairs[0] = spatial_frames * patches * patches;
  padded.pairs[1] = temporal_patches * frames * frames;
  return padded;
}

double ComputeNs(const PlanRequest& request, const Padded& padded, int degree,
                 const LayerCounts& recompute) {
  const TimeModel& time = request.time;
  const bool video = request.model.is_video();
  const LayerTime text = {
      time.linear_ns_per_token, time.quadratic_ns_per_token2,
      time.attention_ns_per_token, time.sharded_attention_ns_per_token};
  const LayerTime kinds[] = {video ? time.spatial : text,
                             video ? time.temporal : LayerTime()};
  double ns = time.head_ns_per_token * padded.tokens / degree;
  for (int k = 0; k < 2; ++k) {
    const LayerTime& kind = kinds[k];
    const int layers = request.model.layers()[k];
    const double again = layers == 0 ? 1 : 1 + recompute[k] / (3.0 * layers);
    const double attention = degree == 1 ? kind.attention_ns_per_token
                                         : kind.sharded_attention_ns_per_token;
    ns += again * ((kind.quadratic_ns_per_token2 * padded.pairs[k] +
                    (kind.linear_ns_per_token - kind.attention_ns_per_token) *
                        padded.tokens) /
                       degree +
                   attention * padded.tokens);
  }
  return ns;
}

// What the collectives add to work and to the fixed cost.
void AddCollectives(const PlanRequest& request, const BlockKind& block,
                    const checker::Sharing& sharing,
                    const LayerCounts& recompute, Way& way) {
  const TimeModel& time = request.time;
  const double d = block.degree;
  const int layers = request.model.layers().total();
  const double passes = 2.0 * layers + recompute.total();
  const bool switches = sharing.mode == SpMode::kSwitch;
  const auto& moved = block.crosses && !time.collective_across.empty()
                          ? time.collective_across
                          : time.collective;
  const auto& gathered = block.crosses && !time.gather_across.empty()
                             ? time.gather_across
                             : time.gather;
  double traffic_ns = 0;
  if (sharing.ulysses > 1 || switches) {
    traffic_ns += EntryOf(moved, block.degree) * way.tokens / d;
  }
  if (sharing.gather > 1) {
    traffic_ns +=
        EntryOf(gathered, block.degree) * way.tokens / sharing.ulysses;
  }
  way.work_ns += traffic_ns * passes / (2.0 * layers);
  const int calls =
      switches ? 1
               : (sharing.ulysses > 1 ? 4 : 0) + (sharing.gather > 1 ? 2 : 0);
  const auto latency_ns =
      static_cast<double>(block.crosses && time.collective_latency_across_ns > 0
                              ? time.collective_latency_across_ns
                              : time.collective_latency_ns);
  way.fixed_ns += calls * passes * latency_ns;
}

std::vector<LayerCounts> ModesOf(const PlanRequest& request) {
  std::vector<LayerCounts> modes = request.options.recompute_choices;
  modes.push_back(request.options.recompute_layers);
  return modes;
}

double CapacityOf(const PlanRequest& request, int degree,
                  const LayerCounts& recompute) {
  MicroBatch batch;
  batch.degree = degree;
  batch.recompute_layers = recompute;
  return static_cast<double>(checker::TokensARankHolds(request, batch));
}

std::vector<Way> WaysOf(const PlanRequest& request,
                        const std::vector<BlockKind>& blocks,
                        const Sample& sample) {
  std::vector<Way> ways;
  for (const BlockKind& block : blocks) {
    const auto sharing = *checker::SharingAt(request.model, block.degree);
    if (sharing.mode == SpMode::kSwitch && block.degree > 1 &&
        (sample.frames < block.degree || sample.patches() < block.degree)) {
      continue;
    }
    const Padded padded = PadAt(request, sample, block.degree, sharing);
    for (const LayerCounts& mode : ModesOf(request)) {
      Way way;
      way.degree = block.degree;
      way.capacity = CapacityOf(request, block.degree, mode);
      way.tokens = padded.tokens;
      if (way.tokens > way.capacity * block.degree) continue;
      way.work_ns = ComputeNs(request, padded, block.degree, mode);
      way.fixed_ns = static_cast<double>(request.time.micro_batch_fixed_ns);
      if (block.degree > 1) {
        AddCollectives(request, block, sharing, mode, way);
      }
      way.alone_ns = (way.work_ns + way.fixed_ns) / block.speed;
      ways.push_back(way);
    }
  }
  return ways;
}

// What rounds cost whatever they hold; nothing under per_step.
struct RoundCost {
  double num_rounds = 0;
  double fixed_ns = 0;  // of one, nominal
  double least_ns = 0;  // of one, at the fastest rank's speed
};

// Whether the step could end within `limit_ns`, for all that is argued here.
bool Possible(const std::vector<std::vector<Way>>& samples, double total_speed,
              const RoundCost& rounds, double limit_ns) {
  const double others_ns =
      std::max(0.0, rounds.num_rounds - 1) * rounds.least_ns;
  double rank_ns = 0;
  for (const auto& ways : samples) {
    double least_ns = INFINITY;
    for (const Way& way : ways) {
      if (way.alone_ns + others_ns > limit_ns) continue;
      const double share_ns =
          (way.fixed_ns - rounds.fixed_ns) * way.tokens / way.capacity;
      least_ns = std::min(least_ns, way.degree * way.work_ns + share_ns);
    }
    rank_ns += least_ns;
  }
  return rounds.num_rounds * rounds.least_ns + rank_ns / total_speed <=
         limit_ns;
}

double LeastPossibleNs(const std::vector<std::vector<Way>>& samples,
                       double total_speed, const RoundCost& rounds) {
  double low = 0, high = 1;
  while (!Possible(samples, total_speed, rounds, high)) high *= 2;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (Possible(samples, total_speed, rounds, middle) ? high : low) = middle;
  }
  return high;
}

}  // namespace

double ReferenceBoundNs(const PlanRequest& request) {
  double total_speed = 0, fastest = 0, tokens = 0, most = 0;
  const int num_ranks = request.cluster.num_ranks();
  for (int rank = 0; rank < num_ranks; ++rank) {
    total_speed += SpeedOf(request, rank);
    fastest = std::max(fastest, SpeedOf(request, rank));
  }
  const std::vector<BlockKind> blocks = BlockKinds(request);
  std::vector<std::vector<Way>> samples;
  for (const Sample& sample : request.samples) {
    samples.push_back(WaysOf(request, blocks, sample));
    tokens += static_cast<double>(sample.length);
  }
  for (const LayerCounts& mode : ModesOf(request)) {
    most = std::max(most, CapacityOf(request, 1, mode));
  }
  // Places of `most` tokens, dealt to the ranks.
  RoundCost rounds;
  rounds.num_rounds = std::ceil(std::ceil(tokens / most) / num_ranks);
  rounds.fixed_ns = static_cast<double>(request.time.micro_batch_fixed_ns);
  rounds.least_ns = rounds.fixed_ns / fastest;
  double bound_ns = std::max(LeastPossibleNs(samples, total_speed, {}),
                             rounds.num_rounds * rounds.least_ns);
  if (request.options.sync == SyncMode::kPerRound) {
    bound_ns =
        std::max(bound_ns, LeastPossibleNs(samples, total_speed, rounds));
  }
  return bound_ns + static_cast<double>(request.time.step_fixed_ns);
}

}  // namespace evenstep::planner::testing
