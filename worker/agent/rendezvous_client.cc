#include "worker/agent/rendezvous_client.h"

#include <algorithm>
#include <utility>

#include "base/backoff.h"
#include "base/clock.h"
#include "rpc/channel.h"
#include "rpc/errors.h"

namespace evenstep::agent {
namespace {

// The coordinator answers a get at the end of its wait; this much later it is
// no longer expected.
constexpr absl::Duration kAnswerSlack = absl::Seconds(2);

}  // namespace

struct RendezvousClient::Pending {
  v1::RendezvousRequest request;
  v1::RendezvousResponse response;
  absl::Duration end;  // monotonic
  Answer answer;
  Backoff backoff{{}, RandomUniform()};
  std::unique_ptr<grpc::ClientContext> context;
};

RendezvousClient::RendezvousClient(std::shared_ptr<grpc::Channel> channel,
                                   EventLoop& loop)
    : stub_(std::move(channel)), loop_(loop) {}

RendezvousClient::~RendezvousClient() { Shutdown(); }

void RendezvousClient::Call(const v1::RendezvousRequest& request,
                            absl::Duration budget, Answer answer) {
  auto pending = std::make_shared<Pending>();
  pending->request = request;
  pending->end = RealClock().Monotonic() + budget;
  pending->answer = std::move(answer);
  Try(pending);
}

void RendezvousClient::Try(const std::shared_ptr<Pending>& pending) {
  const absl::Duration left =
      std::max(pending->end - RealClock().Monotonic(), absl::ZeroDuration());
  if (pending->request.has_get()) {
    pending->request.mutable_get()->set_wait_ms(
        absl::ToInt64Milliseconds(left));
  }
  {
    absl::MutexLock lock(&mutex_);
    if (shut_down_) return;
    pending->context = std::make_unique<grpc::ClientContext>();
    rpc::SetDeadline(*pending->context, left + kAnswerSlack);
    calls_.insert(pending);
  }
  stub_.async()->Rendezvous(
      pending->context.get(), &pending->request, &pending->response,
      [this, pending](const grpc::Status& status) { Done(pending, status); });
}

void RendezvousClient::Done(const std::shared_ptr<Pending>& pending,
                            const grpc::Status& status) {
  const absl::Status result = rpc::FromGrpc(status);
  EventLoop& loop = loop_;  // outlives this object, which may go with the lock
  {
    absl::MutexLock lock(&mutex_);
    calls_.erase(pending);
  }
  // Too many callers at once is no lasting refusal either.
  const bool may_pass =
      absl::IsUnavailable(result) || absl::IsResourceExhausted(result);
  if (may_pass && RealClock().Monotonic() < pending->end) {
    loop.PostAfter(pending->backoff.Next(), [this, pending] { Try(pending); });
    return;
  }
  loop.Post([pending, result] {
    if (result.ok()) {
      pending->answer(std::move(pending->response));
    } else {
      pending->answer(result);
    }
  });
}

void RendezvousClient::Shutdown() {
  absl::MutexLock lock(&mutex_);
  shut_down_ = true;
  for (const auto& pending : calls_) pending->context->TryCancel();
  const auto empty = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return calls_.empty();
  };
  mutex_.Await(absl::Condition(&empty));
}

}  // namespace evenstep::agent
