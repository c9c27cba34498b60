// The part of Attempt that passes trainers' messages on.

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "worker/agent/attempt.h"

namespace evenstep::agent {
namespace {

// Of a rendezvous value that a trainer stores while the coordinator is away.
constexpr absl::Duration kSetBudget = absl::Minutes(1);

}  // namespace

void Attempt::OnFrame(int rank, const trainer::v1::ToAgent& frame) {
  v1::AgentMessage message;
  switch (frame.what_case()) {
    case trainer::v1::ToAgent::kData:
      *message.mutable_data()->mutable_attempt() = id();
      message.mutable_data()->set_rank(rank);
      *message.mutable_data()->mutable_data() = frame.data();
      return context_.send(std::move(message));
    case trainer::v1::ToAgent::kLengths:
      if (!IsCurrent(frame.lengths().generation())) return;
      *message.mutable_lengths()->mutable_attempt() = id();
      *message.mutable_lengths()->mutable_report() = frame.lengths();
      return context_.send(std::move(message));
    case trainer::v1::ToAgent::kStep:
      if (!IsCurrent(frame.step().generation())) return;
      *message.mutable_step()->mutable_attempt() = id();
      *message.mutable_step()->mutable_report() = frame.step();
      return context_.send(std::move(message));
    case trainer::v1::ToAgent::kCosts:
      *message.mutable_costs()->mutable_attempt() = id();
      *message.mutable_costs()->mutable_costs() = frame.costs();
      return context_.send(std::move(message));
    case trainer::v1::ToAgent::kStarted:
      *message.mutable_started()->mutable_attempt() = id();
      message.mutable_started()->set_rank(rank);
      message.mutable_started()->set_emulated_link(
          frame.started().emulated_link());
      return context_.send(std::move(message));
    case trainer::v1::ToAgent::kSet:
      return OnRendezvousSet(frame.set());
    case trainer::v1::ToAgent::kGet:
      return OnRendezvousGet(rank, frame.get());
    case trainer::v1::ToAgent::kFailure:
      ranks_[rank].failure = absl::StrCat(frame.failure().reason(), ": ",
                                          frame.failure().message());
      return RequestAbandon(rank, frame.failure().reason(),
                            frame.failure().message(), frame.failure().step());
    case trainer::v1::ToAgent::kFinished:
      ranks_[rank].finished = true;
      ranks_[rank].finish = frame.finished();
      return;
    case trainer::v1::ToAgent::kHello:
    case trainer::v1::ToAgent::WHAT_NOT_SET:
      Log(LogLevel::kWarning, "trainer_message_ignored", {{"rank", rank}});
      return;
  }
}

void Attempt::OnRendezvousSet(const trainer::v1::RendezvousSet& set) {
  v1::RendezvousRequest request;
  *request.mutable_attempt() = id();
  request.mutable_set()->set_key(set.key());
  request.mutable_set()->set_value(set.value());
  std::weak_ptr<Attempt> weak = weak_from_this();
  context_.rendezvous.Call(
      request, kSetBudget,
      [weak, key = set.key()](const absl::StatusOr<v1::RendezvousResponse>& r) {
        auto self = weak.lock();
        // ABORTED: the generation is over, and so is the trainers' wait.
        if (r.ok() || self == nullptr || absl::IsAborted(r.status())) return;
        self->RequestAbandon(-1, "INTERNAL",
                             absl::StrCat("cannot store rendezvous key ", key,
                                          ": ", r.status().message()));
      });
}

void Attempt::OnRendezvousGet(int rank, const trainer::v1::RendezvousGet& get) {
  v1::RendezvousRequest request;
  *request.mutable_attempt() = id();
  request.mutable_get()->set_key(get.key());
  std::weak_ptr<Attempt> weak = weak_from_this();
  context_.rendezvous.Call(
      request, absl::Milliseconds(get.wait_ms()),
      [weak, rank, key = get.key(), number = get.request_id()](
          const absl::StatusOr<v1::RendezvousResponse>& r) {
        auto self = weak.lock();
        if (self == nullptr || self->ranks_[rank].gone) return;
        trainer::v1::ToTrainer message;
        trainer::v1::RendezvousValue* value = message.mutable_value();
        value->set_request_id(number);
        value->set_found(r.ok() && r->found());
        if (value->found()) {
          value->set_value(r->value());
        } else {
          value->set_error(r.ok() ? absl::StrCat("rendezvous key ", key,
                                                 " was not set in time")
                                  : r.status().ToString());
        }
        // A full queue shows at the next plan; here there is nothing to add.
        (void)self->ranks_[rank].trainer->Send(std::move(message));
      });
}

}  // namespace evenstep::agent
