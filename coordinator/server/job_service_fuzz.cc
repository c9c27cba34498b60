// Bytes from a client: read as a request of JobService, checked, and answered
// by a coordinator without a network. One thread.
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>

#include "base/log.h"
#include "coordinator/server/coordinator.h"
#include "coordinator/server/request_check.h"
#include "coordinator/store/sqlite_job_store.h"
#include "coordinator/testing/fake_ranks.h"
#include "google/protobuf/stubs/logging.h"

namespace {

using namespace evenstep::coordinator;  // NOLINT: a program of one file
namespace v1 = evenstep::v1;

class Inline : public WorkRunner {
 public:
  void Run(std::function<void()> work) override { work(); }
};

template <typename Message>
class Sink : public FollowSink<Message> {
 public:
  bool HasRoom() const override { return room > 0; }
  void Send(Message) override { --room; }
  void Finish(const absl::Status&) override {}
  int room = 4;
};

struct World {
  World() {
    if (!coordinator.Start().ok()) std::abort();
    (void)coordinator.Submit(testing::SmallJob("job", 2, 6));
  }
  evenstep::FakeClock clock;
  Inline planners;
  std::unique_ptr<JobStore> store = *SqliteJobStore::Open(":memory:", {});
  Metrics metrics{"fuzz"};
  Coordinator coordinator{
      {*store, metrics, clock, planners, [](std::function<void()>) {},
       evenstep::planner::RealPlanner()},
      {}};
};

template <typename Request, typename Answer>
void Ask(const uint8_t* bytes, size_t size, const Answer& answer) {
  Request request;
  if (!request.ParseFromArray(bytes, static_cast<int>(size))) return;
  if (CheckRequest(request).ok()) answer(request);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const google::protobuf::LogSilencer silencer;
  evenstep::SetLogLevel(evenstep::LogLevel::kError);
  if (size == 0) return 0;
  World world;
  Coordinator& c = world.coordinator;
  const uint8_t kind = bytes[0] % 6;
  ++bytes;
  --size;
  switch (kind) {
    case 0:
      Ask<v1::SubmitRequest>(bytes, size, [&](const auto& request) {
        const auto response = c.Submit(request);
        if (!response.ok()) return;
        // What was taken is taken again, and is the same job.
        const auto again = c.Submit(request);
        if (!again.ok() || again->created()) std::abort();
      });
      break;
    case 1:
      Ask<v1::GetRequest>(bytes, size, [&](const auto& r) { (void)c.Get(r); });
      break;
    case 2:
      Ask<v1::ListRequest>(bytes, size,
                           [&](const auto& r) { (void)c.List(r); });
      break;
    case 3:
      Ask<v1::CancelRequest>(bytes, size,
                             [&](const auto& r) { (void)c.Cancel(r); });
      break;
    case 4:
      Ask<v1::WatchRequest>(bytes, size, [&](const auto& r) {
        c.followers().Watch(r, std::make_shared<Sink<v1::WatchResponse>>());
      });
      break;
    default:
      Ask<v1::LogsRequest>(bytes, size, [&](const auto& r) {
        c.followers().FollowLog(r, std::make_shared<Sink<v1::LogsResponse>>());
      });
  }
  c.Tick();
  return 0;
}
