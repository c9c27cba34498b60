// GrpcClient against a real gRPC server in this process that misbehaves on
// demand.

#include "client/grpc_client.h"

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "gmock/gmock.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "rpc/errors.h"
#include "wire/job_spec_proto.h"

namespace evenstep::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const grpc::Status kGone(grpc::StatusCode::UNAVAILABLE, "gone");

class Service final : public v1::JobService::Service {
 public:
  std::atomic<int> submit_failures{0};
  std::atomic<int> num_submits{0};
  std::atomic<int> num_watches{0};
  grpc::Status get_status;
  std::atomic<bool> says_version = true;

  std::vector<std::string> submitted_ids() {
    absl::MutexLock lock(&mutex_);
    return submitted_ids_;
  }

  grpc::Status Submit(grpc::ServerContext*, const v1::SubmitRequest* request,
                      v1::SubmitResponse* response) override {
    ++num_submits;
    absl::MutexLock lock(&mutex_);
    submitted_ids_.push_back(request->job_id());
    response->mutable_job()->set_job_id(request->job_id());
    *response->mutable_job()->mutable_spec() = request->spec();
    response->mutable_job()->set_state(v1::JOB_STATE_QUEUED);
    response->set_created(submitted_ids_.size() == 1);
    // The job is stored, but the answer is lost.
    if (submit_failures-- > 0) return kGone;
    return grpc::Status::OK;
  }

  grpc::Status Get(grpc::ServerContext*, const v1::GetRequest* request,
                   v1::GetResponse* response) override {
    response->mutable_job()->set_job_id(request->job_id());
    response->mutable_job()->set_state(v1::JOB_STATE_SUCCEEDED);
    return get_status;
  }

  grpc::Status List(grpc::ServerContext* context, const v1::ListRequest*,
                    v1::ListResponse*) override {
    if (says_version) context->AddInitialMetadata("evenstep-version", "9.8.7");
    return grpc::Status::OK;
  }

  // Three events and two steps; the first connection breaks in their midst.
  grpc::Status Watch(grpc::ServerContext* context,
                     const v1::WatchRequest* request,
                     grpc::ServerWriter<v1::WatchResponse>* writer) override {
    const bool breaks = num_watches++ == 0;
    if (request->job_id() == "quiet") {
      while (!context->IsCancelled()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      }
      return grpc::Status::CANCELLED;
    }
    for (int64_t sequence : {1, 2}) {
      if (sequence > request->after_sequence()) {
        WriteEvent(writer, sequence, v1::JOB_STATE_RUNNING);
      }
    }
    for (int64_t step : {0, 1}) {
      if (step <= request->after_step()) continue;
      v1::WatchResponse response;
      response.mutable_step()->set_step(step);
      response.mutable_step()->set_loss(5.5);
      writer->Write(response);
      if (breaks) return kGone;
    }
    WriteEvent(writer, 3, v1::JOB_STATE_SUCCEEDED);
    return grpc::Status::OK;
  }

 private:
  static void WriteEvent(grpc::ServerWriter<v1::WatchResponse>* writer,
                         int64_t sequence, v1::JobState state) {
    v1::WatchResponse response;
    response.mutable_event()->set_sequence(sequence);
    response.mutable_event()->set_state(state);
    response.mutable_event()->set_attempt(1);
    writer->Write(response);
  }

  absl::Mutex mutex_;
  std::vector<std::string> submitted_ids_ ABSL_GUARDED_BY(mutex_);
};

class GrpcClientTest : public ::testing::Test {
 protected:
  GrpcClientTest() {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port_);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
  }
  ~GrpcClientTest() override {
    server_->Shutdown(std::chrono::system_clock::now());
  }

  std::unique_ptr<Client> MakeClient() {
    ClientOptions options;
    options.coordinator = absl::StrCat("127.0.0.1:", port_);
    options.retry_budget = absl::Seconds(2);
    return Connect(options);
  }

  Service service_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

SubmitOptions SmallJob() {
  SubmitOptions options;
  options.job_yaml =
      "name: small\ndata: {source: 'text:/data'}\nsteps: 7\nranks: 2\n";
  return options;
}

TEST_F(GrpcClientTest, SubmitSendsTheSpecAndReturnsTheJob) {
  auto result = MakeClient()->Submit(SmallJob());
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->created);
  EXPECT_EQ(result->job.name, "small");
  EXPECT_EQ(result->job.num_steps, 7);
  EXPECT_EQ(result->job.ranks, 2);
  EXPECT_EQ(result->job.state, JobState::kQueued);
  EXPECT_THAT(result->job.job_yaml, HasSubstr("source"));
}

