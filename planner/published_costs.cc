#include "planner/published_costs.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace evenstep::planner {
namespace {

constexpr double kMiB = 1 << 20;
constexpr double kHeadWidth = 128;

// Layers, width and heads. 13B and 30B: the usual shapes of that size (40 x
// 5120, 60 x 6656), which FlexSP's coefficients belong to.
ModelShape Shape(int num_layers, int width) {
  ModelShape model;
  model.num_layers = num_layers;
  model.width = width;
  model.heads = static_cast<int>(width / kHeadWidth);
  model.kv_heads = model.heads;
  return model;
}

struct FlexSpRow {
  const char* name;
  int num_layers;
  int width;
  double linear_ms;     // per token
  double quadratic_ms;  // per squared token
  double round_ms;
  double token_mib;   // activations of one token, nothing recomputed
  double states_mib;  // above the 7B model's, a rank
};

// FlexSP (ASPLOS 2025), cost model of its released code for GPT models on
// A100-40G nodes of 8 with InfiniBand between them. All-to-all in ms:
// 16 L h s / 2^20 / d / bandwidth(d), with the bandwidths below; alpha is 0.
// Memory: the 7B model holds 6,449 tokens a GPU in its set-up on 64 GPUs; the
// larger ones have 16 bytes a parameter more of it, spread over 64 (ours).
constexpr FlexSpRow kFlexSp[] = {
    {"flexsp-7b-a100", 32, 4096, 0.18396, 5.128e-6, 629.4, 4.480, 0},
    {"flexsp-13b-a100", 40, 5120, 0.30602, 9.285e-6, 1132.6, 4.22, 1431},
    {"flexsp-30b-a100", 60, 6656, 0.80357, 1.543e-5, 2789.4, 3.42, 5484}};

PublishedCosts FlexSp(const FlexSpRow& row) {
  PublishedCosts costs;
  costs.name = row.name;
  costs.source =
      "FlexSP, cost model published with its code: GPT on A100-40G nodes of 8, "
      "InfiniBand between them";
  costs.model = Shape(row.num_layers, row.width);
  costs.time.micro_batch_fixed_ns = std::llround(row.round_ms * 1e6);
  costs.time.linear_ns_per_token = row.linear_ms * 1e6;
  costs.time.quadratic_ns_per_token2 = row.quadratic_ms * 1e6;
  const double unit_ns = 16.0 * row.num_layers * row.width / kMiB * 1e6;
  costs.time.collective = {{2, unit_ns / 119.54}, {4, unit_ns / 104.07},
                           {8, unit_ns / 96.5},   {16, unit_ns / 10.33},
                           {32, unit_ns / 5.94},  {64, unit_ns / 4.87}};
  MemoryModel& memory = costs.memory;
  memory.layer_bytes_per_token =
      std::llround(row.token_mib * kMiB / row.num_layers);
  memory.kept_bytes_per_token = 2 * row.width;
  memory.activation_bytes =
      std::llround((6449 * 4.480 - row.states_mib) * kMiB);
  return costs;
}

struct H200Row {
  const char* name;
  int num_layers;
  int width;
};

// 12 L h^2 parameters: 1.2 and 4.8 billion.
constexpr H200Row kH200[] = {{"h200-1.2b-1d", 24, 2048},
                             {"h200-5b-1d", 24, 4096}};

// H100 compute constants, H200 memory:
// - matrix products: 72 L h^2 FLOPs a token forward and backward, at half of
//   the data sheet's 989 TFLOP/s in bf16 (ours);
// - varlen attention forward of one layer of 64 heads of 128, in ms: 0.023 +
//   5.35e-5 s + 4.78e-8 s^2 (published measurement), by share of the width,
//   three times for the backward's two;
// - collectives: NCCL in an H100 node on 2, 4, 8 GPUs, alpha 51 us, beta 1.49,
//   2.13, 2.45 us a MiB (published, all-gather); across nodes 400 Gb/s a GPU at
//   80 % for the share of the data that leaves the node (ours);
// - memory: 141 GB, 10 % of it kept free, 16 bytes a parameter of states, 34 h
//   bytes a token and layer (published for bf16), the loss over 50,304 words in
//   16 chunks at 12 bytes a logit.
PublishedCosts H200(const H200Row& row) {
  const double width = row.width;
  const double layers = row.num_layers;
  PublishedCosts costs;
  costs.name = row.name;
  costs.source =
      "H100 compute and NCCL measurements as published, H200 memory; the "
      "efficiency of matrix products is an assumption";
  costs.model = Shape(row.num_layers, row.width);
  const double product_ns = 72 * layers * width * width / (0.5 * 989e12) * 1e9;
  const double attention_share = 3 * layers * width / 8192;
  costs.time.linear_ns_per_token = product_ns + attention_share * 53.5;
  costs.time.quadratic_ns_per_token2 = attention_share * 4.78e-2;
  costs.time.micro_batch_fixed_ns = std::llround(3 * layers * 23'000);
  costs.time.collective_latency_ns = 51'000;
  const double bytes = 16 * layers * width;  // 8 L e h, a token
  const double inside_ns = bytes / kMiB * 1e3;
  costs.time.collective = {
      {2, inside_ns * 1.49}, {4, inside_ns * 2.13}, {8, inside_ns * 2.45}};
  for (int degree = 16; degree <= 256; degree *= 2) {
    const double leaving = 1 - 8.0 / degree;
    costs.time.collective.push_back(
        {degree, inside_ns * 2.45 + bytes * leaving / 40});
  }
  MemoryModel& memory = costs.memory;
  const double states = 16 * 12 * layers * width * width;
  memory.activation_bytes = std::llround(0.9 * 141e9 - states);
  memory.layer_bytes_per_token = 34 * row.width;
  memory.kept_bytes_per_token = 2 * row.width;
  memory.head_bytes_per_token = 12 * 50304 / 16;
  return costs;
}

std::vector<PublishedCosts> All() {
  std::vector<PublishedCosts> all;
  for (const FlexSpRow& row : kFlexSp) all.push_back(FlexSp(row));
  for (const H200Row& row : kH200) all.push_back(H200(row));
  return all;
}

}  // namespace

std::vector<std::string> PublishedCostNames() {
  std::vector<std::string> names;
  for (const PublishedCosts& costs : All()) names.push_back(costs.name);
  return names;
}

absl::StatusOr<PublishedCosts> FindPublishedCosts(absl::string_view name) {
  for (PublishedCosts& costs : All()) {
    if (name == costs.name) return std::move(costs);
  }
  return absl::NotFoundError(
      absl::StrCat("no published costs are named '", name,
                   "'; known: ", absl::StrJoin(PublishedCostNames(), ", ")));
}

}  // namespace evenstep::planner
