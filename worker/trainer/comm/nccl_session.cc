#include "worker/trainer/comm/nccl_session.h"

#include <thread>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"

namespace evenstep::trainer {
namespace {

// A short collective is over before the first sleep.
constexpr int kPollsBeforeSleep = 200;
constexpr absl::Duration kPollSleep = absl::Microseconds(50);

bool IsError(NcclResult result) {
  return result != NcclResult::kSuccess && result != NcclResult::kInProgress;
}

absl::StatusCode CodeOf(NcclResult result) {
  switch (result) {
    case NcclResult::kUnhandledCudaError:
    case NcclResult::kInvalidArgument:
    case NcclResult::kInvalidUsage:
      return absl::StatusCode::kInternal;
    default:
      return absl::StatusCode::kUnavailable;
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<NcclSession>> NcclSession::Open(
    Parts parts, const NcclId& id) {
  std::unique_ptr<NcclSession> session(new NcclSession(std::move(parts)));
  absl::Status status = session->SetUp(id);
  if (!status.ok()) {
    status = session->Break(std::move(status));
    session->AbortInNccl();
    return status;
  }
  return session;
}

absl::Status NcclSession::SetUp(const NcclId& id) {
  const absl::Duration limit = parts_.options.timeout;
  NcclResult result = NcclResult::kSuccess;
  Watched("set-up", limit + parts_.options.abort_grace, [&] {
    result = parts_.table->CommInit(&comm_, parts_.size, id, parts_.rank);
  });
  if (IsError(result)) return NcclError(result, "set-up");
  return Poll("set-up", limit, [this] { return Enqueued("set-up"); });
}

NcclSession::~NcclSession() {
  if (state().ok() && Close()) return;
  AbortInNccl();
}

// Peers may be gone: then finalize does not end, and the group is aborted.
bool NcclSession::Close() {
  NcclResult result = NcclResult::kSuccess;
  Watched("finalize", parts_.options.abort_grace,
          [&] { result = parts_.table->CommFinalize(comm_); });
  if (IsError(result)) return false;
  const absl::Status flushed = Poll("finalize", parts_.options.abort_grace,
                                    [this] { return Enqueued("finalize"); });
  if (!flushed.ok()) return false;
  Watched("destroy", parts_.options.abort_grace,
          [this] { parts_.table->CommDestroy(comm_); });
  return true;
}

absl::Status NcclSession::Run(CollectiveKind kind, const Enqueue& enqueue) {
  {
    absl::MutexLock lock(&mutex_);
    if (!state_.ok()) return state_;
    in_call_ = true;
  }
  const std::string what = absl::StrCat(CollectiveName(kind), " ", ++num_run_);
  absl::Status status = Collective(what, enqueue);
  {
    absl::MutexLock lock(&mutex_);
    in_call_ = false;
    if (status.ok() && state_.ok()) return status;
  }
  status = Break(std::move(status));
  AbortInNccl();
  return status;
}

absl::Status NcclSession::Collective(absl::string_view what,
                                     const Enqueue& enqueue) {
  const auto stream_done = [&] { return StreamDone(what); };
  EVENSTEP_RETURN_IF_ERROR(Poll(what, collective_limit(), stream_done));
  const Clock& clock = *parts_.options.clock;
  const absl::Duration begin = clock.Monotonic();
  const absl::Cleanup count = [&] {
    collective_ns_ += absl::ToInt64Nanoseconds(clock.Monotonic() - begin);
  };
  NcclResult result = NcclResult::kSuccess;
  Watched(what, collective_limit() + parts_.options.abort_grace, [&] {
    result = enqueue({comm_, parts_.options.stream});
  });
  if (IsError(result)) return NcclError(result, what);
  EVENSTEP_RETURN_IF_ERROR(
      Poll(what, collective_limit(), [&] { return Enqueued(what); }));
  const absl::Duration left = collective_limit() - (clock.Monotonic() - begin);
  return Poll(what, left, stream_done);
}

absl::StatusOr<bool> NcclSession::Enqueued(absl::string_view what) {
  NcclResult result = NcclResult::kSuccess;
  const NcclResult asked = parts_.table->CommAsyncError(comm_, &result);
  if (IsError(asked)) return NcclError(asked, what);
  if (IsError(result)) return NcclError(result, what);
  return result == NcclResult::kSuccess;
}

absl::StatusOr<bool> NcclSession::StreamDone(absl::string_view what) {
  // Ask for errors first: a stream never ends behind one.
  EVENSTEP_RETURN_IF_ERROR(Enqueued(what).status());
  switch (parts_.table->QueryStream(parts_.options.stream)) {
    case StreamState::kDone:
      return true;
    case StreamState::kPending:
      return false;
    case StreamState::kFailed:
      break;
  }
  return NcclError(NcclResult::kUnhandledCudaError, what);
}

absl::Status NcclSession::Poll(absl::string_view what, absl::Duration limit,
                               const Ask& over) {
  const Clock& clock = *parts_.options.clock;
  const absl::Duration begin = clock.Monotonic();
  for (int polls = 0;; ++polls) {
    EVENSTEP_RETURN_IF_ERROR(state());
    EVENSTEP_ASSIGN_OR_RETURN(const bool is_over, over());
    if (is_over) return absl::OkStatus();
    const absl::Duration waited = clock.Monotonic() - begin;
    if (waited > limit) {
      return absl::DeadlineExceededError(
          absl::StrCat("NCCL ", what, " of group ", parts_.group, " (rank ",
                       parts_.rank, " of ", parts_.size, ") is not over after ",
                       absl::FormatDuration(waited), "; its limit is ",
                       absl::FormatDuration(limit)));
    }
    if (polls < kPollsBeforeSleep) {
      std::this_thread::yield();
    } else if (parts_.options.sleep) {
      parts_.options.sleep(kPollSleep);
    } else {
      absl::SleepFor(kPollSleep);
    }
  }
}

absl::Status NcclSession::NcclError(NcclResult result,
                                    absl::string_view what) const {
  return absl::Status(
      CodeOf(result),
      absl::StrCat("NCCL ", what, " of group ", parts_.group, " (rank ",
                   parts_.rank, " of ", parts_.size, ") failed with code ",
                   static_cast<int>(result), ": ",
                   parts_.table->ErrorText(result, comm_)));
}

absl::Status NcclSession::Break(absl::Status error) {
  absl::MutexLock lock(&mutex_);
  if (state_.ok()) state_ = std::move(error);
  return state_;
}

absl::Status NcclSession::state() const {
  absl::MutexLock lock(&mutex_);
  return state_;
}

void NcclSession::Abort(absl::string_view why) {
  bool busy = false;
  {
    absl::MutexLock lock(&mutex_);
    if (!state_.ok()) return;
    state_ = absl::AbortedError(absl::StrCat("collectives aborted: ", why));
    busy = in_call_;
  }
  if (!busy) return AbortInNccl();
  // The thread in the collective sees the state at its next poll and aborts; it
  // may also be stuck in NCCL.
  Watched("the aborted collective", parts_.options.abort_grace, [this] {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(&abort_begun_));
  });
}

void NcclSession::AbortInNccl() {
  {
    absl::MutexLock lock(&mutex_);
    if (abort_begun_) {
      mutex_.Await(absl::Condition(&abort_done_));
      return;
    }
    abort_begun_ = true;
  }
  // A set-up that failed at once has left nothing to abort.
  if (comm_ != nullptr) {
    Watched("abort", parts_.options.abort_grace,
            [this] { parts_.table->CommAbort(comm_); });
  }
  absl::MutexLock lock(&mutex_);
  abort_done_ = true;
}

}  // namespace evenstep::trainer
