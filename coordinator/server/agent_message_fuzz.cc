// Bytes from an agent that has gone mad: read as messages, given to a
// coordinator that runs a job of two ranks, and handled to the end. In between
// an honest agent of the other rank speaks. No network, one thread.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "base/log.h"
#include "coordinator/server/coordinator.h"
#include "coordinator/store/sqlite_job_store.h"
#include "coordinator/testing/fake_ranks.h"
#include "google/protobuf/stubs/logging.h"

namespace {

using evenstep::v1::AgentMessage;
using namespace evenstep::coordinator;  // NOLINT: a program of one file

class Inline : public WorkRunner {
 public:
  void Run(std::function<void()> work) override { work(); }
};

class Link : public AgentLink {
 public:
  void Send(const evenstep::v1::CoordinatorMessage& message) override {
    if (message.has_assignment()) attempt = message.assignment().attempt();
    if (message.has_plan()) plans.push_back(message.plan().plan());
  }
  void Close(const absl::Status&) override { closed = true; }
  evenstep::v1::AttemptId attempt;
  std::deque<evenstep::v1::StepPlan> plans;
  bool closed = false;
};

class World {
 public:
  World()
      : store_(*SqliteJobStore::Open(":memory:", {})),
        metrics_("fuzz"),
        coordinator_({*store_, metrics_, clock_, planners_,
                      [this](std::function<void()> f) { posted_.push_back(f); },
                      evenstep::planner::RealPlanner()},
                     {}) {
    Must(coordinator_.Start().ok());
    Say(a_, testing::Hello("a", "one", 1));
    Say(b_, testing::Hello("b", "one", 1));
    Must(coordinator_.Submit(testing::SmallJob("job", 2, 6)).ok());
    Settle();
    for (const auto& link : {a_, b_}) Say(link, testing::Ready(a_->attempt));
    HonestStart(a_, 0);
    HonestStart(b_, 1);
    Say(a_, testing::Costs(a_->attempt));
  }

  void Mad(const AgentMessage& message) {
    Say(a_, message);
    if (a_->closed) {  // connects again
      a_ = std::make_shared<Link>();
      AgentMessage hello = testing::Hello("a", "one", 1);
      *hello.mutable_hello()->add_running() = b_->attempt;
      Say(a_, hello);
    }
    while (!b_->plans.empty()) {
      Say(b_, testing::Step(b_->attempt, 1, b_->plans.front()));
      b_->plans.pop_front();
    }
  }

  // Only `a` says that it has ended: b's rank has not.
  void Check() {
    evenstep::v1::GetRequest request;
    request.set_job_id("job");
    const auto job = coordinator_.Get(request);
    Must(job.ok());
    Must(job->job().state() != evenstep::v1::JOB_STATE_SUCCEEDED);
    Must(job->job().steps_done() <= 6);
  }

 private:
  static void Must(bool condition) {
    if (!condition) std::abort();
  }
  void HonestStart(const std::shared_ptr<Link>& link, int rank) {
    const auto& id = a_->attempt;
    Say(link, testing::Data(id, rank));
    Say(link, testing::Started(id, rank));
    for (int64_t step = 0; step < 3; ++step) {
      Say(link, testing::Lengths(id, rank, 2, step));
    }
  }
  void Say(const std::shared_ptr<Link>& link, const AgentMessage& message) {
    coordinator_.OnAgentMessage(link, message);
    Settle();
  }
  void Settle() {
    while (!posted_.empty()) {
      const auto work = std::move(posted_.front());
      posted_.pop_front();
      work();
    }
    coordinator_.Tick();
  }

  evenstep::FakeClock clock_;
  Inline planners_;
  std::deque<std::function<void()>> posted_;
  std::unique_ptr<JobStore> store_;
  Metrics metrics_;
  Coordinator coordinator_;
  std::shared_ptr<Link> a_ = std::make_shared<Link>();
  std::shared_ptr<Link> b_ = std::make_shared<Link>();
};

}  // namespace

// Messages, each after two bytes of its length.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const google::protobuf::LogSilencer silencer;
  evenstep::SetLogLevel(evenstep::LogLevel::kError);
  World world;
  while (size > 2) {
    const size_t length =
        std::min<size_t>(size - 2, bytes[0] | (size_t{bytes[1]} << 8));
    AgentMessage message;
    if (message.ParseFromArray(bytes + 2, static_cast<int>(length))) {
      world.Mad(message);
    }
    bytes += 2 + length;
    size -= 2 + length;
  }
  world.Check();
  return 0;
}
