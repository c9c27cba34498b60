#ifndef EVENSTEP_PLANNER_MODEL_H_
#define EVENSTEP_PLANNER_MODEL_H_

// A model as the planner sees it: its shape, what its time is made of, and what
// its memory is made of. Part of PlanRequest (request.h); built-in ones come
// from published_costs.h. Plain data without invariants of its own;
// ValidateRequest (validate.h) says what is legal.
//
// A text model has one kind of layer, `block`. A video model has two: `spatial`
// layers attend within every frame, `temporal` ones across the frames of every
// patch. Each kind has its own costs, memory and recompute. A request is about
// one model, so it reads either the text fields or the video fields.

#include <array>
#include <compare>
#include <cstdint>
#include <vector>

namespace evenstep::planner {

inline constexpr int kMaxLayerKinds = 2;

// Numbers of layers by kind: {block}, or {spatial, temporal}.
struct LayerCounts {
  std::array<int, kMaxLayerKinds> of_kind{};

  LayerCounts() = default;
  // A text model's counts are one number, and convert from one. For a video
  // model give both: one number means that many spatial layers and no temporal
  // ones.
  LayerCounts(int first, int second = 0)  // NOLINT(google-explicit-constructor)
      : of_kind{first, second} {}

  int operator[](int kind) const { return of_kind[kind]; }
  int total() const { return of_kind[0] + of_kind[1]; }
  friend bool operator==(const LayerCounts&, const LayerCounts&) = default;
  friend auto operator<=>(const LayerCounts&, const LayerCounts&) = default;
};

// How the ranks of a group share a sequence.
//   ulysses    all-to-all to shards by head around attention
//   kv_gather  queries stay; K and V are gathered (zigzag shards)
//   both       ulysses within parts of the group, kv_gather across the parts
//   switch     video only: shards by frame around spatial layers, by patch
//              around temporal ones; one all-to-all between the two
enum class SpMode { kUlysses, kKvGather, kBoth, kSwitch };

struct ModelShape {
  int num_layers = 1;  // text
  int width = 0;
  int heads = 1;
  int kv_heads = 1;
  // Degrees allowed whatever the heads say (published set-ups), by ulysses for
  // text; empty: by heads and modes.
  std::vector<int> forced_degrees;
  // Allowed. A degree takes the first of ulysses, kv_gather, both that can run
  // it. Empty: ulysses for text, switch for video.
  std::vector<SpMode> sp_modes;
  // K and V are repeated per query head where their own heads do not divide.
  bool expand_kv_heads = false;
  int spatial_layers = 0;   // video, if either is not 0
  int temporal_layers = 0;  // video
  // Video: wider degrees than this do not switch. 0: no limit.
  int max_switch_degree = 0;

  bool is_video() const { return spatial_layers > 0 || temporal_layers > 0; }
  int num_kinds() const { return is_video() ? 2 : 1; }
  LayerCounts layers() const {
    return is_video() ? LayerCounts(spatial_layers, temporal_layers)
                      : LayerCounts(num_layers);
  }

  friend bool operator==(const ModelShape&, const ModelShape&) = default;
};

// Of all layers of one kind, forward and backward, at degree 1.
struct LayerTime {
  double linear_ns_per_token = 0;
  // Per pair of tokens that attend to each other: of frames x patches tokens
  // frames x patches^2 in spatial layers, patches x frames^2 in temporal ones.
  double quadratic_ns_per_token2 = 0;
  // Attention kernels that run badly on short shards: this part of the linear
  // cost is not divided by the degree; from degree 2 on, the second number
  // stands in its place, in full.
  double attention_ns_per_token = 0;
  double sharded_attention_ns_per_token = 0;

  friend bool operator==(const LayerTime&, const LayerTime&) = default;
};

// By kind of layer, as ModelShape::layers counts them.
using LayerTimes = std::array<LayerTime, kMaxLayerKinds>;

// Seconds-of-work model of one micro-batch with S padded tokens on degree d;
// the share r_k of the layers of kind k is recomputed, and the share r of all
// layers:
//   t = c0 + sum over kinds k of (1 + r_k / 3)
//              ((a2_k units_k + (a1_k - b_k) S) / d + (b_k, or b'_k if d > 1)
//              S)
//     + head S / d + comm
// where units_k of a text model is the sum of squared lengths. On degree 1 comm
// is 0. Else, with L layers of which n are recomputed, on u ranks of ulysses
// times c of kv_gather (u c = d):
//   comm = (2 L + n) calls alpha + (1 + r/2) S (beta(d)/d, and gamma(d)/u)
// calls a layer and pass: 4 of ulysses and 2 of kv_gather, or 1 of switch;
// beta(d) is the time per token and whole model of the all-to-alls of one
// forward and backward, gamma(d) the same of the gathers of K and V.
// What takes a new cost: a field here, a line in costs/cost_fields.h, its
// arithmetic in costs/cost_model.h and costs/cost_terms.h, and once more,
// written independently, in proof/checker_formulas.cc.
//
// A request whose costs are all 0 is refused: it was left out, and every plan
// would be as good as the next.
struct TimeModel {
  int64_t micro_batch_fixed_ns = 0;    // c0
  double linear_ns_per_token = 0;      // a1, text
  double quadratic_ns_per_token2 = 0;  // a2, text
  int64_t collective_latency_ns = 0;   // alpha, per collective
  // By degree; a degree that is absent takes the next larger entry, or the last
  // one. Empty: no cost.
  struct CollectiveCost {
    int degree = 0;
    double ns_per_token = 0;

