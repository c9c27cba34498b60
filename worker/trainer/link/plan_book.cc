#include "worker/trainer/link/plan_book.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace evenstep::trainer {

void PlanBook::Begin(int64_t generation, int world) {
  absl::MutexLock lock(&mutex_);
  generation_ = generation;
  world_ = world;
  plans_.clear();
  refusal_ = absl::OkStatus();
}

absl::Status PlanBook::Put(wire::StepPlan plan) {
  absl::MutexLock lock(&mutex_);
  const int64_t generation = plan.generation;
  const bool committed = plan.step < first_step_;
  const absl::Status status = Accept(std::move(plan));
  if (status.ok()) return status;
  // What is committed needs no plan.
  if (committed) {
    ++num_refused_;
  } else {
    CountRefused(generation, status);
  }
  return status;
}

void PlanBook::Refuse(int64_t generation, const absl::Status& why) {
  absl::MutexLock lock(&mutex_);
  CountRefused(generation, why);
}

absl::Status PlanBook::refusal() const {
  absl::MutexLock lock(&mutex_);
  return refusal_;
}

void PlanBook::CountRefused(int64_t generation, const absl::Status& why) {
  ++num_refused_;
  if (generation == generation_ && refusal_.ok()) refusal_ = why;
}

absl::Status PlanBook::Accept(wire::StepPlan plan) {
  if (plan.generation != generation_) {
    return absl::FailedPreconditionError(
        absl::StrCat("plan of step ", plan.step, " is of generation ",
                     plan.generation, ", this rank runs ", generation_));
  }
  if (plan.world != world_) {
    return absl::InvalidArgumentError(
        absl::StrCat("plan of step ", plan.step, " is for ", plan.world,
                     " ranks, the job has ", world_));
  }
  if (plan.step < first_step_) {
    return absl::FailedPreconditionError(
        absl::StrCat("plan of step ", plan.step, " comes after step ",
                     first_step_ - 1, " was committed"));
  }
  const auto held = plans_.find(plan.step);
  if (held == plans_.end()) {
    const int64_t step = plan.step;
    plans_[step] = std::make_shared<const wire::StepPlan>(std::move(plan));
    return absl::OkStatus();
  }
  if (held->second->digest == plan.digest) return absl::OkStatus();
  return absl::AlreadyExistsError(
      absl::StrCat("a second plan of step ", plan.step, " has digest ",
                   absl::Hex(plan.digest), ", the first one ",
                   absl::Hex(held->second->digest)));
}

std::shared_ptr<const wire::StepPlan> PlanBook::Get(int64_t step) const {
  absl::MutexLock lock(&mutex_);
  const auto it = plans_.find(step);
  return it == plans_.end() ? nullptr : it->second;
}

int64_t PlanBook::NewestRunnable(int64_t next) const {
  absl::MutexLock lock(&mutex_);
  int64_t step = next;
  for (auto it = plans_.find(next); it != plans_.end() && it->first == step;
       ++it) {
    ++step;
  }
  return step - 1;
}

void PlanBook::DropBefore(int64_t step) {
  absl::MutexLock lock(&mutex_);
  first_step_ = step;
  plans_.erase(plans_.begin(), plans_.lower_bound(step));
}

int64_t PlanBook::num_refused() const {
  absl::MutexLock lock(&mutex_);
  return num_refused_;
}

}  // namespace evenstep::trainer
