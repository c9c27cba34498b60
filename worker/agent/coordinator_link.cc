#include "worker/agent/coordinator_link.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/byte_budget.h"
#include "base/clock.h"
#include "base/log.h"
#include "rpc/transport.h"

namespace evenstep::agent {
namespace {

constexpr BackoffOptions kReconnect{.first = absl::Milliseconds(100),
                                    .cap = absl::Seconds(2)};
// A coordinator that accepts a stream and then says nothing.
constexpr absl::Duration kWelcomeTimeout = absl::Seconds(10);

// Of messages that wait for the loop; beyond it the stream is opened again.
constexpr int64_t kMaxWaitingBytes = 64 << 20;

// An agent whose name is taken asks so often and so seldom: a restarted one may
// have to wait until the lease of its predecessor has run out.
constexpr int kMaxRefusals = 8;
constexpr absl::Duration kRefusedRetry = absl::Seconds(5);

absl::Duration Now() { return RealClock().Monotonic(); }

}  // namespace

CoordinatorLink::CoordinatorLink(std::shared_ptr<grpc::Channel> channel,
                                 EventLoop& loop, AgentMetrics& metrics,
                                 LinkCallbacks callbacks)
    : loop_(loop),
      metrics_(metrics),
      callbacks_(std::move(callbacks)),
      stub_(std::move(channel)),
      backoff_(kReconnect, RandomUniform()),
      lost_at_(Now()) {}

void CoordinatorLink::Start() {
  WatchBudget();
  Connect();
}

absl::Status CoordinatorLink::Send(v1::AgentMessage message) {
  const size_t bytes = message.ByteSizeLong();
  if (bytes > rpc::kMaxMessageBytes) {
    // The stream would break on it, and break again after every reconnect.
    metrics_.MessagesDropped("too_large").Increment();
    return absl::ResourceExhaustedError(absl::StrCat(
        "a message to the coordinator has ", bytes, " bytes, and at most ",
        rpc::kMaxMessageBytes, " are allowed"));
  }
  const absl::StatusOr<int> thrown_away = outbox_.Add(std::move(message));
  if (!thrown_away.ok()) {
    metrics_.MessagesDropped("queue_full").Increment();
    return thrown_away.status();
  }
  if (*thrown_away > 0) {
    metrics_.MessagesDropped("queue_full").Increment(*thrown_away);
  }
  Flush();
  return absl::OkStatus();
}

std::shared_ptr<CoordinatorLink::Stream> CoordinatorLink::Close() {
  Flush();
  closing_ = true;
  if (stream_ != nullptr) stream_->FinishWrites();
  return stream_;
}

void CoordinatorLink::Connect() {
  if (closing_) return;
  const int64_t connection = ++connection_;
  if (connection > 1) metrics_.reconnects.Increment();
  stream_ = Stream::Create();
  rpc::StreamCallbacks<v1::CoordinatorMessage> callbacks;
  // The stream outlives its callbacks.
  auto waiting = std::make_shared<ByteBudget>(kMaxWaitingBytes);
  Stream* const stream = stream_.get();
  callbacks.on_message = [this, connection, waiting,
                          stream](v1::CoordinatorMessage message) {
    const auto bytes = static_cast<int64_t>(message.ByteSizeLong());
    if (!waiting->TryTake(bytes)) return stream->Cancel();
    loop_.Post(
        [this, connection, waiting, bytes, message = std::move(message)] {
          waiting->Give(bytes);
          OnMessage(connection, message);
        });
  };
  callbacks.on_drained = [this] { loop_.Post([this] { Flush(); }); };
  callbacks.on_done = [this, connection](absl::Status status) {
    loop_.Post([this, connection, status = std::move(status)] {
      OnDone(connection, status);
    });
  };
  stream_->Start(std::move(callbacks), [this](auto* context, auto* reactor) {
    stub_.async()->Connect(context, reactor);
  });
  v1::AgentMessage hello;
  *hello.mutable_hello() = callbacks_.hello();
  (void)stream_->Send(std::move(hello));  // a broken stream calls on_done
  loop_.PostAfter(kWelcomeTimeout, [this, connection] {
    if (connection == connection_ && !welcomed_ && stream_ != nullptr) {
      stream_->Cancel();
    }
  });
}

void CoordinatorLink::OnMessage(int64_t connection,
                                const v1::CoordinatorMessage& message) {
  if (connection != connection_) return;
  metrics_.messages_received.Increment();
  if (message.has_welcome()) {
    OnWelcome(message.welcome());
  } else if (welcomed_) {
    callbacks_.on_message(message);
  } else {
    Log(LogLevel::kError, "coordinator_did_not_greet");
    stream_->Cancel();
  }
}

void CoordinatorLink::OnWelcome(const v1::Welcome& welcome) {
  if (welcomed_) return;
  welcomed_ = true;
  num_refused_ = 0;
  backoff_.Reset();
  metrics_.connected.Set(1);
  if (welcome.heartbeat_interval_ms() > 0) {
    beat_interval_ =
        std::clamp(absl::Milliseconds(welcome.heartbeat_interval_ms()),
                   absl::Milliseconds(10), absl::Minutes(1));
  }
  if (welcome.reconnect_budget_ms() > 0) {
    budget_ = absl::Milliseconds(welcome.reconnect_budget_ms());
  }
  Log(LogLevel::kInfo, "coordinator_connected",
      {{"version", welcome.version()}, {"connection", connection_}});
  outbox_.Reconnected(Now());
  Flush();
  Beat(connection_);
}

void CoordinatorLink::OnDone(int64_t connection, const absl::Status& status) {
  if (connection != connection_) return;
  stream_ = nullptr;
  if (welcomed_) {
    welcomed_ = false;
    metrics_.connected.Set(0);
    lost_at_ = Now();
    callbacks_.on_lost();
    WatchBudget();
  }
  if (closing_) return;
  const absl::Duration wait =
      absl::IsAlreadyExists(status) ? OnRefused(status) : backoff_.Next();
  Log(LogLevel::kWarning, "coordinator_lost",
      {{"status", status}, {"retry_ms", absl::ToInt64Milliseconds(wait)}});
  loop_.PostAfter(wait, [this] { Connect(); });
}

absl::Duration CoordinatorLink::OnRefused(const absl::Status& status) {
  Log(LogLevel::kError, "node_name_in_use",
      {{"status", status}, {"times", ++num_refused_}});
  if (num_refused_ == kMaxRefusals) callbacks_.on_refused(status);
  return kRefusedRetry;
}

void CoordinatorLink::Beat(int64_t connection) {
  if (connection != connection_ || !welcomed_ || closing_) return;
  v1::AgentMessage message;
  message.mutable_heartbeat()->set_sequence(next_beat_++);
  // A full queue means that much else renews the lease.
  (void)stream_->Send(std::move(message));
  callbacks_.on_beat();
  loop_.PostAfter(beat_interval_, [this, connection] { Beat(connection); });
}

void CoordinatorLink::Flush() {
  if (!welcomed_ || stream_ == nullptr) return;
  while (const v1::AgentMessage* message = outbox_.Next()) {
    if (!stream_->Send(*message).ok()) return;  // on_drained or a new stream
    metrics_.messages_sent.Increment();
    outbox_.MarkSent(Now());
  }
}

void CoordinatorLink::WatchBudget() {
  loop_.PostAfter(budget_, [this, lost_at = lost_at_] {
    if (!welcomed_ && lost_at == lost_at_) callbacks_.on_budget_spent();
  });
}

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
