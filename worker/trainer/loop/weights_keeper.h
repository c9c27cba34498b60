#ifndef EVENSTEP_WORKER_TRAINER_LOOP_WEIGHTS_KEEPER_H_
#define EVENSTEP_WORKER_TRAINER_LOOP_WEIGHTS_KEEPER_H_

// Writes a rank's weights, once, however its run ends. Knows how many steps the
// parameters were trained for and whether they are whole: the main thread
// changes them only through the keeper, so another thread may write those of
// the last whole step while the main thread is in the middle of the next one.
// The reduction is a step's commit point: every rank that has made its update
// has the same parameters, to the last bit. Thread-safe.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "data/safetensors.h"
#include "evenstep/trainer/model.h"
#include "evenstep/trainer/v1/trainer.pb.h"
#include "worker/trainer/job/trainer_setup.h"

namespace evenstep::trainer {

struct KeptWeights {
  std::string path;
  int64_t steps = 0;  // that they were trained for
  std::string note;   // why they are not in the job's folder; else empty
};

// Whether the disk of the job's folder, and the process's limit of file sizes,
// have room for the weights now. FailureReason::kStorageFull, with the numbers.
// OK where the disk does not say.
absl::Status CheckRoomForWeights(const TrainerSetup& setup,
                                 const std::vector<NamedParameter>& parameters);

// Fills in where weights are and what they are of, or why there are none.
void FillWeights(const absl::StatusOr<KeptWeights>& kept, v1::Finished* to);

class WeightsKeeper {
 public:
  struct Parameters {
    int64_t steps = 0;   // that they were trained for
    bool whole = false;  // all of them are of that step
  };

  // The rank begins to train these parameters. They share their memory with
  // the caller's and outlive the engine. Once.
  void Begin(const TrainerSetup& setup, std::vector<NamedParameter> parameters,
             data::WriteProgress on_progress) ABSL_LOCKS_EXCLUDED(mutex_);

  // Runs `change`, which alone may change parameters; nothing is written
  // meanwhile. ABORTED: the weights have been written, and nothing may change.
  absl::Status Change(absl::FunctionRef<Parameters()> change)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Writes weights and model configuration. Waits for a change that runs.
  // Parameters stay as they are from then on; further calls return the same.
  // Weights of an earlier attempt that has done more steps get another name,
  // "model.after-STEPS-steps.safetensors"; others are replaced. The job's
  // folder is made again if it is gone. Where it does not take them, they go to
  // a new folder in TMPDIR (or /tmp), and the note says why.
  // FAILED_PRECONDITION: no step is done, or the last update is not whole.
  // FailureReason::kStorageFull: no room there nor in TMPDIR.
  absl::StatusOr<KeptWeights> Keep() ABSL_LOCKS_EXCLUDED(mutex_);

  // Steps that the parameters were trained for. Waits for a change that runs.
  int64_t steps() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return state_.steps;
  }

 private:
  absl::StatusOr<KeptWeights> Write() const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<KeptWeights> WriteInto(const std::string& folder) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<KeptWeights> WriteElsewhere(const absl::Status& why) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  TrainerSetup setup_ ABSL_GUARDED_BY(mutex_);
  std::vector<NamedParameter> parameters_ ABSL_GUARDED_BY(mutex_);
  data::WriteProgress on_progress_ ABSL_GUARDED_BY(mutex_);
  Parameters state_ ABSL_GUARDED_BY(mutex_) = {0, true};
  std::optional<absl::StatusOr<KeptWeights>> kept_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_LOOP_WEIGHTS_KEEPER_H_
