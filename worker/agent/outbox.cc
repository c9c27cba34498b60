#include "worker/agent/outbox.h"

#include <algorithm>
#include <utility>

namespace evenstep::agent {

int Outbox::Add(v1::AgentMessage message) {
  const size_t bytes = message.ByteSizeLong();
  int thrown_away = 0;
  while (!entries_.empty() &&
         (entries_.size() >= max_messages_ || bytes_ + bytes > max_bytes_)) {
    if (num_sent_ > 0) {  // only kept in case the stream breaks
      Erase(entries_.begin());
      --num_sent_;
    } else {
      ThrowOneAway();
      ++thrown_away;
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
  while (num_sent_ > 0 && now - entries_.front().sent > kForgetAfter) {
    Erase(entries_.begin());
    --num_sent_;
  }
}

void Outbox::ThrowOneAway() {
  const auto log =
      std::find_if(entries_.begin(), entries_.end(),
                   [](const Entry& e) { return e.message.has_logs(); });
  Erase(log == entries_.end() ? entries_.begin() : log);
}

void Outbox::Erase(std::deque<Entry>::iterator entry) {
  bytes_ -= entry->bytes;
  entries_.erase(entry);
}

}  // namespace evenstep::agent
