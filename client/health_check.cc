#include "client/health_check.h"

#include "absl/synchronization/notification.h"
#include "google/protobuf/empty.pb.h"
#include "google/protobuf/unknown_field_set.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/impl/codegen/proto_utils.h"

namespace evenstep::client {
namespace {

constexpr char kMethod[] = "/grpc.health.v1.Health/Check";
// HealthCheckResponse.status = 1; ServingStatus.SERVING = 1.
constexpr int kStatusField = 1;
constexpr uint64_t kServing = 1;

bool IsServing(const google::protobuf::Empty& response) {
  const google::protobuf::UnknownFieldSet& fields =
      response.GetReflection()->GetUnknownFields(response);
  for (int i = 0; i < fields.field_count(); ++i) {
    if (fields.field(i).number() == kStatusField &&
        fields.field(i).type() == google::protobuf::UnknownField::TYPE_VARINT) {
      return fields.field(i).varint() == kServing;
    }
  }
  return false;
}

}  // namespace

grpc::Status CheckHealthOnce(const std::shared_ptr<grpc::Channel>& channel,
                             grpc::ClientContext* context, bool* serving) {
  using google::protobuf::Empty;
  grpc::TemplatedGenericStub<Empty, Empty> stub(channel);
  const Empty request;  // the empty service name asks about the whole server
  Empty response;
  grpc::Status result;
  absl::Notification done;
  stub.UnaryCall(context, kMethod, grpc::StubOptions(), &request, &response,
                 [&](grpc::Status status) {
                   result = std::move(status);
                   done.Notify();
                 });
  done.WaitForNotification();
  if (result.ok()) *serving = IsServing(response);
  return result;
}

}  // namespace evenstep::client
