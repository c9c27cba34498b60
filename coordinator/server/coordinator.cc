#include "coordinator/server/coordinator.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "coordinator/server/job_errors.h"
#include "google/protobuf/util/message_differencer.h"
#include "google/protobuf/util/time_util.h"
#include "jobspec/job_spec.h"
#include "wire/job_spec_proto.h"

namespace evenstep::coordinator {
namespace {

constexpr absl::Duration kGaugeInterval = absl::Milliseconds(200);
// Finished jobs are looked through so often, and sooner while there are more to
// remove.
constexpr absl::Duration kForgettingInterval = absl::Seconds(30);
constexpr absl::Duration kForgettingPause = absl::Milliseconds(100);
constexpr size_t kForgottenAtOnce = 5;
constexpr size_t kMaxSpecBytes = 256 << 10;
constexpr size_t kMaxJobIdBytes = 63;
constexpr size_t kMaxCancelBytes = 4 << 10;
constexpr int kDefaultPage = 100;
constexpr int kMaxPage = 1000;
constexpr size_t kMaxPageBytes = 4 << 20;

absl::Time EndOf(const JobRecord& record) {
  return absl::FromUnixNanos(
      google::protobuf::util::TimeUtil::TimestampToNanoseconds(
          record.job.ended()));
}

bool IsJobId(const std::string& id) {
  return !id.empty() && id.size() <= kMaxJobIdBytes &&
         absl::ascii_islower(id[0]) &&
         std::all_of(id.begin(), id.end(), [](char c) {
           return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '-';
         });
}

SupervisorParts PartsForSupervisor(const CoordinatorParts& parts, JobBook& book,
                                   NodeTable& nodes, Rendezvous& rendezvous) {
  return {book,        nodes,          rendezvous, parts.metrics,
          parts.clock, parts.planners, parts.post, parts.planner};
}

v1::Job WithoutSteps(const v1::Job& job) {
  v1::Job copy = job;
  copy.clear_recent_steps();
  return copy;
}

bool Wanted(const v1::ListRequest& request, const JobRecord& record) {
  return request.states().empty() ||
         std::find(request.states().begin(), request.states().end(),
                   record.job.state()) != request.states().end();
}

}  // namespace

Coordinator::Coordinator(CoordinatorParts parts,
                         const CoordinatorOptions& options)
    : parts_(std::move(parts)),
      options_(options),
      book_(parts_.store, parts_.clock),
      nodes_(options.times.lease),
      followers_(book_, parts_.store),
      supervisor_(PartsForSupervisor(parts_, book_, nodes_, rendezvous_),
                  options.times) {}

absl::Status Coordinator::Start() {
  EVENSTEP_RETURN_IF_ERROR(book_.Load());
  allocate_from_ = Now();
  for (JobRecord* record : book_.All()) {
    // Only a store that has known attempts can have left processes behind.
    if (record->job.attempt() > 0) {
      allocate_from_ = Now() + options_.times.lease;
    }
    if (HoldsSlots(record->status.state)) supervisor_.Restore(*record);
  }
  UpdateGauges();
  return book_.health();
}

absl::StatusOr<v1::JobSpec> Coordinator::Normalise(
    const v1::SubmitRequest& request) {
  if (!IsJobId(request.job_id())) {
    return InvalidSpec(absl::InvalidArgumentError(
        absl::StrCat("a job id has 1 to ", kMaxJobIdBytes,
                     " of [a-z0-9-] and begins with a letter; this one has ",
                     request.job_id().size(), " bytes")));
  }
  if (request.spec().ByteSizeLong() > kMaxSpecBytes) {
    return InvalidSpec(absl::InvalidArgumentError(
        absl::StrCat("the spec has ", request.spec().ByteSizeLong(),
                     " bytes; the bound is ", kMaxSpecBytes)));
  }
  const auto spec = wire::FromProto(request.spec());
  if (!spec.ok()) return InvalidSpec(spec.status());
  const absl::Status fits = jobspec::CheckJobFits(*spec);
  if (!fits.ok()) return InfeasibleJob(fits);
  return wire::ToProto(*spec);
}

absl::StatusOr<v1::SubmitResponse> Coordinator::Submit(
    const v1::SubmitRequest& request) {
  if (shutting_down_) return ShuttingDown();
  EVENSTEP_ASSIGN_OR_RETURN(const v1::JobSpec spec, Normalise(request));
  v1::SubmitResponse response;
  JobRecord* record = book_.Find(request.job_id());
  if (record != nullptr) {
    if (!google::protobuf::util::MessageDifferencer::Equals(record->job.spec(),
                                                            spec)) {
      return JobExistsWithOtherSpec(request.job_id());
    }
    *response.mutable_job() = record->job;
    return response;
  }
  if (!book_.health().ok()) return StoreNotWell(book_.health());
  const auto created = book_.Create(request.job_id(), spec);
  if (!created.ok()) {
    parts_.metrics.CountStoreError();
    return StoreNotWell(created.status());
  }
  Log(LogLevel::kInfo, "job_submitted",
      {{"job", request.job_id()}, {"ranks", spec.ranks()}});
  Schedule();
  *response.mutable_job() = book_.Find(request.job_id())->job;
  response.set_created(true);
  PumpFollowers();
  return response;
}

absl::StatusOr<v1::GetResponse> Coordinator::Get(
    const v1::GetRequest& request) {
  const JobRecord* const record = book_.Find(request.job_id());
  if (record == nullptr) return JobNotFound(request.job_id());
  v1::GetResponse response;
  *response.mutable_job() = record->job;
  return response;
}

absl::StatusOr<v1::ListResponse> Coordinator::List(
    const v1::ListRequest& request) {
  int64_t before = INT64_MAX;
  if (!request.page_token().empty() &&
      !absl::SimpleAtoi(request.page_token(), &before)) {
    return absl::InvalidArgumentError("the page token is not one of ours");
  }
  if (request.page_size() < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("page_size is ", request.page_size()));
  }
  const int page_size = std::min(
      request.page_size() == 0 ? kDefaultPage : request.page_size(), kMaxPage);
  std::vector<JobRecord*> all = book_.All();
  std::reverse(all.begin(), all.end());
  v1::ListResponse response;
  size_t bytes = 0;
  int64_t last = 0;
  for (const JobRecord* record : all) {
    if (record->arrival >= before || !Wanted(request, *record)) continue;
    v1::Job job = WithoutSteps(record->job);
    bytes += job.ByteSizeLong();
    const bool full = response.jobs_size() >= page_size ||
                      (bytes > kMaxPageBytes && response.jobs_size() > 0);
    if (full) {
      response.set_next_page_token(absl::StrCat(last));
      break;
    }
    *response.add_jobs() = std::move(job);
    last = record->arrival;
  }
  return response;
}

