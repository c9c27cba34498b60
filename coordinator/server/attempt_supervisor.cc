#include "coordinator/server/attempt_supervisor.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "google/protobuf/util/time_util.h"
#include "wire/job_spec_proto.h"

namespace evenstep::coordinator {
namespace {

using google::protobuf::util::TimeUtil;

v1::AttemptId IdOf(const v1::Job& job) {
  v1::AttemptId id;
  id.set_job_id(job.job_id());
  id.set_attempt(job.attempt());
  id.set_generation(job.generation());
  return id;
}

std::vector<NodeShare> SharesOf(const v1::Job& job) {
  std::vector<NodeShare> shares;
  for (const v1::Placement& placement : job.placements()) {
    shares.push_back(
        {placement.node(), placement.first_rank(), placement.num_ranks()});
  }
  return shares;
}

// The record of the job's next attempt.
JobRecord NextAttempt(const JobRecord& record,
                      const std::vector<NodeShare>& shares,
                      const NodeTable& nodes) {
  JobRecord next = record;
  v1::Job& job = next.job;
  job.set_attempt(job.attempt() + 1);
  job.set_generation(job.generation() + 1);
  job.set_steps_done(0);
  job.clear_placements();
  job.clear_recent_steps();
  job.clear_totals();
  job.clear_data();
  job.clear_costs();
  job.clear_weights_path();
  job.clear_weights_steps();
  job.clear_weights_node();
  job.clear_weights_note();
  job.clear_emulated_link();
  if (job.spec().has_costs()) *job.mutable_costs() = job.spec().costs();
  for (const NodeShare& share : shares) {
    v1::Placement* const placement = job.add_placements();
    placement->set_node(share.node);
    placement->set_first_rank(share.first_rank);
    placement->set_num_ranks(share.num_ranks);
    if (const Node* const node = nodes.Find(share.node)) {
      placement->set_folder_id(node->folder_id);
    }
  }
  return next;
}

std::string NodeNames(const std::vector<NodeShare>& shares) {
  return absl::StrJoin(shares, ", ", [](std::string* out, const auto& share) {
    absl::StrAppend(out, share.node);
  });
}

}  // namespace

AttemptSupervisor::AttemptSupervisor(SupervisorParts parts,
                                     const SupervisorTimes& times)
    : parts_(std::move(parts)), times_(times) {}

JobRecord& AttemptSupervisor::RecordOf(const Live& live) {
  return *parts_.book.Find(live.attempt.id().job_id());
}

AttemptSupervisor::Live& AttemptSupervisor::Add(const v1::Job& job,
                                                const jobspec::JobSpec& spec) {
  auto live = std::make_unique<Live>(IdOf(job), SharesOf(job), spec);
  for (const v1::Placement& placement : job.placements()) {
    live->folder_ids[placement.node()] = placement.folder_id();
  }
  return *(live_[job.job_id()] = std::move(live));
}

AttemptSupervisor::Live* AttemptSupervisor::Find(const v1::AttemptId& id) {
  const auto it = live_.find(id.job_id());
  if (it == live_.end()) return nullptr;
  Live& live = *it->second;
  return live.attempt.id().attempt() == id.attempt() ? &live : nullptr;
}

absl::Status AttemptSupervisor::Begin(const JobRecord& record,
                                      const std::vector<NodeShare>& shares) {
  EVENSTEP_ASSIGN_OR_RETURN(const jobspec::JobSpec spec,
                            wire::FromProto(record.job.spec()));
  JobRecord next = NextAttempt(record, shares, parts_.nodes);
  const v1::Job job = next.job;
  const bool is_first = !job.has_started();
  const std::string& job_id = job.job_id();
  EVENSTEP_RETURN_IF_ERROR(parts_.book.MoveDurably(
      std::move(next),
      {JobAction::kAllocate, JobState::kQueued, "ALLOCATED",
       absl::StrCat("attempt ", job.attempt(), " starts ",
                    Counted(spec.ranks, "rank"), " on ", NodeNames(shares))}));
  if (is_first) {
    const int64_t submitted_ns =
        TimeUtil::TimestampToNanoseconds(job.submitted());
    parts_.metrics.ObserveQueueWait(parts_.clock.Wall() -
                                    absl::FromUnixNanos(submitted_ns));
  }
  Live& live = Add(job, spec);
  live.start_deadline = Now() + spec.timeouts.start;
  parts_.rendezvous.Open(live.attempt.id());
  Log(LogLevel::kInfo, "attempt_started",
      {{"job", job_id},
       {"attempt", job.attempt()},
       {"nodes", NodeNames(live.attempt.shares())}});
  SendAssignments(live);
  return absl::OkStatus();
}

void AttemptSupervisor::SendAssignments(Live& live) {
  for (const NodeShare& share : live.attempt.shares()) {
    SendAssignment(live, share);
  }
}

void AttemptSupervisor::SendAssignment(const Live& live,
                                       const NodeShare& share) {
  const v1::Job& job = RecordOf(live).job;
  v1::CoordinatorMessage message;
  v1::Assignment* const assignment = message.mutable_assignment();
  *assignment->mutable_attempt() = live.attempt.id();
  *assignment->mutable_spec() = job.spec();
  *assignment->mutable_placements() = job.placements();
  assignment->set_first_rank(share.first_rank);
  assignment->set_num_ranks(share.num_ranks);
  SendTo(live, share.node, message);
}

// The node holds its share; with the last one the trainers start.
void AttemptSupervisor::MarkReady(Live& live, const std::string& node) {
  live.ready.insert(node);
  if (live.stopping) return;
  // Its trainers run: the word to begin has arrived.
  if (live.begun && live.heard.contains(node)) return;
  if (live.begun) return SendBegin(live, node);
  const std::vector<NodeShare>& shares = live.attempt.shares();
  live.begun = std::all_of(shares.begin(), shares.end(), [&](const auto& s) {
    return live.ready.contains(s.node);
  });
  if (!live.begun) return;
  for (const NodeShare& share : shares) SendBegin(live, share.node);
}

void AttemptSupervisor::SendBegin(Live& live, const std::string& node) {
  v1::CoordinatorMessage message;
  *message.mutable_begin()->mutable_attempt() = live.attempt.id();
  SendTo(live, node, message);
  Resend(live, node);
}

void AttemptSupervisor::CheckStart(Live& live) {
  if (RecordOf(live).status.state != JobState::kStarting ||
      Now() < live.start_deadline) {
    return;
  }
  if (!live.begun) {
    return PutBack(
        live, absl::StrCat("not every node took its ranks within ",
                           absl::FormatDuration(live.spec.timeouts.start)));
  }
  AddCause(live,
           {"START_TIMEOUT",
            absl::StrCat("ranks ",
                         absl::StrJoin(live.attempt.RanksNotStarted(), ", "),
                         " did not reach the first gate within ",
                         absl::FormatDuration(live.spec.timeouts.start))});
}

void AttemptSupervisor::Restore(JobRecord& record) {
  // An attempt whose spec cannot be read any more is ended all the same.
  const auto spec = wire::FromProto(record.job.spec());
  Live& live = Add(record.job, spec.ok() ? *spec : jobspec::JobSpec());
  live.begun = true;  // as far as anybody knows
  for (const NodeShare& share : live.attempt.shares()) {
    live.lost_at[share.node] = Now() + times_.lease;
  }
  if (record.status.state == JobState::kStopping) {
    live.stopping = true;
  } else {
    Stop(live, {JobAction::kStop, JobState::kQueued, "COORDINATOR_RESTARTED",
                absl::StrCat("the coordinator restarted; attempt ",
                             record.job.attempt(),
                             " is ended and the job queued again")});
  }
  live.end_at = Now();
}

void AttemptSupervisor::Tick() {
  EndLeftovers();
  std::vector<std::string> job_ids;
  for (const auto& [job_id, live] : live_) job_ids.push_back(job_id);
  for (const std::string& job_id : job_ids) {
    CheckTimes(*live_.at(job_id));
    FinishIfGone(job_id);
  }
}

std::map<std::string, int> AttemptSupervisor::UsedSlots() const {
  std::map<std::string, int> used;
  for (const auto& [job_id, live] : live_) {
    for (const NodeShare& share : live->attempt.shares()) {
      if (live->attempt.IsGone(share.node)) continue;
      used[share.node] += share.num_ranks;
    }
  }
  return used;
}

}  // namespace evenstep::coordinator
