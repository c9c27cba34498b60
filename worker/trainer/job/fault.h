#ifndef EVENSTEP_WORKER_TRAINER_JOB_FAULT_H_
#define EVENSTEP_WORKER_TRAINER_JOB_FAULT_H_

// Faults that end-to-end tests plant in a real trainer. Test-only: read once
// from the environment, logged as a warning when present, and without effect on
// any other rank or step.
//
//   EVENSTEP_TRAINER_FAULT=KIND:rank=R:step=S[,KIND:rank=R:step=S...]
//
//   not_finite   the loss of the rank's micro-batches is not a number
//   exit         the process ends at once with exit code 99, saying nothing
//   hang         the rank never enters the step's collectives
//   data_error   the step's samples cannot be read
//   slow         the rank sleeps 300 ms before the step

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "evenstep/trainer/model.h"

namespace evenstep::trainer {

inline constexpr char kFaultVariable[] = "EVENSTEP_TRAINER_FAULT";
inline constexpr int kExitPlantedFault = 99;

enum class FaultKind { kNotFinite, kExit, kHang, kDataError, kSlow };

struct Fault {
  FaultKind kind = FaultKind::kExit;
  int rank = 0;
  int64_t step = 0;
};

// Empty text: no faults. INVALID_ARGUMENT with the part that is wrong.
absl::StatusOr<std::vector<Fault>> ParseFaults(absl::string_view text);

// The faults of one rank. Main thread only.
class FaultPlan {
 public:
  FaultPlan() = default;
  FaultPlan(const std::vector<Fault>& faults, int rank);

  bool empty() const { return faults_.empty(); }
  bool Has(FaultKind kind, int64_t step) const;
  // Exits, hangs or sleeps if the step says so.
  void BeforeStep(int64_t step) const;

 private:
  std::vector<Fault> faults_;
};

// Passes everything on, but for an armed pass multiplies the loss by NaN: the
// gradient then has what a real overflow leaves.
class NotFiniteModel : public Model {
 public:
  explicit NotFiniteModel(std::unique_ptr<Model> model);
  void set_armed(bool armed) { armed_ = armed; }

  const std::vector<NamedParameter>& parameters() const override;
  std::vector<LayerKind> layers() const override;
  at::Tensor Forward(const PackedShard& shard, SequenceAttention& attention,
                     const ForwardOptions& options) override;

 private:
  const std::unique_ptr<Model> model_;
  bool armed_ = false;
};

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_JOB_FAULT_H_