TEST_F(GrpcClientTest, ALostAnswerIsAskedForAgainWithTheSameId) {
  service_.submit_failures = 1;
  auto result = MakeClient()->Submit(SmallJob());
  ASSERT_TRUE(result.ok()) << result.status();
  const std::vector<std::string> ids = service_.submitted_ids();
  ASSERT_EQ(ids.size(), 2u);
  EXPECT_EQ(ids[0], ids[1]);
}

TEST_F(GrpcClientTest, OnlyUnavailableIsTriedAgain) {
  service_.get_status = rpc::ToGrpc(
      rpc::WithReason(absl::NotFoundError("no job 'x'"), "JOB_NOT_FOUND"));
  const absl::Status status = MakeClient()->Get("x").status();
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_EQ(ErrorReason(status), "JOB_NOT_FOUND");
}

TEST_F(GrpcClientTest, TextThatIsNotUtf8IsRefusedBeforeItIsSent) {
  const auto client = MakeClient();
  WatchCursor cursor;
  LogCursor log_cursor;
  for (const absl::Status& status :
       {client->Get("\xff").status(), client->Cancel("a", "\xff").status(),
        client->Cancel("\xff", "").status(),
        client->Logs("\xff", &log_cursor, {}, {},
                     [](const LogLine&) { return Follow::kContinue; }),
        client->Watch("\xff", &cursor, {},
                      [](const WatchItem&) { return Follow::kContinue; })}) {
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(status.ToString(), HasSubstr("not UTF-8"));
  }
}

TEST_F(GrpcClientTest, AWatchGoesOnWhereItsConnectionBroke) {
  std::vector<std::string> seen;
  WatchCursor cursor;
  const absl::Status status =
      MakeClient()->Watch("a", &cursor, {}, [&](const WatchItem& item) {
        const auto* event = std::get_if<JobEvent>(&item);
        seen.push_back(
            event != nullptr
                ? absl::StrCat("e", event->sequence)
                : absl::StrCat("s", std::get<StepSummary>(item).step));
        return Follow::kContinue;
      });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_THAT(seen, ElementsAre("e1", "e2", "s0", "s1", "e3"));
  EXPECT_EQ(service_.num_watches, 2);
}

TEST_F(GrpcClientTest, AStopTokenEndsAQuietWatch) {
  std::stop_source stop;
  StreamOptions stream;
  stream.stop = stop.get_token();
  std::jthread stopper([&] {
    while (service_.num_watches == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    stop.request_stop();
  });
  WatchCursor cursor;
  EXPECT_TRUE(absl::IsCancelled(
      MakeClient()->Watch("quiet", &cursor, stream,
                          [](const WatchItem&) { return Follow::kContinue; })));
}

TEST_F(GrpcClientTest, ADeadlineEndsAQuietWatch) {
  StreamOptions stream;
  stream.deadline = absl::Now() + absl::Milliseconds(50);
  EXPECT_TRUE(
      absl::IsDeadlineExceeded(MakeClient()->Wait("quiet", stream).status()));
}

TEST_F(GrpcClientTest, HealthIsOkWhileTheServerServes) {
  EXPECT_TRUE(MakeClient()->Health().ok());
  server_->GetHealthCheckService()->SetServingStatus(false);
  EXPECT_TRUE(absl::IsUnavailable(MakeClient()->Health()));
}

TEST_F(GrpcClientTest, AServerSaysItsVersionOrIsUnimplemented) {
  EXPECT_EQ(*MakeClient()->ServerVersion(), "9.8.7");
  service_.says_version = false;
  EXPECT_TRUE(absl::IsUnimplemented(MakeClient()->ServerVersion().status()));
}

TEST_F(GrpcClientTest, ASubmitWhoseAnswersAreLostMayHaveBeenStored) {
  service_.submit_failures = 1000;
  const absl::Status status = MakeClient()->Submit(SmallJob()).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_FALSE(NeverSent(status));
}

TEST(GrpcClientWithoutServer, ASubmitThatFoundNobodyWasNeverSent) {
  ClientOptions options;
  options.coordinator = "127.0.0.1:1";
  options.retry_budget = absl::Milliseconds(150);
  const absl::Status status = Connect(options)->Submit(SmallJob()).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_TRUE(NeverSent(status)) << status;
}

TEST(GrpcClientWithoutServer, SaysWhomItCannotReach) {
  ClientOptions options;
  options.coordinator = "127.0.0.1:1";
  options.retry_budget = absl::Milliseconds(150);
  int num_retries = 0;
  options.on_retry = [&](const absl::Status&) { ++num_retries; };
  const absl::Status status = Connect(options)->Get("x").status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("127.0.0.1:1"));
  EXPECT_GE(num_retries, 1);
}

}  // namespace
}  // namespace evenstep::client
