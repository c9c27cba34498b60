#include "worker/agent/agent.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "base/version.h"
#include "rpc/channel.h"
#include "wire/message_bounds.h"
#include "worker/agent/work_folder.h"

namespace evenstep::agent {
namespace {

constexpr absl::Duration kLeftoverTimeout = absl::Seconds(5);
// Of a stop: what killed trainers and the last messages need at the end.
constexpr absl::Duration kKillTime = absl::Milliseconds(500);
constexpr absl::Duration kFarewell = absl::Seconds(1);
constexpr size_t kRememberedAttempts = 1000;

}  // namespace

absl::StatusOr<std::unique_ptr<Agent>> Agent::Start(AgentOptions options,
                                                    OnRefused on_refused) {
  EVENSTEP_RETURN_IF_ERROR(CompleteAgentOptions(&options));
  EVENSTEP_RETURN_IF_ERROR(MakeWorkFolder(options.work_dir));
  EVENSTEP_RETURN_IF_ERROR(MakeFolders(options.output_root));
  EVENSTEP_ASSIGN_OR_RETURN(ProcessLedger ledger,
                            ProcessLedger::Open(options.work_dir));
  EVENSTEP_ASSIGN_OR_RETURN(std::string folder_id, FolderId(options.work_dir));
  EVENSTEP_ASSIGN_OR_RETURN(const int ended,
                            ledger.EndLeftovers(kLeftoverTimeout));
  auto metrics = std::make_unique<AgentMetrics>();
  metrics->leftovers_ended.Increment(ended);
  std::string address;
  if (!options.metrics_listen.empty()) {
    EVENSTEP_ASSIGN_OR_RETURN(address, metrics->Serve(options.metrics_listen));
  }
  std::unique_ptr<Agent> agent(new Agent(std::move(options), std::move(ledger),
                                         std::move(metrics), std::move(address),
                                         std::move(on_refused)));
  Log(LogLevel::kInfo, "agent_started",
      {{"node", agent->options_.node},
       {"incarnation", agent->incarnation_},
       {"slots", agent->options_.slots},
       {"work_dir", agent->options_.work_dir},
       {"data_root", agent->options_.data_root},
       {"metrics", agent->metrics_address_}});
  if (agent->options_.data_root == "/") {
    Log(LogLevel::kWarning, "data_root_is_everything",
        {{"message",
          "jobs may read every file that this user can; --data-root limits "
          "them to a folder"}});
  }
  agent->folder_id_ = std::move(folder_id);
  agent->loop_.Post([raw = agent.get()] { raw->link_.Start(); });
  return agent;
}

Agent::Agent(AgentOptions options, ProcessLedger ledger,
             std::unique_ptr<AgentMetrics> metrics, std::string metrics_address,
             OnRefused on_refused)
    : options_(std::move(options)),
      incarnation_(RandomName()),
      metrics_address_(std::move(metrics_address)),
      on_refused_(std::move(on_refused)),
      metrics_(std::move(metrics)),
      ledger_(std::move(ledger)),
      rendezvous_(rpc::MakeChannel(options_.coordinator), loop_),
      link_(rpc::MakeChannel(options_.coordinator), loop_, *metrics_,
            {.hello = [this] { return Hello(); },
             .on_message =
                 [this](const v1::CoordinatorMessage& message) {
                   OnMessage(message);
                 },
             .on_beat =
                 [this] {
                   for (auto& [key, attempt] : attempts_) attempt->KeepAlive();
                 },
             // The coordinator knows that what was not begun is forgotten.
             .on_lost =
                 [this] {
                   reserved_.clear();
                   checking_.clear();
                 },
             .on_refused =
                 [this](const absl::Status& status) {
                   if (on_refused_) on_refused_(status);
                 },
             .on_budget_spent =
                 [this] {
                   EndAll("RECONNECT_BUDGET_SPENT",
                          "the coordinator was away for too long",
                          kLongestStop);
                 }}) {}

Agent::~Agent() { Stop(absl::ZeroDuration()); }

void Agent::Stop(absl::Duration grace) {
  if (stopped_) return;
  stopped_ = true;
  const absl::Duration end = RealClock().Monotonic() + grace;
  const auto left = [&](absl::Duration reserve) {
    return std::max(end - RealClock().Monotonic() - reserve,
                    absl::ZeroDuration());
  };
  loop_.Call([&] {
    stopping_ = true;
    EndAll("AGENT_STOPPING",
           absl::StrCat("the agent of node ", options_.node, " is stopping"),
           left(kFarewell + kKillTime));
  });
  AwaitNoAttempts(left(kFarewell));
  loop_.Call([&] {
    for (auto& [key, attempt] : attempts_) attempt->Kill();
  });
  AwaitNoAttempts(absl::InfiniteDuration());  // SIGKILL was sent
  std::shared_ptr<CoordinatorLink::Stream> stream;
  loop_.Call([&] { stream = link_.Close(); });
  if (stream != nullptr && !stream->WaitUntilDone(kFarewell)) {
    stream->Cancel();
    stream->WaitUntilDone(absl::InfiniteDuration());
  }
  rendezvous_.Shutdown();
  checks_.Stop(kFarewell);
  loop_.Stop();
  Log(LogLevel::kInfo, "agent_stopped", {{"node", options_.node}});
}

v1::AgentHello Agent::Hello() const {
  v1::AgentHello hello;
  hello.set_node(options_.node);
  hello.set_incarnation(incarnation_);
  hello.set_folder_id(folder_id_);
  hello.set_slots(options_.slots);
  hello.set_version(std::string(Version()));
  hello.set_metrics_address(metrics_address_);
  for (const auto& [key, attempt] : attempts_) {
    *hello.add_running() = attempt->id();
  }
  return hello;
}

void Agent::OnMessage(const v1::CoordinatorMessage& message) {
  switch (message.what_case()) {
    case v1::CoordinatorMessage::kAssignment:
      return OnAssignment(message.assignment());
    case v1::CoordinatorMessage::kBegin:
      return OnBegin(message.begin().attempt());
    case v1::CoordinatorMessage::kPlan:
      if (Attempt* attempt = Find(message.plan().attempt())) {
        attempt->OnPlan(message.plan().plan());
      }
      return;
    case v1::CoordinatorMessage::kStop:
      if (Attempt* attempt = Find(message.stop().attempt())) {
        attempt->OnStop(message.stop().message());
      }
      return;
    case v1::CoordinatorMessage::kAbandon:
      if (message.abandon().next_generation() == 0) {
        return OnEnd(message.abandon().attempt(), message.abandon().message(),
                     message.abandon().weights_rank());
      }
      if (Attempt* attempt = Find(message.abandon().attempt())) {
        attempt->OnAbandon(message.abandon());
      }
      return;
    case v1::CoordinatorMessage::kEnd:
      return OnEnd(message.end().attempt(), message.end().message());
    case v1::CoordinatorMessage::kWelcome:
    case v1::CoordinatorMessage::WHAT_NOT_SET:
      return;  // a newer coordinator may say what this agent does not know
  }
}

void Agent::OnAssignment(const v1::Assignment& assignment) {
  const v1::AttemptId& id = assignment.attempt();
  const AttemptKey key(id.job_id(), id.attempt());
  if (attempts_.count(key) > 0) return;  // said again after a reconnect
  // So is this one; an attempt runs once.
  if (absl::c_linear_search(ended_, key)) return ConfirmGone(id);
  const int64_t number = next_check_++;
  checking_[key] = {assignment, number};
  // By value: a check that hangs may outlive the agent.
  checks_.Run([check = options_.check, root = options_.data_root,
               assignment] { return check(assignment, root); },
              options_.check_limit,
              [this, key, number](const absl::Status& allowed) {
                OnChecked(key, number, allowed);
              });
}

void Agent::OnChecked(const AttemptKey& key, int64_t number,
                      absl::Status allowed) {
  const auto found = checking_.find(key);
  // Another stream, or an end, has come meanwhile.
  if (found == checking_.end() || found->second.number != number) return;
  const Check check = std::move(found->second);
  checking_.erase(found);
  const v1::AttemptId& id = check.assignment.attempt();
  if (allowed.ok()) allowed = CheckRoom(check.assignment);
  if (absl::IsDeadlineExceeded(allowed)) {
    allowed = absl::DeadlineExceededError(
        absl::StrCat("data source '", check.assignment.spec().data().source(),
                     "' on node ", options_.node, ": ", allowed.message()));
  }
  if (!allowed.ok()) return Refuse(id, allowed);
  reserved_[key] = check.assignment;
  v1::AgentMessage message;
  *message.mutable_ready()->mutable_attempt() = id;
  link_.Send(std::move(message)).IgnoreError();  // small: always taken
  if (check.begin) OnBegin(id);
}

void Agent::OnBegin(const v1::AttemptId& id) {
  const AttemptKey key(id.job_id(), id.attempt());
  if (attempts_.count(key) > 0) return;  // said again after a reconnect
  const auto check = checking_.find(key);
  if (check != checking_.end()) {
    check->second.begin = true;
    return;
  }
  const auto reserved = reserved_.extract(key);
  if (reserved.empty()) return ConfirmGone(id);
  if (attempts_.empty()) PruneAttemptFolders(options_.work_dir);
  auto attempt = std::make_shared<Attempt>(ContextFor(id), reserved.mapped());
  attempts_[key] = attempt;
  {
    absl::MutexLock lock(&mutex_);
    ++num_attempts_;
  }
  attempt->Start(
      absl::StrCat(options_.work_dir, "/sockets/", next_socket_++, ".sock"));
}

absl::Status Agent::CheckRoom(const v1::Assignment& assignment) const {
  if (stopping_) return absl::UnavailableError("the agent is stopping");
  const v1::AttemptId& id = assignment.attempt();
  int used = 0;
  for (const auto& [key, taken] : reserved_) {
    if (key != AttemptKey(id.job_id(), id.attempt())) used += taken.num_ranks();
  }
  for (const auto& [key, attempt] : attempts_) {
    if (key.first == id.job_id()) {
      return absl::FailedPreconditionError(
          absl::StrCat("attempt ", key.second, " of job ", key.first,
                       " still has processes on node ", options_.node));
    }
    used += attempt->num_ranks();
  }
  if (used + assignment.num_ranks() <= options_.slots) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "node ", options_.node, " has ", options_.slots, " slots, ", used,
      " in use, and the assignment wants ", assignment.num_ranks()));
}

