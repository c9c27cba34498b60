#include "worker/trainer/job/fault.h"

#include <ATen/ATen.h>

#include <cstdlib>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "base/log.h"
#include "base/status_macros.h"

namespace evenstep::trainer {
namespace {

constexpr absl::Duration kSlowSleep = absl::Milliseconds(300);

std::optional<FaultKind> KindOf(absl::string_view name) {
  if (name == "not_finite") return FaultKind::kNotFinite;
  if (name == "exit") return FaultKind::kExit;
  if (name == "hang") return FaultKind::kHang;
  if (name == "data_error") return FaultKind::kDataError;
  if (name == "slow") return FaultKind::kSlow;
  return std::nullopt;
}

absl::StatusOr<Fault> ParseFault(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ':');
  Fault fault;
  if (parts.size() == 3) {
    const std::optional<FaultKind> kind = KindOf(parts[0]);
    absl::string_view rank = parts[1];
    absl::string_view step = parts[2];
    if (kind.has_value() && absl::ConsumePrefix(&rank, "rank=") &&
        absl::ConsumePrefix(&step, "step=") &&
        absl::SimpleAtoi(rank, &fault.rank) &&
        absl::SimpleAtoi(step, &fault.step)) {
      fault.kind = *kind;
      return fault;
    }
  }
  return absl::InvalidArgumentError(absl::StrCat(
      kFaultVariable, ": '", text,
      "' is not KIND:rank=R:step=S with a KIND of not_finite, exit, hang, "
      "data_error or slow"));
}

}  // namespace

absl::StatusOr<std::vector<Fault>> ParseFaults(absl::string_view text) {
  std::vector<Fault> faults;
  if (text.empty()) return faults;
  for (absl::string_view part : absl::StrSplit(text, ',')) {
    EVENSTEP_ASSIGN_OR_RETURN(Fault fault, ParseFault(part));
    faults.push_back(fault);
  }
  return faults;
}

FaultPlan::FaultPlan(const std::vector<Fault>& faults, int rank) {
  for (const Fault& fault : faults) {
    if (fault.rank == rank) faults_.push_back(fault);
  }
}

bool FaultPlan::Has(FaultKind kind, int64_t step) const {
  for (const Fault& fault : faults_) {
    if (fault.kind == kind && fault.step == step) return true;
  }
  return false;
}

void FaultPlan::BeforeStep(int64_t step) const {
  if (Has(FaultKind::kExit, step)) std::_Exit(kExitPlantedFault);
  if (Has(FaultKind::kSlow, step)) absl::SleepFor(kSlowSleep);
  while (Has(FaultKind::kHang, step)) absl::SleepFor(absl::Seconds(1));
}

NotFiniteModel::NotFiniteModel(std::unique_ptr<Model> model)
    : model_(std::move(model)) {}

const std::vector<NamedParameter>& NotFiniteModel::parameters() const {
  return model_->parameters();
}

std::vector<LayerKind> NotFiniteModel::layers() const {
  return model_->layers();
}

at::Tensor NotFiniteModel::Forward(const PackedShard& shard,
                                   SequenceAttention& attention,
                                   const ForwardOptions& options) {
  at::Tensor loss = model_->Forward(shard, attention, options);
  if (!armed_) return loss;
  return loss * std::numeric_limits<double>::quiet_NaN();
}

}  // namespace evenstep::trainer
