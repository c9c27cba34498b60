#include "worker/agent/outbox.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace evenstep::agent {
namespace {

// Few and small, and without them a job could neither start nor end.
bool IsAlwaysTaken(const v1::AgentMessage& message) {
  return message.has_ready() || message.has_started() ||
         message.has_abandon() || message.has_exited() || message.has_ended();
}

}  // namespace

absl::StatusOr<int> Outbox::Add(v1::AgentMessage message) {
  const size_t bytes = message.ByteSizeLong();
  int thrown_away = ThrowLogsAway(bytes);
  if (message.has_logs()) {
    if (!entries_.empty() && Exceeds(bytes, limits_.messages, limits_.bytes)) {
      return thrown_away + 1;
    }
    ++num_logs_;
  } else {
    // Sent reports are kept only in case the stream breaks.
    while (num_sent_ > 0 &&
           Exceeds(bytes, limits_.report_messages, limits_.report_bytes)) {
      Erase(0);
    }
    if (Exceeds(bytes, limits_.report_messages, limits_.report_bytes) &&
        !IsAlwaysTaken(message)) {
      return absl::ResourceExhaustedError(absl::StrCat(
          entries_.size(), " reports of ", bytes_,
          " bytes wait for the coordinator, and one of ", bytes,
          " bytes would exceed the bound of ", limits_.report_messages,
          " reports and ", limits_.report_bytes, " bytes"));
    }
  }
  bytes_ += bytes;
  entries_.push_back({std::move(message), bytes});
  return thrown_away;
}

const v1::AgentMessage* Outbox::Next() const {
  return num_sent_ < entries_.size() ? &entries_[num_sent_].message : nullptr;
}

void Outbox::MarkSent(absl::Duration now) {
  entries_[num_sent_++].sent = now;
  Forget(now);
}

void Outbox::Reconnected(absl::Duration now) {
  Forget(now);
  num_sent_ = 0;
}

void Outbox::Forget(absl::Duration now) {
  while (num_sent_ > 0 && now - entries_.front().sent > kForgetAfter) Erase(0);
}

// The oldest first: those that were sent, as it happens.
int Outbox::ThrowLogsAway(size_t bytes) {
  int unsent = 0;
  size_t index = 0;
  while (num_logs_ > 0 && Exceeds(bytes, limits_.messages, limits_.bytes)) {
    while (!entries_[index].message.has_logs()) ++index;
    if (index >= num_sent_) ++unsent;
    Erase(index);
  }
  return unsent;
}

void Outbox::Erase(size_t index) {
  const auto entry = entries_.begin() + static_cast<ptrdiff_t>(index);
  bytes_ -= entry->bytes;
  if (entry->message.has_logs()) --num_logs_;
  if (index < num_sent_) --num_sent_;
  entries_.erase(entry);
}

}  // namespace evenstep::agent