absl::StatusOr<v1::CancelResponse> Coordinator::Cancel(
    const v1::CancelRequest& request) {
  JobRecord* record = book_.Find(request.job_id());
  if (record == nullptr) return JobNotFound(request.job_id());
  const std::string message(Utf8Prefix(
      request.message().empty() ? "cancelled by a user" : request.message(),
      kMaxCancelBytes));
  if (record->status.state == JobState::kQueued) {
    JobRecord changed = *record;
    changed.job.set_queue_position(0);
    const absl::Status moved = book_.MoveDurably(
        std::move(changed),
        {JobAction::kCancelQueued, JobState::kCancelled, "CANCELLED", message});
    if (!moved.ok()) return StoreNotWell(moved);
    parts_.metrics.CountFinishedJob(JobState::kCancelled);
    supervisor_.ForgetLostStarts(request.job_id());
  } else if (!IsFinal(record->status.state)) {
    const absl::Status stored = supervisor_.Cancel(*record, message);
    if (!stored.ok()) {
      parts_.metrics.CountStoreError();
      return StoreNotWell(stored);
    }
  }
  PumpFollowers();
  v1::CancelResponse response;
  *response.mutable_job() = book_.Find(request.job_id())->job;
  return response;
}

void Coordinator::OnHello(const std::shared_ptr<AgentLink>& link,
                          const v1::AgentHello& hello) {
  if (shutting_down_) return link->Close(ShuttingDown());
  // After a restart only the attempts know whose a name is, for one lease.
  if (Now() < allocate_from_ && !supervisor_.MayTakeName(hello)) {
    return link->Close(absl::AlreadyExistsError(absl::StrCat(
        "node name '", hello.node(),
        "' is another agent's, which may still come back; give each agent its "
        "own --node")));
  }
  const auto kind = nodes_.Hello(hello, link, Now());
  if (!kind.ok()) return link->Close(kind.status());
  Log(LogLevel::kInfo, "node_connected",
      {{"node", hello.node()},
       {"slots", hello.slots()},
       {"running", hello.running_size()}});
  v1::CoordinatorMessage message;
  v1::Welcome* const welcome = message.mutable_welcome();
  welcome->set_heartbeat_interval_ms(
      absl::ToInt64Milliseconds(options_.heartbeat_interval));
  welcome->set_lease_ms(absl::ToInt64Milliseconds(options_.times.lease));
  welcome->set_version(options_.version);
  welcome->set_reconnect_budget_ms(
      absl::ToInt64Milliseconds(options_.times.reconnect_budget));
  link->Send(message);
  supervisor_.OnHello(hello, *kind);
}

