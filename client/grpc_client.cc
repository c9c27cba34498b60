#include "client/grpc_client.h"

#include <optional>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "client/convert.h"
#include "client/health_check.h"
#include "client/resume.h"
#include "client/submission.h"
#include "rpc/channel.h"
#include "rpc/errors.h"
#include "rpc/transport.h"
#include "wire/job_spec_proto.h"

namespace evenstep::client {
namespace {

// gRPC's sentences of common causes in other words; others as they are.
std::string CauseOf(absl::string_view sentence) {
  if (absl::StrContains(sentence, "Connection refused")) {
    return "nothing listens there (connection refused); is it running, and is "
           "this its --listen address?";
  }
  if (absl::StrContains(sentence, "Failed parsing HTTP/2")) {
    return "another program listens there: it does not speak gRPC";
  }
  if (absl::StrContains(sentence, "DNS resolution failed")) {
    return "no address is known for this host (DNS)";
  }
  return std::string(sentence);
}

// Says whom we could not reach: gRPC's own sentence names a socket error only.
absl::Status Explain(const absl::Status& status, const std::string& address) {
  if (!absl::IsUnavailable(status) || !rpc::ReasonOf(status).empty()) {
    return status;
  }
  return absl::UnavailableError(absl::StrCat("cannot reach the coordinator at ",
                                             address, ": ",
                                             CauseOf(status.message())));
}

constexpr char kNeverSent[] = "evenstep.client/never-sent";

// There was no connection to send on. gRPC says so in words only.
bool WasRefused(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAVAILABLE &&
         (absl::StartsWith(status.error_message(),
                           "failed to connect to all") ||
          absl::StartsWith(status.error_message(), "DNS resolution failed"));
}

// Cancels the call when the caller's token asks for it.
class CallContext {
 public:
  explicit CallContext(const StreamOptions& stream)
      : on_stop_(stream.stop, [this] { context_.TryCancel(); }) {
    if (stream.deadline != absl::InfiniteFuture()) {
      context_.set_deadline(absl::ToChronoTime(stream.deadline));
    }
  }
  grpc::ClientContext* get() { return &context_; }

