// The three policies that keep one degree for the whole run: what data-parallel
// and sequence-parallel stacks do today.

#include <algorithm>
#include <functional>
#include <queue>
#include <tuple>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "planner/policies.h"
#include "planner/rounds/room_tree.h"

namespace evenstep::planner {
namespace {

// Samples of one micro-batch, and micro-batches of one replica.
using Bin = std::vector<int>;
using Bins = std::vector<Bin>;

struct Replicas {
  int degree = 1;
  int64_t capacity_tokens = 0;
  std::vector<Bins> bins;  // by replica
};

absl::StatusOr<Replicas> StaticReplicas(const PlanRequest& request) {
  Replicas replicas;
  EVENSTEP_ASSIGN_OR_RETURN(replicas.degree, StaticDegree(request));
  replicas.capacity_tokens =
      replicas.degree *
      TokensPerRank(request, request.options.recompute_layers, replicas.degree);
  replicas.bins.resize(request.cluster.num_ranks() / replicas.degree);
  return replicas;
}

// Global order: every replica's first micro-batch, then every second one, ...
std::vector<Placement> InRounds(Replicas replicas) {
  std::vector<Placement> placements;
  for (size_t round = 0, added = 1; added > 0; ++round) {
    added = 0;
    for (size_t replica = 0; replica < replicas.bins.size(); ++replica) {
      if (round >= replicas.bins[replica].size()) continue;
      const int first_rank = static_cast<int>(replica) * replicas.degree;
      placements.push_back({{first_rank, replicas.degree},
                            std::move(replicas.bins[replica][round]),
                            static_cast<int>(round)});
      ++added;
    }
  }
  return placements;
}

int64_t TokensOf(const PolicyInput& input, int degree, int index) {
  return input.costs.SizeAt(degree, input.request.samples[index]).tokens;
}

// `samples` in the order in which they are placed.
Bins PackFirstFit(const PolicyInput& input, const Replicas& replicas,
                  const std::vector<int>& samples) {
  RoomTree rooms(static_cast<int>(samples.size()));
  Bins bins;
  for (int index : samples) {
    const Room need = {TokensOf(input, replicas.degree, index), 0};
    int bin = rooms.FindFirst(need);
    if (bin < 0) {
      bin = rooms.Open({replicas.capacity_tokens, 0});
      bins.emplace_back();
    }
    rooms.Take(bin, need);
    bins[bin].push_back(index);
  }
  return bins;
}

// Longest processing time: each sample, dearest first, to the replica that has
// the least work so far (then fewest tokens, then lowest number).
std::vector<std::vector<int>> DealByCost(const PolicyInput& input, int degree,
                                         int num_replicas) {
  using Entry = std::tuple<int64_t, int64_t, int>;  // ns, tokens, replica
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> lightest;
  for (int replica = 0; replica < num_replicas; ++replica) {
    lightest.push({0, 0, replica});
  }
  std::vector<std::vector<int>> shares(num_replicas);
  for (int i = 0; i < input.table.num_samples(); ++i) {
    auto [load_ns, tokens, replica] = lightest.top();
    lightest.pop();
    const int index = input.table.request_index(i);
    const BatchSize size =
        input.costs.SizeAt(degree, input.request.samples[index]);
    shares[replica].push_back(index);
    lightest.push({load_ns + input.costs.SampleNs({degree}, size),
                   tokens + size.tokens, replica});
  }
  return shares;
}

}  // namespace

absl::StatusOr<std::vector<Placement>> PlaceStatic(const PolicyInput& input) {
  const PlanRequest& request = input.request;
  EVENSTEP_ASSIGN_OR_RETURN(Replicas replicas, StaticReplicas(request));
  const size_t num_replicas = replicas.bins.size();
  std::vector<int64_t> room(num_replicas, 0);
  for (size_t i = 0; i < request.samples.size(); ++i) {
    const size_t replica = i % num_replicas;
    const int64_t tokens =
        TokensOf(input, replicas.degree, static_cast<int>(i));
    Bins& bins = replicas.bins[replica];
    if (bins.empty() || room[replica] < tokens) {
      bins.emplace_back();
      room[replica] = replicas.capacity_tokens;
    }
    bins.back().push_back(static_cast<int>(i));
    room[replica] -= tokens;
  }
  return InRounds(std::move(replicas));
}

absl::StatusOr<std::vector<Placement>> PlaceBalanced(const PolicyInput& input) {
  EVENSTEP_ASSIGN_OR_RETURN(Replicas replicas, StaticReplicas(input.request));
  const auto shares = DealByCost(input, replicas.degree,
                                 static_cast<int>(replicas.bins.size()));
  for (size_t replica = 0; replica < shares.size(); ++replica) {
    replicas.bins[replica] = PackFirstFit(input, replicas, shares[replica]);
  }
  return InRounds(std::move(replicas));
}

absl::StatusOr<std::vector<Placement>> PlacePacked(const PolicyInput& input) {
  EVENSTEP_ASSIGN_OR_RETURN(Replicas replicas, StaticReplicas(input.request));
  std::vector<int> samples(input.table.num_samples());
  for (int i = 0; i < input.table.num_samples(); ++i) {
    samples[i] = input.table.request_index(i);
  }
  Bins bins = PackFirstFit(input, replicas, samples);
  for (size_t bin = 0; bin < bins.size(); ++bin) {
    replicas.bins[bin % replicas.bins.size()].push_back(std::move(bins[bin]));
  }
  return InRounds(std::move(replicas));
}

}  // namespace evenstep::planner
