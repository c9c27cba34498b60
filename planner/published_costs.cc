#include "planner/published_costs.h"

#include "absl/strings/str_cat.h"

namespace evenstep::planner {
namespace {

// FlexSP (ASPLOS 2025), cost model of its released code for GPT-7B on
// A100-40G: 32 layers, hidden size 4096. Linear 0.18396 ms a token, quadratic
// 5.128e-6 ms a squared token, 629.4 ms for each ZeRO-3 round. All-to-all in
// ms: 16 L h s / 2^20 / d / bandwidth(d), with the bandwidths below; so beta(d)
// is 16 * 32 * 4096 / 2^20 = 2 ms divided by the bandwidth. alpha is 0.
PublishedCosts FlexSp7bA100() {
  PublishedCosts costs;
  costs.name = "flexsp-7b-a100";
  costs.source =
      "FlexSP, cost model published with its code: GPT-7B on A100-40G nodes of "
      "8, InfiniBand between them";
  costs.model.num_layers = 32;
  costs.model.width = 4096;
  costs.model.heads = 32;
  costs.model.kv_heads = 32;
  costs.time.micro_batch_fixed_ns = 629'400'000;
  costs.time.linear_ns_per_token = 183'960;
  costs.time.quadratic_ns_per_token2 = 5.128;
  constexpr double kNsAtUnitBandwidth = 2e6;
  costs.time.collective = {
      {2, kNsAtUnitBandwidth / 119.54}, {4, kNsAtUnitBandwidth / 104.07},
      {8, kNsAtUnitBandwidth / 96.5},   {16, kNsAtUnitBandwidth / 10.33},
      {32, kNsAtUnitBandwidth / 5.94},  {64, kNsAtUnitBandwidth / 4.87}};
  return costs;
}

}  // namespace

absl::StatusOr<PublishedCosts> FindPublishedCosts(absl::string_view name) {
  PublishedCosts costs = FlexSp7bA100();
  if (name == costs.name) return costs;
  return absl::NotFoundError(absl::StrCat("no published costs are named '",
                                          name, "'; known: ", costs.name));
}

}  // namespace evenstep::planner