 private:
  grpc::ClientContext context_;
  std::stop_callback<std::function<void()>> on_stop_;
};

// Nothing for a kind that a newer coordinator sends.
std::optional<WatchItem> ItemOf(const v1::WatchResponse& response) {
  if (response.has_event()) return FromProto(response.event());
  if (response.has_step()) return FromProto(response.step());
  return std::nullopt;
}

}  // namespace

GrpcClient::GrpcClient(const ClientOptions& options)
    : options_(options),
      channel_(rpc::MakeChannel(options.coordinator)),
      stub_(v1::JobService::NewStub(channel_)) {}

absl::Status GrpcClient::Unary(const Call& call) const {
  RetryOptions retry_options;
  retry_options.first_budget = options_.retry_budget;
  retry_options.reconnect_budget = options_.retry_budget;
  retry_options.on_retry = options_.on_retry;
  retry_options.stop = options_.stop;
  Retry retry(retry_options);
  while (true) {
    StreamOptions bounds;
    bounds.stop = options_.stop;
    bounds.deadline = absl::Now() + options_.call_timeout;
    CallContext context(bounds);
    absl::Status status =
        Explain(rpc::FromGrpc(call(context.get())), options_.coordinator);
    if (status.ok()) return status;
    EVENSTEP_RETURN_IF_ERROR(retry.WaitBeforeNextTry(status));
  }
}

absl::StatusOr<SubmitResult> GrpcClient::Submit(const SubmitOptions& options) {
  EVENSTEP_ASSIGN_OR_RETURN(Submission submission, MakeSubmission(options));
  v1::SubmitRequest request;
  request.set_job_id(submission.job_id);
  *request.mutable_spec() = wire::ToProto(submission.spec);
  v1::SubmitResponse response;
  bool sent = false;
  absl::Status status = Unary([&](grpc::ClientContext* context) {
    grpc::Status answer = stub_->Submit(context, request, &response);
    sent = sent || !WasRefused(answer);
    return answer;
  });
  if (!status.ok() && !sent) status.SetPayload(kNeverSent, absl::Cord("1"));
  EVENSTEP_RETURN_IF_ERROR(status);
  return SubmitResult{FromProto(response.job()), response.created()};
}

absl::StatusOr<Job> GrpcClient::Get(const std::string& job_id) {
  EVENSTEP_RETURN_IF_ERROR(CheckUtf8("job id", job_id));
  v1::GetRequest request;
  request.set_job_id(job_id);
  v1::GetResponse response;
  EVENSTEP_RETURN_IF_ERROR(Unary([&](grpc::ClientContext* context) {
    return stub_->Get(context, request, &response);
  }));
  return FromProto(response.job());
}

absl::StatusOr<JobPage> GrpcClient::List(const ListOptions& options) {
  v1::ListRequest request;
  for (JobState state : options.states) request.add_states(ToProto(state));
  request.set_page_size(options.page_size);
  request.set_page_token(options.page_token);
  v1::ListResponse response;
  EVENSTEP_RETURN_IF_ERROR(Unary([&](grpc::ClientContext* context) {
    return stub_->List(context, request, &response);
  }));
  JobPage page;
  for (const v1::Job& job : response.jobs()) {
    page.jobs.push_back(FromProto(job));
  }
  page.next_page_token = response.next_page_token();
  page.num_jobs = response.num_jobs();
  return page;
}

absl::StatusOr<Job> GrpcClient::Cancel(const std::string& job_id,
                                       const std::string& message) {
  EVENSTEP_RETURN_IF_ERROR(CheckUtf8("job id", job_id));
  EVENSTEP_RETURN_IF_ERROR(CheckUtf8("message", message));
  v1::CancelRequest request;
  request.set_job_id(job_id);
  request.set_message(message);
  v1::CancelResponse response;
  EVENSTEP_RETURN_IF_ERROR(Unary([&](grpc::ClientContext* context) {
    return stub_->Cancel(context, request, &response);
  }));
  return FromProto(response.job());
}

RetryOptions GrpcClient::StreamRetry(const StreamOptions& stream) const {
  RetryOptions retry;
  retry.first_budget = options_.retry_budget;
  retry.reconnect_budget = options_.reconnect_budget;
  retry.deadline = stream.deadline;
  retry.stop = stream.stop;
  retry.on_retry = options_.on_retry;
  return retry;
}

absl::StatusOr<bool> GrpcClient::HasEnded(const std::string& job_id) {
  EVENSTEP_ASSIGN_OR_RETURN(Job job, Get(job_id));
  return IsFinal(job.state);
}

absl::Status GrpcClient::OpenWatch(const std::string& job_id,
                                   const WatchCursor& cursor,
                                   const StreamOptions& stream,
                                   const WatchHandler& handler) {
  EVENSTEP_RETURN_IF_ERROR(CheckUtf8("job id", job_id));
  v1::WatchRequest request;
  request.set_job_id(job_id);
  request.set_after_sequence(cursor.after_sequence);
  request.set_after_step(cursor.after_step);
  CallContext context(stream);
  auto reader = stub_->Watch(context.get(), request);
  v1::WatchResponse response;
  while (reader->Read(&response)) {
    const std::optional<WatchItem> item = ItemOf(response);
    if (!item || handler(*item) == Follow::kContinue) continue;
    context.get()->TryCancel();
    reader->Finish();
    return absl::OkStatus();
  }
  return Explain(rpc::FromGrpc(reader->Finish()), options_.coordinator);
}

absl::Status GrpcClient::Watch(const std::string& job_id, WatchCursor* cursor,
                               const StreamOptions& stream,
                               const WatchHandler& handler) {
  Retry retry(StreamRetry(stream));
  const WatchSource source = {
      .open =
          [&](const WatchCursor& from, const WatchHandler& deliver) {
            return OpenWatch(job_id, from, stream, deliver);
          },
      .has_ended = [&] { return HasEnded(job_id); }};
  return ResumeWatch(source, cursor, &retry, handler);
}

absl::Status GrpcClient::OpenLogs(const std::string& job_id,
                                  const LogCursor& cursor,
                                  const LogOptions& options,
                                  const StreamOptions& stream,
                                  const LogHandler& handler) {
  EVENSTEP_RETURN_IF_ERROR(CheckUtf8("job id", job_id));
  v1::LogsRequest request;
  request.set_job_id(job_id);
  request.set_after_sequence(cursor.after_sequence);
  request.set_follow(options.mode == LogMode::kFollow);
  CallContext context(stream);
  auto reader = stub_->Logs(context.get(), request);
  v1::LogsResponse response;
  while (reader->Read(&response)) {
    if (response.dropped() > 0 && options.on_dropped) {
      options.on_dropped(response.dropped());
    }
    for (const v1::LogLine& line : response.lines()) {
      if (handler(FromProto(line)) == Follow::kContinue) continue;
      context.get()->TryCancel();
      reader->Finish();
      return absl::OkStatus();
    }
  }
  return Explain(rpc::FromGrpc(reader->Finish()), options_.coordinator);
}

absl::Status GrpcClient::Logs(const std::string& job_id, LogCursor* cursor,
                              const LogOptions& options,
                              const StreamOptions& stream,
                              const LogHandler& handler) {
  Retry retry(StreamRetry(stream));
  const LogSource source = {
      .open =
          [&](const LogCursor& from, const LogHandler& deliver) {
            return OpenLogs(job_id, from, options, stream, deliver);
          },
      .has_ended = [&] { return HasEnded(job_id); }};
  return ResumeLogs(source, cursor, options.mode, &retry, handler);
}

absl::Status GrpcClient::Health() {
  bool serving = false;
  EVENSTEP_RETURN_IF_ERROR(Unary([&](grpc::ClientContext* context) {
    return CheckHealthOnce(channel_, context, &serving);
  }));
  if (serving) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(
      "the coordinator at ", options_.coordinator, " does not serve now"));
}

absl::StatusOr<std::string> GrpcClient::ServerVersion() {
  std::string version;
  v1::ListRequest request;
  request.set_page_size(1);
  EVENSTEP_RETURN_IF_ERROR(Unary([&](grpc::ClientContext* context) {
    v1::ListResponse response;
    grpc::Status status = stub_->List(context, request, &response);
    const auto& metadata = context->GetServerInitialMetadata();
    const auto found = metadata.find(rpc::kVersionMetadata);
    if (status.ok() && found != metadata.end()) {
      version.assign(found->second.data(), found->second.size());
    }
    return status;
  }));
  if (version.empty()) {
    return absl::UnimplementedError("the coordinator does not say its version");
  }
  return version;
}

std::unique_ptr<Client> Connect(const ClientOptions& options) {
  return std::make_unique<GrpcClient>(options);
}

bool NeverSent(const absl::Status& status) {
  return status.GetPayload(kNeverSent).has_value();
}

std::string ErrorReason(const absl::Status& status) {
  return rpc::ReasonOf(status);
}

}  // namespace evenstep::client
