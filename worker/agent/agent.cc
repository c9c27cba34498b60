#include "worker/agent/agent.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/random/random.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/atomic_file.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "base/version.h"
#include "rpc/channel.h"
#include "worker/agent/assignment_check.h"

namespace evenstep::agent {
namespace {

constexpr absl::Duration kLeftoverTimeout = absl::Seconds(5);
// Of a stop: what killed trainers and the last messages need at the end.
constexpr absl::Duration kKillTime = absl::Milliseconds(500);
constexpr absl::Duration kFarewell = absl::Seconds(1);
constexpr size_t kKeptAttemptFolders = 100;
constexpr size_t kRememberedAttempts = 1000;

std::string RandomIncarnation() {
  absl::BitGen random;
  return absl::StrCat(
      absl::Hex(absl::Uniform<uint64_t>(random), absl::kZeroPad16));
}

absl::Status MakePrivateFolder(const std::string& path) {
  EVENSTEP_RETURN_IF_ERROR(MakeFolders(path));
  if (chmod(path.c_str(), 0700) == 0) return absl::OkStatus();
  return ErrnoStatus(errno, "cannot make private", path);
}

// Keeps the logs of the newest attempts. What cannot be removed stays.
void PruneAttemptFolders(const std::string& folder) {
  std::vector<std::pair<std::filesystem::file_time_type, std::filesystem::path>>
      found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    found.emplace_back(entry.last_write_time(error), entry.path());
  }
  std::sort(found.begin(), found.end());
  while (found.size() > kKeptAttemptFolders) {
    std::filesystem::remove_all(found.front().second, error);
    found.erase(found.begin());
  }
}

absl::Status MakeAgentFolders(const AgentOptions& options) {
  EVENSTEP_RETURN_IF_ERROR(MakePrivateFolder(options.work_dir));
  EVENSTEP_RETURN_IF_ERROR(
      MakePrivateFolder(absl::StrCat(options.work_dir, "/sockets")));
  EVENSTEP_RETURN_IF_ERROR(
      MakePrivateFolder(absl::StrCat(options.work_dir, "/attempts")));
  return MakeFolders(options.output_root);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Agent>> Agent::Start(AgentOptions options,
                                                    OnRefused on_refused) {
  EVENSTEP_RETURN_IF_ERROR(CompleteAgentOptions(&options));
  EVENSTEP_RETURN_IF_ERROR(MakeAgentFolders(options));
  EVENSTEP_ASSIGN_OR_RETURN(ProcessLedger ledger,
                            ProcessLedger::Open(options.work_dir));
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
       {"metrics", agent->metrics_address_}});
  agent->loop_.Post([raw = agent.get()] { raw->link_.Start(); });
  return agent;
}

Agent::Agent(AgentOptions options, ProcessLedger ledger,
             std::unique_ptr<AgentMetrics> metrics, std::string metrics_address,
             OnRefused on_refused)
    : options_(std::move(options)),
      incarnation_(RandomIncarnation()),
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
             .on_refused =
                 [this](const absl::Status& status) {
                   if (on_refused_) on_refused_(status);
                 },
             .on_budget_spent =
                 [this] {
                   EndAll("RECONNECT_BUDGET_SPENT",
                          "the coordinator was away for too long",
                          absl::InfiniteDuration());
                 }}) {}

Agent::~Agent() { Stop(absl::ZeroDuration()); }

void Agent::Stop(absl::Duration grace) {
  if (stopped_) return;
  stopped_ = true;
  const absl::Time end = absl::Now() + grace;
  const auto left = [&](absl::Duration reserve) {
    return std::max(end - absl::Now() - reserve, absl::ZeroDuration());
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
  loop_.Stop();
  Log(LogLevel::kInfo, "agent_stopped", {{"node", options_.node}});
}

v1::AgentHello Agent::Hello() const {
  v1::AgentHello hello;
  hello.set_node(options_.node);
  hello.set_incarnation(incarnation_);
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
    case v1::CoordinatorMessage::kPlan:
      if (Attempt* attempt = Find(message.plan().attempt())) {
        attempt->OnPlan(message.plan().plan());
      }
      return;
    case v1::CoordinatorMessage::kCosts:
      if (Attempt* attempt = Find(message.costs().attempt())) {
        attempt->OnCosts(message.costs().costs());
      }
      return;
    case v1::CoordinatorMessage::kStop:
      if (Attempt* attempt = Find(message.stop().attempt())) {
        attempt->OnStop(message.stop().message());
      }
      return;
    case v1::CoordinatorMessage::kAbandon:
      if (message.abandon().next_generation() == 0) {
        return OnEnd(message.abandon().attempt(), message.abandon().message());
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
  absl::Status allowed = CheckAssignment(assignment, options_.data_root);
  if (allowed.ok()) allowed = CheckRoom(assignment);
  if (!allowed.ok()) return Refuse(id, allowed);
  if (attempts_.empty()) PruneAttemptFolders(options_.work_dir + "/attempts");
  auto attempt = std::make_shared<Attempt>(ContextFor(id), assignment);
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
  int used = 0;
  for (const auto& [key, attempt] : attempts_) {
    if (key.first == assignment.attempt().job_id()) {
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
  message.mutable_abandon()->set_reason("START_FAILED");
  message.mutable_abandon()->set_message(std::string(why.message()));
  link_.Send(std::move(message));
  ConfirmGone(id);
}

void Agent::OnEnd(const v1::AttemptId& id, const std::string& text) {
  if (Attempt* attempt = Find(id)) {
    return attempt->End(text, absl::InfiniteDuration());
  }
  ConfirmGone(id);  // the coordinator waits for it, whoever lost the first one
}

void Agent::ConfirmGone(const v1::AttemptId& id) {
  v1::AgentMessage message;
  *message.mutable_ended()->mutable_attempt() = id;
  link_.Send(std::move(message));
}

void Agent::OnGone(const AttemptKey& key) {
  attempts_.erase(key);
  ended_.push_back(key);
  if (ended_.size() > kRememberedAttempts) ended_.pop_front();
  absl::MutexLock lock(&mutex_);
  --num_attempts_;
}

void Agent::EndAll(const std::string& reason, const std::string& text,
                   absl::Duration at_most) {
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
  return {
      .loop = loop_,
      .options = options_,
      .metrics = *metrics_,
      .ledger = ledger_,
      .rendezvous = rendezvous_,
      .send =
          [this](v1::AgentMessage message) { link_.Send(std::move(message)); },
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
  mutex_.AwaitWithTimeout(absl::Condition(&none), timeout);
}

}  // namespace evenstep::agent