void Coordinator::OnAgentMessage(const std::shared_ptr<AgentLink>& link,
                                 const v1::AgentMessage& message) {
  Node* const node = nodes_.NodeOf(link.get());
  if (message.has_hello() && node == nullptr) {
    OnHello(link, message.hello());
  } else if (node == nullptr || message.has_hello()) {
    return link->Close(absl::FailedPreconditionError(
        "a stream begins with one hello, and another stream replaces it"));
  } else {
    nodes_.Renew(*node, Now());
    if (message.abandon().reason() == "AGENT_STOPPING") node->leaving = true;
    if (!message.has_heartbeat()) supervisor_.OnMessage(node->name, message);
  }
  PumpFollowers();
}

void Coordinator::OnAgentGone(const AgentLink* link) {
  const Node* const node = nodes_.NodeOf(link);
  if (node == nullptr) return;  // another stream has replaced it
  nodes_.Disconnect(link);
  supervisor_.OnDisconnected(node->name);
  PumpFollowers();
}

void Coordinator::HandleRendezvous(const v1::RendezvousRequest& request,
                                   Rendezvous::Answer answer) {
  if (shutting_down_) return answer(ShuttingDown());
  rendezvous_.Handle(request, Now(), std::move(answer));
}

std::vector<JobRecord*> Coordinator::Queue() {
  return book_.InState(JobState::kQueued);
}

void Coordinator::ShowSettling() {
  int position = 0;
  for (JobRecord* record : Queue()) {
    record->job.set_queue_position(++position);
    record->job.set_reason("SETTLING");
    record->job.set_message(
        "the coordinator restarted; nodes have one lease to come back");
  }
}

void Coordinator::Schedule() {
  if (shutting_down_) return;
  if (Now() < allocate_from_) return ShowSettling();
  while (StartOne()) {
  }
}

// Starts the first job that can run; the others learn why they wait.
bool Coordinator::StartOne() {
  std::vector<JobRecord*> queue = Queue();
  std::vector<WaitingJob> waiting;
  for (const JobRecord* record : queue) {
    waiting.push_back({record->job.job_id(), record->job.spec().ranks()});
  }
  QueueVerdict verdict =
      JudgeQueue(waiting, nodes_.Free(supervisor_.UsedSlots()));
  for (size_t i = 0; i < queue.size(); ++i) {
    v1::Job& job = queue[i]->job;
    job.set_queue_position(static_cast<int>(i) + 1);
    job.set_reason(verdict.pending[i].reason);
    job.set_message(verdict.pending[i].message);
  }
  if (!verdict.start || !book_.health().ok()) return false;
  JobRecord next = *queue[verdict.start->index];
  next.job.set_queue_position(0);
  const absl::Status begun = supervisor_.Begin(next, verdict.start->shares);
  if (begun.ok()) return true;
  Log(LogLevel::kError, "attempt_not_started",
      {{"job", next.job.job_id()}, {"error", begun}});
  return false;
}