void Agent::Refuse(const v1::AttemptId& id, const absl::Status& why) {
  Log(LogLevel::kError, "assignment_refused",
      {{"job", id.job_id()}, {"attempt", id.attempt()}, {"status", why}});
  v1::AgentMessage message;
  *message.mutable_abandon()->mutable_attempt() = id;
  message.mutable_abandon()->set_rank(-1);
  message.mutable_abandon()->set_step(-1);
  message.mutable_abandon()->set_reason(
      absl::IsUnavailable(why) ? "AGENT_STOPPING" : "START_FAILED");
  message.mutable_abandon()->set_message(wire::PersonText(why.message()));
  link_.Send(std::move(message)).IgnoreError();  // small: always taken
  ConfirmGone(id);
}

void Agent::OnEnd(const v1::AttemptId& id, const std::string& text,
                  int weights_rank) {
  if (Attempt* attempt = Find(id)) {
    return attempt->End(text, absl::InfiniteDuration(), weights_rank);
  }
  reserved_.erase({id.job_id(), id.attempt()});
  checking_.erase({id.job_id(), id.attempt()});
  ConfirmGone(id);  // the coordinator waits for it, whoever lost the first one
}

void Agent::ConfirmGone(const v1::AttemptId& id) {
  v1::AgentMessage message;
  *message.mutable_ended()->mutable_attempt() = id;
  link_.Send(std::move(message)).IgnoreError();  // small: always taken
}

