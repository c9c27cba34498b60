// The part of Attempt that passes trainers' messages on.

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/log.h"
#include "wire/message_bounds.h"
#include "worker/agent/attempt.h"
#include "worker/agent/trainer_frames.h"

namespace evenstep::agent {
namespace {

// Of a rendezvous value that a trainer stores while the coordinator is away.
constexpr absl::Duration kSetBudget = absl::Minutes(1);

}  // namespace

void Attempt::OnFrame(int rank, const trainer::v1::ToAgent& frame) {
  RankState& state = ranks_[rank];
  if (state.refused) return;  // it is being killed
  const std::optional<int64_t> generation = GenerationOf(frame);
  if (generation.has_value() && !IsCurrent(*generation)) return;
  const absl::Status legal =
      CheckFrame(frame, rank, assignment_.spec().steps());
  if (!legal.ok()) return RefuseTrainer(rank, legal);
  auto message = ForCoordinator(frame, id(), rank);
  if (message.has_value()) return Report(*std::move(message));
  switch (frame.what_case()) {
    case trainer::v1::ToAgent::kSet:
      return OnRendezvousSet(rank, frame.set());
    case trainer::v1::ToAgent::kGet:
      return OnRendezvousGet(rank, frame.get());
    case trainer::v1::ToAgent::kFailure:
      return OnFailure(rank, frame.failure());
    case trainer::v1::ToAgent::kFinished:
      state.finished = true;
      state.finish = frame.finished();
      return;
    case trainer::v1::ToAgent::kWritingWeights:
      return OnWritingWeights(rank, frame.writing_weights().bytes_written());
    default:
      Log(LogLevel::kWarning, "trainer_message_ignored", {{"rank", rank}});
  }
}

// Only bytes count: a disk that hangs does not keep a trainer alive.
void Attempt::OnWritingWeights(int rank, int64_t bytes) {
  RankState& state = ranks_[rank];
  if (bytes <= state.bytes_written) return;
  state.bytes_written = bytes;
  state.wrote_at = RealClock().Monotonic();
}

void Attempt::OnFailure(int rank, const trainer::v1::Failure& failure) {
  const std::string text = wire::PersonText(failure.message());
  ranks_[rank].failure = absl::StrCat(failure.reason(), ": ", text);
  RequestAbandon(rank, failure.reason(), text, failure.step());
}

// What it says can no longer be believed.
void Attempt::RefuseTrainer(int rank, const absl::Status& why) {
  RankState& state = ranks_[rank];
  state.refused = true;
  state.failure = std::string(why.message());
  context_.metrics.MessagesDropped("refused").Increment();
  Log(LogLevel::kError, "trainer_refused",
      {{"job", id().job_id()},
       {"attempt", id().attempt()},
       {"rank", rank},
       {"pid", state.trainer->pid()},
       {"error", why}});
  RequestAbandon(rank, "INVALID_REPORT", state.failure);
  state.trainer->Kill();
}

bool Attempt::MayCallRendezvous(int rank) {
  if (++ranks_[rank].num_calls <= kMaxRendezvousCalls) return true;
  RefuseTrainer(rank,
                absl::ResourceExhaustedError(absl::StrCat(
                    "the trainer of rank ", rank, " has ", kMaxRendezvousCalls,
                    " rendezvous calls under way, the limit")));
  return false;
}

void Attempt::OnRendezvousSet(int rank, const trainer::v1::RendezvousSet& set) {
  if (!MayCallRendezvous(rank)) return;
  v1::RendezvousRequest request;
  *request.mutable_attempt() = id();
  request.mutable_set()->set_key(set.key());
  request.mutable_set()->set_value(set.value());
  std::weak_ptr<Attempt> weak = weak_from_this();
  context_.rendezvous.Call(
      request, kSetBudget,
      [weak, rank,
       key = set.key()](const absl::StatusOr<v1::RendezvousResponse>& r) {
        auto self = weak.lock();
        if (self == nullptr) return;
        --self->ranks_[rank].num_calls;
        // ABORTED: the generation is over, and so is the trainers' wait.
        if (r.ok() || absl::IsAborted(r.status())) return;
        self->RequestAbandon(-1, "INTERNAL",
                             absl::StrCat("cannot store rendezvous key ", key,
                                          ": ", r.status().message()));
      });
}

void Attempt::OnRendezvousGet(int rank, const trainer::v1::RendezvousGet& get) {
  if (!MayCallRendezvous(rank)) return;
  v1::RendezvousRequest request;
  *request.mutable_attempt() = id();
  request.mutable_get()->set_key(get.key());
  std::weak_ptr<Attempt> weak = weak_from_this();
  context_.rendezvous.Call(
      request, absl::Milliseconds(get.wait_ms()),
      [weak, rank, key = get.key(), number = get.request_id()](
          const absl::StatusOr<v1::RendezvousResponse>& r) {
        auto self = weak.lock();
        if (self == nullptr) return;
        --self->ranks_[rank].num_calls;
        if (self->ranks_[rank].gone) return;
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
