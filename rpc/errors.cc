#include "rpc/errors.h"

#include "absl/strings/cord.h"
#include "base/text.h"
#include "evenstep/v1/errors.pb.h"

namespace evenstep::rpc {
namespace {

// Within a process the reason is a payload, readable in Status::ToString.
constexpr char kReasonPayload[] = "reason";
constexpr char kErrorInfoUrl[] = "type.googleapis.com/google.rpc.ErrorInfo";

std::string EncodeDetails(const absl::Status& status,
                          const std::string& reason) {
  v1::ErrorInfo info;
  info.set_reason(reason);
  info.set_domain(kErrorDomain);
  v1::ErrorStatus details;
  details.set_code(static_cast<int>(status.code()));
  details.set_message(ToValidUtf8(status.message()));
  google::protobuf::Any* any = details.add_details();
  any->set_type_url(kErrorInfoUrl);
  any->set_value(info.SerializeAsString());
  return details.SerializeAsString();
}

std::string DecodeReason(const std::string& encoded) {
  v1::ErrorStatus details;
  if (!details.ParseFromString(encoded)) return "";
  for (const google::protobuf::Any& any : details.details()) {
    v1::ErrorInfo info;
    if (any.type_url() == kErrorInfoUrl && info.ParseFromString(any.value()) &&
        info.domain() == kErrorDomain) {
      return info.reason();
    }
  }
  return "";
}

}  // namespace

absl::Status WithReason(absl::Status status, absl::string_view reason) {
  if (!status.ok()) status.SetPayload(kReasonPayload, absl::Cord(reason));
  return status;
}

std::string ReasonOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kReasonPayload);
  return payload ? std::string(*payload) : std::string();
}

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const auto code = static_cast<grpc::StatusCode>(status.code());
  const std::string message(status.message());
  const std::string reason = ReasonOf(status);
  if (reason.empty()) return grpc::Status(code, message);
  return grpc::Status(code, message, EncodeDetails(status, reason));
}

absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  absl::Status result(static_cast<absl::StatusCode>(status.error_code()),
                      status.error_message());
  const std::string reason = DecodeReason(status.error_details());
  return reason.empty() ? result : WithReason(result, reason);
}

}  // namespace evenstep::rpc
