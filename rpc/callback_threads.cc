#include "rpc/callback_threads.h"

#include <memory>

#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"

namespace evenstep::rpc {
namespace {

// A channel takes part in the threads from its first call on, which here is
// cancelled before it is made: nothing is connected.
struct Keeper {
  std::shared_ptr<grpc::Channel> channel =
      grpc::CreateChannel("127.0.0.1:1", grpc::InsecureChannelCredentials());
  grpc::GenericStub stub{channel};
  grpc::ClientContext context;
  grpc::Slice nothing;
  grpc::ByteBuffer request{&nothing, 1};
  grpc::ByteBuffer response;
};

Keeper* MakeKeeper() {
  auto* const keeper = new Keeper;
  keeper->context.TryCancel();
  keeper->stub.UnaryCall(&keeper->context, "/evenstep/none", {},
                         &keeper->request, &keeper->response,
                         [](const grpc::Status&) {});
  return keeper;
}

}  // namespace

void KeepCallbackThreads() {
  // Used: what no variable points to would be a leak.
  [[gnu::used]] static Keeper* const kept = MakeKeeper();
}

}  // namespace evenstep::rpc
