// The same lives over a real gRPC server on a free port: what the network adds.
// Agents are fake, their streams are not.

#include "coordinator/server/coordinator_server.h"

#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "coordinator/testing/fake_node.h"
#include "coordinator/testing/fake_ranks.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rpc/channel.h"
#include "rpc/errors.h"
#include "rpc/testing/call_unary.h"

namespace evenstep::coordinator {
namespace {

using ::testing::HasSubstr;

using testing::FakeNode;

class CoordinatorServerTest : public ::testing::Test {
 protected:
  CoordinatorServerTest() {
    std::string name = ::testing::TempDir() + "/evenstep-server-XXXXXX";
    folder_ = mkdtemp(name.data());
    settings_.listen = "127.0.0.1:0";
    settings_.store_path = folder_ + "/store.db";
    settings_.options.times.lease = absl::Seconds(2);
    Start();
  }
  ~CoordinatorServerTest() override {
    server_.reset();
    std::filesystem::remove_all(folder_);
  }

  void Start() {
    server_.reset();
    auto server = CoordinatorServer::Start(settings_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    stub_ = v1::JobService::NewStub(rpc::MakeChannel(server_->address()));
  }
  absl::StatusOr<v1::SubmitResponse> Submit(const v1::SubmitRequest& request) {
    return rpc::CallUnary<v1::SubmitResponse>(
        [&](auto* c, auto* r) { return stub_->Submit(c, request, r); });
  }
  v1::Job Get(const std::string& id) {
    v1::GetRequest request;
    request.set_job_id(id);
    return rpc::CallUnary<v1::GetResponse>(
               [&](auto* c, auto* r) { return stub_->Get(c, request, r); })
        ->job();
  }
  // All responses of a watch, to its end.
  std::vector<v1::WatchResponse> Watch(const std::string& id) {
    grpc::ClientContext context;
    rpc::SetDeadline(context, absl::Seconds(30));
    v1::WatchRequest request;
    request.set_job_id(id);
    request.set_after_step(-1);
    auto reader = stub_->Watch(&context, request);
    std::vector<v1::WatchResponse> responses;
    v1::WatchResponse response;
    while (reader->Read(&response)) responses.push_back(response);
    const grpc::Status status = reader->Finish();
    EXPECT_TRUE(status.ok()) << status.error_message();
    return responses;
  }
  std::vector<std::string> Log(const std::string& id, bool follow) {
    grpc::ClientContext context;
    rpc::SetDeadline(context, absl::Seconds(30));
    v1::LogsRequest request;
    request.set_job_id(id);
    request.set_follow(follow);
    auto reader = stub_->Logs(&context, request);
    std::vector<std::string> lines;
    v1::LogsResponse response;
    while (reader->Read(&response)) {
      for (const auto& line : response.lines()) lines.push_back(line.text());
    }
    EXPECT_TRUE(reader->Finish().ok());
    return lines;
  }
  v1::Job WaitFor(const std::string& id, v1::JobState state) {
    const absl::Time deadline = absl::Now() + absl::Seconds(30);
    v1::Job job = Get(id);
    while (job.state() != state && absl::Now() < deadline) {
      absl::SleepFor(absl::Milliseconds(10));
      job = Get(id);
    }
    EXPECT_EQ(job.state(), state) << job.reason() << ": " << job.message();
    return job;
  }
  std::unique_ptr<FakeNode> Node(const std::string& name, int slots) {
    return std::make_unique<FakeNode>(server_->address(), name, slots);
  }
  absl::StatusOr<v1::RendezvousResponse> CallRendezvous(
      const v1::RendezvousRequest& request) {
    auto stub = v1::AgentService::NewStub(rpc::MakeChannel(server_->address()));
    return rpc::CallUnary<v1::RendezvousResponse>(
        [&](auto* c, auto* r) { return stub->Rendezvous(c, request, r); });
  }

  std::string folder_;
  CoordinatorSettings settings_;
  std::unique_ptr<CoordinatorServer> server_;
  std::unique_ptr<v1::JobService::Stub> stub_;
};

TEST_F(CoordinatorServerTest, AJobOnTwoNodesIsWatchedAndFollowedToItsEnd) {
  const auto a = Node("a", 1), b = Node("b", 1);
  ASSERT_TRUE(Submit(testing::SmallJob("job", 2, 8)).ok());
  const auto followed = Log("job", true);
  const auto responses = Watch("job");
  EXPECT_EQ(followed.size(), 16u);
  EXPECT_EQ(Log("job", false), followed);
  int num_steps = 0;
  for (const auto& response : responses) num_steps += response.has_step();
  EXPECT_EQ(num_steps, 8);
  EXPECT_EQ(responses.back().event().state(), v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(Get("job").steps_done(), 8);
}

TEST_F(CoordinatorServerTest, RefusalsCarryCodeAndReasonOverTheWire) {
  v1::SubmitRequest request = testing::SmallJob("job", 2, 8);
  request.mutable_spec()->mutable_data()->set_max_length(1000);
  const auto infeasible = Submit(request);
  EXPECT_EQ(infeasible.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(rpc::ReasonOf(infeasible.status()), "INFEASIBLE_PLAN");
  request = testing::SmallJob("job", 2, 8);
  request.mutable_spec()->set_kind("shell");
  EXPECT_EQ(Submit(request).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(CoordinatorServerTest, AKilledTrainerFailsTheJobWithItsReason) {
  const auto a = Node("a", 1), b = Node("b", 1);
  a->HoldAt(2);
  b->HoldAt(2);
  ASSERT_TRUE(Submit(testing::SmallJob("job", 2, 100)).ok());
  WaitFor("job", v1::JOB_STATE_RUNNING);
  a->Send(testing::CollectiveFailed(a->attempt(), 0));
  b->Send(testing::Killed(b->attempt(), 1, 9));
  const v1::Job job = WaitFor("job", v1::JOB_STATE_FAILED);
  EXPECT_EQ(job.message(), "rank 1 (b) ended by signal 9");
}

TEST_F(CoordinatorServerTest, ACancelStopsARunningJob) {
  const auto a = Node("a", 2);
  a->HoldAt(2);
  ASSERT_TRUE(Submit(testing::SmallJob("job", 2, 100)).ok());
  WaitFor("job", v1::JOB_STATE_RUNNING);
  v1::CancelRequest request;
  request.set_job_id("job");
  ASSERT_TRUE(rpc::CallUnary<v1::CancelResponse>([&](auto* c, auto* r) {
                return stub_->Cancel(c, request, r);
              }).ok());
  WaitFor("job", v1::JOB_STATE_CANCELLED);
}

TEST_F(CoordinatorServerTest, AJobSurvivesTheCoordinatorAndRunsAgain) {
  auto a = Node("a", 2);
  a->HoldAt(2);
  ASSERT_TRUE(Submit(testing::SmallJob("job", 2, 8)).ok());
  WaitFor("job", v1::JOB_STATE_RUNNING);
  ASSERT_TRUE(Submit(testing::SmallJob("waiting", 2, 8)).ok());
  a.reset();
  Start();
  EXPECT_EQ(Get("waiting").state(), v1::JOB_STATE_QUEUED);
  a = Node("a", 2);
  WaitFor("job", v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(Get("job").attempt(), 2);
  WaitFor("waiting", v1::JOB_STATE_SUCCEEDED);
}

TEST_F(CoordinatorServerTest, ARendezvousWaitsWithoutBlockingOthers) {
  const auto a = Node("a", 1);
  a->HoldAt(0);
  ASSERT_TRUE(Submit(testing::SmallJob("job", 1, 8)).ok());
  ASSERT_TRUE(a->WaitFor(v1::CoordinatorMessage::kAssignment));
  v1::RendezvousRequest get;
  *get.mutable_attempt() = a->attempt();
  get.mutable_get()->set_key("key");
  get.mutable_get()->set_wait_ms(20000);
  absl::StatusOr<v1::RendezvousResponse> found;
  std::thread waiter([&] { found = CallRendezvous(get); });
  v1::RendezvousRequest set = get;
  set.mutable_set()->set_key("key");
  set.mutable_set()->set_value("value");
  EXPECT_TRUE(CallRendezvous(set).ok());
  waiter.join();
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->value(), "value");
  get.mutable_attempt()->set_generation(99);
  EXPECT_EQ(CallRendezvous(get).status().code(), absl::StatusCode::kAborted);
}

TEST_F(CoordinatorServerTest, ShutdownEndsWithinItsGraceWithOpenStreams) {
  const auto a = Node("a", 1);
  a->HoldAt(0);
  ASSERT_TRUE(Submit(testing::SmallJob("job", 1, 8)).ok());
  ASSERT_TRUE(a->WaitFor(v1::CoordinatorMessage::kAssignment));
  grpc::ClientContext context;
  v1::WatchRequest request;
  request.set_job_id("job");
  auto reader = stub_->Watch(&context, request);
  v1::WatchResponse response;
  ASSERT_TRUE(reader->Read(&response));
  const absl::Time begin = absl::Now();
  server_->Shutdown(absl::Seconds(5));
  EXPECT_LT(absl::Now() - begin, absl::Seconds(7));
  while (reader->Read(&response)) {
  }
  EXPECT_EQ(rpc::ReasonOf(rpc::FromGrpc(reader->Finish())), "SHUTTING_DOWN");
}

TEST_F(CoordinatorServerTest, AMessageBeforeHelloEndsTheStream) {
  auto stub = v1::AgentService::NewStub(rpc::MakeChannel(server_->address()));
  grpc::ClientContext context;
  auto stream = stub->Connect(&context);
  v1::AgentMessage heartbeat;
  heartbeat.mutable_heartbeat();
  stream->Write(heartbeat);
  v1::CoordinatorMessage message;
  EXPECT_FALSE(stream->Read(&message));
  EXPECT_EQ(stream->Finish().error_code(),
            grpc::StatusCode::FAILED_PRECONDITION);
}

TEST_F(CoordinatorServerTest, TakenPortsAndRemoteAddressesAreRefused) {
  settings_.metrics_listen = "127.0.0.1:0";
  Start();
  CoordinatorSettings other = settings_;
  other.store_path = ":memory:";
  other.metrics_listen = absl::StrCat("127.0.0.1:", server_->metrics_port());
  const auto taken = CoordinatorServer::Start(other);
  EXPECT_EQ(taken.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(taken.status().message()),
              HasSubstr("is the port taken?"));
  other.metrics_listen.clear();
  other.listen = server_->address();
  EXPECT_EQ(CoordinatorServer::Start(other).status().code(),
            absl::StatusCode::kUnavailable);
  other.listen = "0.0.0.0:0";
  EXPECT_EQ(CoordinatorServer::Start(other).status().code(),
            absl::StatusCode::kFailedPrecondition);
  other.listen = "127.0.0.1:0";
  other.metrics_listen = "0.0.0.0:0";
  EXPECT_EQ(CoordinatorServer::Start(other).status().code(),
            absl::StatusCode::kFailedPrecondition);
  other.metrics_listen.clear();
  other.store_path = settings_.store_path;
  EXPECT_THAT(std::string(CoordinatorServer::Start(other).status().message()),
              HasSubstr("another coordinator"));
}

TEST_F(CoordinatorServerTest, ALeaseShorterThanTwoHeartbeatsIsRefused) {
  settings_.options.times.lease = absl::Seconds(1);
  EXPECT_THAT(std::string(CheckSettings(settings_).message()),
              HasSubstr("two heartbeats"));
}

}  // namespace
}  // namespace evenstep::coordinator
