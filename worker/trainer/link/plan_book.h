#ifndef EVENSTEP_WORKER_TRAINER_LINK_PLAN_BOOK_H_
#define EVENSTEP_WORKER_TRAINER_LINK_PLAN_BOOK_H_

// The plans that a rank holds. The socket's reader puts them in as they arrive,
// the step loop asks at each gate how far it could go. A plan of another
// generation, of another world or with a digest that does not match is refused
// and counted; it never runs (law 5). A refused plan of this generation will
// not come again, so the gate fails by it. Thread-safe.

#include <cstdint>
#include <map>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "wire/step_plan.h"

namespace evenstep::trainer {

class PlanBook {
 public:
  // Before this, every plan is refused with FAILED_PRECONDITION.
  void Begin(int64_t generation, int world) ABSL_LOCKS_EXCLUDED(mutex_);

  // Takes a plan that wire::FromProto has checked. FAILED_PRECONDITION: of
  // another generation or a step that was dropped; INVALID_ARGUMENT: of another
  // world; ALREADY_EXISTS: another plan of the step is held (the same plan
  // again is fine).
  absl::Status Put(wire::StepPlan plan) ABSL_LOCKS_EXCLUDED(mutex_);

  // Notes a plan that could not even be read.
  void Refuse(int64_t generation, const absl::Status& why)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Why a plan of this generation was refused, the first one; OK: none was. A
  // late copy of a committed step's plan does not count.
  absl::Status refusal() const ABSL_LOCKS_EXCLUDED(mutex_);

  // The plan of a step, or null.
  std::shared_ptr<const wire::StepPlan> Get(int64_t step) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Newest step s such that all plans of [next, s] are held; next - 1 if none.
  int64_t NewestRunnable(int64_t next) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Forgets all plans before `step`: they are committed.
  void DropBefore(int64_t step) ABSL_LOCKS_EXCLUDED(mutex_);

  int64_t num_refused() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  absl::Status Accept(wire::StepPlan plan)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CountRefused(int64_t generation, const absl::Status& why)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  int64_t generation_ ABSL_GUARDED_BY(mutex_) = -1;
  int world_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t first_step_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t num_refused_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status refusal_ ABSL_GUARDED_BY(mutex_);
  std::map<int64_t, std::shared_ptr<const wire::StepPlan>> plans_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_LINK_PLAN_BOOK_H_
