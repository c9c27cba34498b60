// What users ask of the coordinator: to take a job, to show jobs, to end one.

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "coordinator/server/coordinator.h"
#include "coordinator/server/job_errors.h"
#include "coordinator/server/request_check.h"
#include "google/protobuf/util/message_differencer.h"
#include "jobspec/job_spec.h"
#include "jobspec/plan_request.h"
#include "wire/job_spec_proto.h"

namespace evenstep::coordinator {
namespace {

constexpr size_t kMaxCancelBytes = 4 << 10;
constexpr int kDefaultPage = 100;
constexpr int kMaxPage = 1000;
constexpr size_t kMaxPageBytes = 4 << 20;

// Of the request; empty: any.
std::set<JobState> WantedStates(const v1::ListRequest& request) {
  std::set<JobState> states;
  for (const int state : request.states()) {
    states.insert(static_cast<JobState>(state));
  }
  return states;
}

}  // namespace

absl::StatusOr<v1::JobSpec> Coordinator::Normalise(
    const v1::SubmitRequest& request) {
  EVENSTEP_RETURN_IF_ERROR(CheckRequest(request));
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
    *response.mutable_job() = Shown(*record);
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
  *response.mutable_job() = Shown(*book_.Find(request.job_id()));
  response.set_created(true);
  PumpFollowers();
  return response;
}

absl::StatusOr<v1::GetResponse> Coordinator::Get(
    const v1::GetRequest& request) {
  const JobRecord* const record = book_.Find(request.job_id());
  if (record == nullptr) return JobNotFound(request.job_id());
  v1::GetResponse response;
  *response.mutable_job() = Shown(*record);
  return response;
}

absl::StatusOr<v1::ListResponse> Coordinator::List(
    const v1::ListRequest& request) {
  EVENSTEP_RETURN_IF_ERROR(CheckRequest(request));
  int64_t before = INT64_MAX;
  if (!request.page_token().empty()) {
    (void)absl::SimpleAtoi(request.page_token(), &before);  // it is checked
  }
  const int page_size = std::min(
      request.page_size() == 0 ? kDefaultPage : request.page_size(), kMaxPage);
  const std::set<JobState> states = WantedStates(request);
  v1::ListResponse response;
  response.set_num_jobs(book_.Count(states));
  size_t bytes = 0;
  int64_t last = 0;
  // One more than a page holds shows whether there is another.
  for (const JobRecord* record :
       book_.NewestBefore(before, states, static_cast<size_t>(page_size) + 1)) {
    v1::Job job = Shown(*record);
    job.clear_recent_steps();
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
    const absl::Status moved = book_.MoveDurably(
        *record,
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

}  // namespace evenstep::coordinator