void Agent::OnGone(const AttemptKey& key) {
  attempts_.erase(key);
  ended_.push_back(key);
  if (ended_.size() > kRememberedAttempts) ended_.pop_front();
  absl::MutexLock lock(&mutex_);
  if (--num_attempts_ == 0) none_left_.NotifyAll();
}

void Agent::EndAll(const std::string& reason, const std::string& text,
                   absl::Duration at_most) {
  for (const auto& [key, assignment] : std::exchange(reserved_, {})) {
    Refuse(assignment.attempt(), absl::UnavailableError(text));
  }
  for (const auto& [key, check] : std::exchange(checking_, {})) {
    Refuse(check.assignment.attempt(), absl::UnavailableError(text));
  }
  for (auto& [key, attempt] : attempts_) {
    attempt->RequestAbandon(-1, reason, text);
    attempt->End(text, at_most);
  }
}

Attempt* Agent::Find(const v1::AttemptId& id) {
  const auto it = attempts_.find({id.job_id(), id.attempt()});
  if (it != attempts_.end()) return it->second.get();
  metrics_->MessagesDropped("unknown_attempt").Increment();
  return nullptr;
}

AttemptContext Agent::ContextFor(const v1::AttemptId& id) {
  return {.loop = loop_,
          .options = options_,
          .metrics = *metrics_,
          .ledger = ledger_,
          .rendezvous = rendezvous_,
          .send =
              [this](v1::AgentMessage message) {
                return link_.Send(std::move(message));
              },
          // The agent, if it runs, ends them earlier and says why.
          .agent_silence = link_.budget() + kLongestStop,
          .on_gone =
              [this, key = AttemptKey(id.job_id(), id.attempt())] {
                loop_.Post([this, key] { OnGone(key); });
              }};
}

void Agent::AwaitNoAttempts(absl::Duration timeout) {
  absl::MutexLock lock(&mutex_);
  const auto none = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return num_attempts_ == 0;
  };
  none_left_.WaitFor(mutex_, timeout, none);
}

}  // namespace evenstep::agent