void Coordinator::Flush() {
  if (Now() < next_flush_) return;
  next_flush_ = Now() + options_.flush_interval;
  const absl::Status flushed = book_.Flush();
  if (flushed.ok()) return;
  parts_.metrics.CountStoreError();
  next_flush_ = Now() + absl::Seconds(1);
  Log(LogLevel::kError, "store_failed", {{"error", flushed}});
}

void Coordinator::PumpFollowers() {
  for (const std::string& job_id : book_.TakeTouched()) {
    followers_.PumpJob(job_id);
  }
}

void Coordinator::UpdateGauges() {
  if (Now() < next_gauges_) return;
  next_gauges_ = Now() + kGaugeInterval;
  std::map<JobState, int> jobs;
  for (const JobRecord* record : book_.All()) ++jobs[record->status.state];
  parts_.metrics.SetJobs(jobs);
  int connected = 0, slots = 0, used = 0;
  for (const auto& [name, node] : nodes_.nodes()) {
    if (node.link == nullptr) continue;
    ++connected;
    slots += node.slots;
  }
  for (const auto& [name, taken] : supervisor_.UsedSlots()) used += taken;
  parts_.metrics.SetNodes(connected,
                          static_cast<int>(nodes_.nodes().size()) - connected);
  parts_.metrics.SetSlots(slots, used);
  parts_.metrics.RemoveOld(Now(), options_.metrics_retention);
}

// A coordinator that was stopped for long has heard nobody: that is its own
// silence, and every node gets one lease to be heard or to come back.
void Coordinator::ForgiveOwnSleep() {
  const absl::Duration slept = Now() - std::exchange(last_tick_, Now());
  if (slept < options_.times.lease / 2) return;
  nodes_.RenewAll(Now());
}

// The oldest ends first, and only a few at a time: the disk is slow.
void Coordinator::ForgetOldJobs() {
  if (Now() < next_forgetting_ || !book_.health().ok()) return;
  next_forgetting_ = Now() + kForgettingInterval;
  std::vector<const JobRecord*> ended;
  for (const JobRecord* record : book_.All()) {
    if (IsFinal(record->status.state)) ended.push_back(record);
  }
  std::stable_sort(
      ended.begin(), ended.end(),
      [](const auto* a, const auto* b) { return EndOf(*a) < EndOf(*b); });
  const int limit = options_.retained_jobs;
  int too_many = limit == 0 ? 0 : static_cast<int>(ended.size()) - limit;
  for (size_t i = 0; i < std::min(ended.size(), kForgottenAtOnce); ++i) {
    const bool too_old =
        options_.retained_for > absl::ZeroDuration() &&
        EndOf(*ended[i]) < parts_.clock.Wall() - options_.retained_for;
    if (!too_old && too_many-- <= 0) return;
    const std::string job_id = ended[i]->job.job_id();
    const absl::Status removed = book_.Remove(job_id);
    Log(removed.ok() ? LogLevel::kInfo : LogLevel::kError, "job_forgotten",
        {{"job", job_id}, {"status", removed}});
    if (!removed.ok()) return parts_.metrics.CountStoreError();
  }
  if (ended.size() > kForgottenAtOnce) {
    next_forgetting_ = Now() + kForgettingPause;
  }
}

void Coordinator::Tick() {
  ForgiveOwnSleep();
  for (const std::string& node : nodes_.TakeLost(Now())) {
    supervisor_.OnLost(node);
  }
  supervisor_.Tick();
  rendezvous_.Expire(Now());
  Flush();
  Schedule();
  nodes_.ForgetLost(supervisor_.UsedSlots());
  ForgetOldJobs();
  PumpFollowers();
  UpdateGauges();
}

void Coordinator::Shutdown() {
  shutting_down_ = true;
  const absl::Status flushed = book_.Flush();
  if (!flushed.ok())
    Log(LogLevel::kError, "store_failed", {{"error", flushed}});
  PumpFollowers();
  followers_.FinishAll(ShuttingDown());
  rendezvous_.CloseAll(ShuttingDown());
  for (const auto& [name, node] : nodes_.nodes()) {
    if (node.link != nullptr) node.link->Close(ShuttingDown());
  }
}

}  // namespace evenstep::coordinator
