#include "worker/agent/outbox.h"

#include <algorithm>
#include <utility>

namespace evenstep::agent {

int Outbox::Add(v1::AgentMessage message) {
  int thrown_away = 0;
  while (entries_.size() >= max_messages_) {
    if (num_sent_ > 0) {  // only kept in case the stream breaks
      entries_.pop_front();
      --num_sent_;
    } else {
      ThrowOneAway();
      ++thrown_away;
    }
  }
  entries_.push_back({std::move(message)});
  return thrown_away;
}

const v1::AgentMessage* Outbox::Next() const {
  return num_sent_ < entries_.size() ? &entries_[num_sent_].message : nullptr;
}

void Outbox::MarkSent(absl::Duration now) {
  Entry& entry = entries_[num_sent_];
  if (entry.message.has_logs()) {
    entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(num_sent_));
  } else {
    entry.sent = now;
    ++num_sent_;
  }
  Forget(now);
}

void Outbox::Reconnected(absl::Duration now) {
  Forget(now);
  num_sent_ = 0;
}

void Outbox::Forget(absl::Duration now) {
  while (num_sent_ > 0 && now - entries_.front().sent > kForgetAfter) {
    entries_.pop_front();
    --num_sent_;
  }
}

void Outbox::ThrowOneAway() {
  const auto log =
      std::find_if(entries_.begin(), entries_.end(),
                   [](const Entry& e) { return e.message.has_logs(); });
  entries_.erase(log == entries_.end() ? entries_.begin() : log);
}

}  // namespace evenstep::agent
