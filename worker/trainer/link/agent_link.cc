#include "worker/trainer/link/agent_link.h"

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "base/unique_fd.h"
#include "wire/step_plan.h"

namespace evenstep::trainer {
namespace {

// The agent answers in the time asked for; this much later it is taken for
// stuck.
constexpr absl::Duration kAnswerSlack = absl::Seconds(10);
// An agent that runs sends it as soon as the trainer has connected.
constexpr absl::Duration kStartWait = absl::Seconds(30);

absl::StatusOr<UniqueFd> ConnectSocket(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(
        absl::StrCat("socket path of ", path.size(), " bytes, at most ",
                     sizeof(address.sun_path) - 1, " fit: ", path));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid() ||
      ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address),
                sizeof(address)) != 0) {
    return absl::UnavailableError(absl::StrCat(
        "cannot connect to the agent at ", path, ": ", std::strerror(errno)));
  }
  return fd;
}

}  // namespace

absl::StatusOr<std::unique_ptr<AgentLink>> AgentLink::Connect(
    const std::string& socket_path, int rank) {
  EVENSTEP_ASSIGN_OR_RETURN(UniqueFd fd, ConnectSocket(socket_path));
  auto link = std::make_unique<AgentLink>(fd.Release());
  v1::ToAgent message;
  message.mutable_hello()->set_rank(rank);
  message.mutable_hello()->set_pid(::getpid());
  EVENSTEP_RETURN_IF_ERROR(link->Send(message));
  return link;
}

AgentLink::AgentLink(int fd) : fd_(fd), socket_(fd) {}

AgentLink::~AgentLink() {
  {
    absl::MutexLock lock(&mutex_);
    closing_ = true;
  }
  socket_.Shutdown();
  if (reader_.joinable()) reader_.join();
}

// A read that is given nothing for so long fails. The kernel counts, on the
// monotonic clock. Zero: no limit.
void AgentLink::LimitSilence(absl::Duration limit) {
  const timeval time = absl::ToTimeval(limit);
  setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time));
}

absl::StatusOr<v1::Start> AgentLink::ReceiveStart() {
  v1::ToTrainer message;
  LimitSilence(kStartWait);
  EVENSTEP_RETURN_IF_ERROR(socket_.Receive(&message));
  if (!message.has_start()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the agent's first message is field ", message.what_case(),
                     ", expected start"));
  }
  LimitSilence(absl::Milliseconds(message.start().agent_silence_ms()));
  return message.start();
}

void AgentLink::StartReading(PlanBook* plans, Callbacks callbacks) {
  plans_ = plans;
  callbacks_ = std::move(callbacks);
  reader_ = std::thread([this] { ReadLoop(); });
}

absl::Status AgentLink::Send(const v1::ToAgent& message) {
  return socket_.Send(message);
}

bool AgentLink::StopRequested() const {
  absl::MutexLock lock(&mutex_);
  return stop_requested_;
}

bool AgentLink::closing() const {
  absl::MutexLock lock(&mutex_);
  return closing_;
}

void AgentLink::ReadLoop() {
  while (true) {
    v1::ToTrainer message;
    const absl::Status status = socket_.Receive(&message);
    if (status.ok()) {
      Handle(message);
      continue;
    }
    CloseRendezvous(absl::UnavailableError(
        absl::StrCat("the agent is gone: ", status.message())));
    if (!closing() && callbacks_.on_gone) callbacks_.on_gone(status);
    return;
  }
}

void AgentLink::Handle(const v1::ToTrainer& message) {
  switch (message.what_case()) {
    case v1::ToTrainer::kPlan:
      return HandlePlan(message.plan());
    case v1::ToTrainer::kValue:
      return HandleValue(message.value());
    case v1::ToTrainer::kStop: {
      Log(LogLevel::kInfo, "stop_requested",
          {{"message", message.stop().message()}});
      absl::MutexLock lock(&mutex_);
      stop_requested_ = true;
      return;
    }
    case v1::ToTrainer::kAbandon:
      CloseRendezvous(absl::AbortedError(
          absl::StrCat("abandoned: ", message.abandon().message())));
      if (callbacks_.on_abandon) callbacks_.on_abandon(message.abandon());
      return;
    case v1::ToTrainer::kKeepAlive:
      return;  // that it came is what it says
    case v1::ToTrainer::kStart:
    case v1::ToTrainer::WHAT_NOT_SET:
      Log(LogLevel::kWarning, "message_ignored",
          {{"field", static_cast<int>(message.what_case())}});
  }
}

void AgentLink::HandlePlan(const evenstep::v1::StepPlan& proto) {
  absl::StatusOr<wire::StepPlan> plan = wire::FromProto(proto);
  absl::Status status = plan.status();
  if (plan.ok()) {
    status = plans_->Put(*std::move(plan));
  } else {
    plans_->Refuse(proto.generation(), status);
  }
  if (status.ok()) return;
  Log(LogLevel::kWarning, "plan_refused",
      {{"step", proto.step()}, {"reason", status}});
}

void AgentLink::HandleValue(const v1::RendezvousValue& value) {
  absl::MutexLock lock(&mutex_);
  const auto it = pending_.find(value.request_id());
  if (it == pending_.end()) return;  // its Get has timed out
  PendingGet* const get = it->second;
  pending_.erase(it);
  get->done = true;
  if (value.found()) {
    get->value = value.value();
  } else if (value.error().empty()) {
    get->value = absl::DeadlineExceededError("no such key in time");
  } else {
    get->value = absl::AbortedError(value.error());
  }
  answered_.NotifyAll();
}

absl::Status AgentLink::Set(const std::string& key, const std::string& value) {
  v1::ToAgent message;
  message.mutable_set()->set_key(key);
  message.mutable_set()->set_value(value);
  return Send(message);
}

absl::StatusOr<std::string> AgentLink::Get(const std::string& key,
                                           absl::Duration wait) {
  PendingGet get;
  v1::ToAgent message;
  {
    absl::MutexLock lock(&mutex_);
    if (!rendezvous_status_.ok()) return rendezvous_status_;
    message.mutable_get()->set_request_id(next_request_++);
    pending_[message.get().request_id()] = &get;
  }
  message.mutable_get()->set_key(key);
  message.mutable_get()->set_wait_ms(absl::ToInt64Milliseconds(wait));
  const absl::Status sent = Send(message);

  absl::MutexLock lock(&mutex_);
  if (sent.ok()) {
    answered_.WaitFor(mutex_, wait + kAnswerSlack, [&] { return get.done; });
  }
  pending_.erase(message.get().request_id());
  if (!sent.ok()) return sent;
  if (get.done) return get.value;
  return absl::DeadlineExceededError(
      absl::StrCat("the agent did not answer about rendezvous key '", key,
                   "' within ", absl::FormatDuration(wait + kAnswerSlack)));
}

void AgentLink::CloseRendezvous(absl::Status why) {
  absl::MutexLock lock(&mutex_);
  if (rendezvous_status_.ok()) rendezvous_status_ = why;
  for (const auto& [id, get] : pending_) {
    get->done = true;
    get->value = why;
  }
  pending_.clear();
  answered_.NotifyAll();
}

}  // namespace evenstep::trainer
