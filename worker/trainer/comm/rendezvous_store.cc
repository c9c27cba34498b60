#include "worker/trainer/comm/rendezvous_store.h"

#include "absl/strings/str_cat.h"

namespace evenstep::trainer {

absl::Status MemoryRendezvousStore::Set(const std::string& key,
                                        const std::string& value) {
  absl::MutexLock lock(&mutex_);
  const auto [at, added] = values_.emplace(key, value);
  if (!added && at->second != value) {
    return absl::AlreadyExistsError(
        absl::StrCat("rendezvous key ", key, " has another value"));
  }
  changed_.NotifyAll();
  return absl::OkStatus();
}

absl::StatusOr<std::string> MemoryRendezvousStore::Get(const std::string& key,
                                                       absl::Duration wait) {
  absl::MutexLock lock(&mutex_);
  const auto present = [this, &key]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return values_.contains(key) || !end_.ok();
  };
  const bool in_time = changed_.WaitFor(mutex_, wait, present);
  if (!end_.ok()) return end_;
  if (!in_time) {
    return absl::DeadlineExceededError(
        absl::StrCat("rendezvous key ", key, " did not appear within ",
                     absl::FormatDuration(wait)));
  }
  return values_.at(key);
}

void MemoryRendezvousStore::End(const absl::Status& why) {
  absl::MutexLock lock(&mutex_);
  if (end_.ok()) end_ = why;
  changed_.NotifyAll();
}

absl::Status MemoryRendezvousStore::end() const {
  absl::MutexLock lock(&mutex_);
  return end_;
}

}  // namespace evenstep::trainer
