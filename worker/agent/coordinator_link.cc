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

}  // namespace evenstep::agent