    friend bool operator==(const CollectiveCost&,
                           const CollectiveCost&) = default;
  };
  std::vector<CollectiveCost> collective = {};  // beta
  int64_t step_fixed_ns = 0;  // gradient reduction and optimizer, once a step
  // As in LayerTime, text.
  double attention_ns_per_token = 0;          // b
  double sharded_attention_ns_per_token = 0;  // b'
  double head_ns_per_token = 0;               // never recomputed
  LayerTime spatial = {};                     // video
  LayerTime temporal = {};                    // video
  std::vector<CollectiveCost> gather = {};    // gamma
  // The same for blocks that do not lie within one node. Empty, or 0: no
  // different.
  std::vector<CollectiveCost> collective_across = {};
  std::vector<CollectiveCost> gather_across = {};
  int64_t collective_latency_across_ns = 0;

  // Whether the costs are of a video model.
  bool is_video() const {
    return spatial != LayerTime() || temporal != LayerTime();
  }
  // The costs of the layers of a text or of a video model.
  LayerTimes layers(bool video) const {
    if (video) return {spatial, temporal};
    return {LayerTime{linear_ns_per_token, quadratic_ns_per_token2,
                      attention_ns_per_token, sharded_attention_ns_per_token}};
  }
  void set_layers(bool video, const LayerTimes& times) {
    if (video) {
      spatial = times[0];
      temporal = times[1];
      return;
    }
    linear_ns_per_token = times[0].linear_ns_per_token;
    quadratic_ns_per_token2 = times[0].quadratic_ns_per_token2;
    attention_ns_per_token = times[0].attention_ns_per_token;
    sharded_attention_ns_per_token = times[0].sharded_attention_ns_per_token;
  }

  friend bool operator==(const TimeModel&, const TimeModel&) = default;
};

struct LayerMemory {
  int64_t layer_bytes_per_token = 0;  // of a layer that is not recomputed
  int64_t kept_bytes_per_token = 0;   // input of a recomputed layer
  // Gradients beside a layer's activations while its backward runs.
  int64_t backward_bytes_per_token = 0;

  friend bool operator==(const LayerMemory&, const LayerMemory&) = default;
};

// What bounds the padded tokens / degree of every micro-batch. tokens_per_rank,
// if not 0, is that bound, whatever is recomputed or gathered. Else it is
// activation_bytes over the most that a rank holds at once for each own token,
// with n_k of L_k layers recomputed, on c ranks of kv_gather. Kinds take turns,
// spatial layers first, and the first n_k of a kind are recomputed. Let
// held(k, m) be the sum of kept_k or layer_k of the first m layers of kind k
// and of all layers before the last of these. Where Ulysses copies K/V heads
// (costs/degrees.h), every layer_k of text includes a kv_head for each copy.
// Then
//   grad_k = max(backward_k, c > 1 ? c gathered : 0), gathered with a group's
//            copies of K/V heads counted in
//   most   = the largest of
//              held by all + head                   when backward begins
//              held(k, L_k) + grad_k, if n_k < L_k  at the last layer
//              held(k, n_k) + layer_k + grad_k, if n_k > 0
// The last is the backward of the last recomputed layer of a kind, which runs
// again when those after it are gone.
struct MemoryModel {
  int64_t tokens_per_rank = 0;
  // Of a rank, free for activations: after states, buffers and safety margin.
  int64_t activation_bytes = 0;
  int64_t layer_bytes_per_token = 0;     // text
  int64_t kept_bytes_per_token = 0;      // text
  int64_t backward_bytes_per_token = 0;  // text
  int64_t head_bytes_per_token = 0;      // logits, and what else no layer holds
  // K and V of all heads, of one layer, with their gradients.
  int64_t gathered_bytes_per_token = 0;
  int64_t kv_head_bytes_per_token = 0;  // text: K and V of one head of a layer
  LayerMemory spatial = {};             // video
  LayerMemory temporal = {};            // video

  friend bool operator==(const MemoryModel&, const MemoryModel&) = default;
};

}  // namespace evenstep::planner

#endif  // EVENSTEP_PLANNER_MODEL_H_
