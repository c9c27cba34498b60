// What users ask of the coordinator: to take a job, to show jobs, to end one.

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "coordinator/server/coordinator.h"
#include "coordinator/server/job_errors.h"
#include "google/protobuf/util/message_differencer.h"
#include "jobspec/job_spec.h"
#include "wire/job_spec_proto.h"

namespace evenstep::coordinator {
namespace {

constexpr size_t kMaxSpecBytes = 256 << 10;
constexpr size_t kMaxJobIdBytes = 63;
constexpr size_t kMaxCancelBytes = 4 << 10;
constexpr int kDefaultPage = 100;
constexpr int kMaxPage = 1000;
constexpr size_t kMaxPageBytes = 4 << 20;

bool IsJobId(const std::string& id) {
  return !id.empty() && id.size() <= kMaxJobIdBytes &&
         absl::ascii_islower(id[0]) &&
         std::all_of(id.begin(), id.end(), [](char c) {
           return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '-';
         });
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

}  // namespace evenstep::coordinator
