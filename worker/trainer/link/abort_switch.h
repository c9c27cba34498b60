#ifndef EVENSTEP_WORKER_TRAINER_LINK_ABORT_SWITCH_H_
#define EVENSTEP_WORKER_TRAINER_LINK_ABORT_SWITCH_H_

// Ends blocked collectives from another thread. The main thread attaches the
// generation's groups once they exist and detaches them before they go; the
// socket's reader fires. Firing before attaching aborts the groups as soon as
// they are attached. An abort may block: it runs outside the lock, and keeps
// the groups alive until it is over. Thread-safe.

#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "worker/trainer/comm/group_tree.h"

namespace evenstep::trainer {

class AbortSwitch {
 public:
  void Attach(std::shared_ptr<const GroupTree> groups) {
    {
      absl::MutexLock lock(&mutex_);
      groups_ = std::move(groups);
    }
    AbortIfFired();
  }
  void Detach() {
    absl::MutexLock lock(&mutex_);
    groups_ = nullptr;
  }
  void Fire(absl::string_view why) {
    {
      absl::MutexLock lock(&mutex_);
      if (!fired_) why_ = std::string(why);
      fired_ = true;
    }
    AbortIfFired();
  }
  bool fired() const {
    absl::MutexLock lock(&mutex_);
    return fired_;
  }

 private:
  void AbortIfFired() {
    std::shared_ptr<const GroupTree> groups;
    std::string why;
    {
      absl::MutexLock lock(&mutex_);
      if (fired_) groups = groups_;
      why = why_;
    }
    if (groups != nullptr) groups->Abort(why);
  }

  mutable absl::Mutex mutex_;
  std::shared_ptr<const GroupTree> groups_ ABSL_GUARDED_BY(mutex_);
  bool fired_ ABSL_GUARDED_BY(mutex_) = false;
  std::string why_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_LINK_ABORT_SWITCH_H_
