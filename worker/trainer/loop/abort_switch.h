#ifndef EVENSTEP_WORKER_TRAINER_LOOP_ABORT_SWITCH_H_
#define EVENSTEP_WORKER_TRAINER_LOOP_ABORT_SWITCH_H_

// Ends blocked collectives from another thread. The main thread attaches the
// generation's groups once they exist and detaches them before they go; the
// socket's reader fires. Firing before attaching aborts the groups as soon as
// they are attached. Thread-safe.

#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "worker/trainer/comm/group_tree.h"

namespace evenstep::trainer {

class AbortSwitch {
 public:
  void Attach(const GroupTree* groups) {
    absl::MutexLock lock(&mutex_);
    groups_ = groups;
    if (fired_) groups_->Abort(why_);
  }
  void Detach() {
    absl::MutexLock lock(&mutex_);
    groups_ = nullptr;
  }
  void Fire(absl::string_view why) {
    absl::MutexLock lock(&mutex_);
    if (!fired_) why_ = std::string(why);
    fired_ = true;
    if (groups_ != nullptr) groups_->Abort(why_);
  }
  bool fired() const {
    absl::MutexLock lock(&mutex_);
    return fired_;
  }

 private:
  mutable absl::Mutex mutex_;
  const GroupTree* groups_ ABSL_GUARDED_BY(mutex_) = nullptr;
  bool fired_ ABSL_GUARDED_BY(mutex_) = false;
  std::string why_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_LOOP_ABORT_SWITCH_H_
