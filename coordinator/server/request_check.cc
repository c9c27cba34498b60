#include "coordinator/server/request_check.h"

#include <cstddef>
#include <cstdint>
#include <limits>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "coordinator/server/job_errors.h"
#include "wire/message_bounds.h"

namespace evenstep::coordinator {
namespace {

constexpr size_t kMaxSpecBytes = 256 << 10;
// Of whole requests, fields that this version does not know included.
constexpr size_t kMaxSubmitBytes = 512 << 10;
constexpr size_t kMaxCancelBytes = 64 << 10;
constexpr size_t kMaxRequestBytes = 4 << 10;
constexpr int64_t kMaxCursor = std::numeric_limits<int64_t>::max();

template <typename Request>
absl::Status CheckBytes(const Request& request, size_t most) {
  const size_t bytes = request.ByteSizeLong();
  if (bytes <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the request has ", bytes, " bytes; at most ", most));
}

// An id that no job can have, but of a legal length, names no job.
absl::Status CheckJobIdBytes(const std::string& id) {
  return wire::CheckText("job_id", id, wire::kMaxJobIdBytes);
}

}  // namespace

absl::Status CheckRequest(const v1::SubmitRequest& request) {
  if (!wire::IsLegalJobId(request.job_id())) {
    return InvalidSpec(absl::InvalidArgumentError(
        absl::StrCat("a job id has 1 to ", wire::kMaxJobIdBytes,
                     " of [a-z0-9-] and begins with a letter; this one has ",
                     request.job_id().size(), " bytes")));
  }
  if (request.spec().ByteSizeLong() > kMaxSpecBytes) {
    return InvalidSpec(absl::InvalidArgumentError(
        absl::StrCat("the spec has ", request.spec().ByteSizeLong(),
                     " bytes; the bound is ", kMaxSpecBytes)));
  }
  return CheckBytes(request, kMaxSubmitBytes);
}

absl::Status CheckRequest(const v1::GetRequest& request) {
  EVENSTEP_RETURN_IF_ERROR(CheckBytes(request, kMaxRequestBytes));
  return CheckJobIdBytes(request.job_id());
}

absl::Status CheckRequest(const v1::ListRequest& request) {
  EVENSTEP_RETURN_IF_ERROR(CheckBytes(request, kMaxRequestBytes));
  if (request.page_size() < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("page_size is ", request.page_size()));
  }
  if (request.states_size() > v1::JobState_ARRAYSIZE) {
    return absl::InvalidArgumentError(absl::StrCat(
        "states has ", request.states_size(), " entries; there are ",
        v1::JobState_ARRAYSIZE, " states"));
  }
  int64_t cursor = 0;
  if (!request.page_token().empty() &&
      (!absl::SimpleAtoi(request.page_token(), &cursor) || cursor < 0)) {
    return absl::InvalidArgumentError("the page token is not one of ours");
  }
  return absl::OkStatus();
}

absl::Status CheckRequest(const v1::CancelRequest& request) {
  EVENSTEP_RETURN_IF_ERROR(CheckBytes(request, kMaxCancelBytes));
  return CheckJobIdBytes(request.job_id());
}

absl::Status CheckRequest(const v1::WatchRequest& request) {
  EVENSTEP_RETURN_IF_ERROR(CheckBytes(request, kMaxRequestBytes));
  EVENSTEP_RETURN_IF_ERROR(CheckJobIdBytes(request.job_id()));
  EVENSTEP_RETURN_IF_ERROR(wire::CheckRange<int64_t>(
      "after_sequence", request.after_sequence(), 0, kMaxCursor));
  return wire::CheckRange<int64_t>("after_step", request.after_step(), -1,
                                   kMaxCursor);
}

absl::Status CheckRequest(const v1::LogsRequest& request) {
  EVENSTEP_RETURN_IF_ERROR(CheckBytes(request, kMaxRequestBytes));
  EVENSTEP_RETURN_IF_ERROR(CheckJobIdBytes(request.job_id()));
  return wire::CheckRange<int64_t>("after_sequence", request.after_sequence(),
                                   0, kMaxCursor);
}

}  // namespace evenstep::coordinator
