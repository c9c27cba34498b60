#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "evenstep/v1/agent.grpc.pb.h"
#include "evenstep/v1/job.grpc.pb.h"
#include "gtest/gtest.h"
#include "rpc/channel.h"
#include "rpc/client_stream.h"
#include "rpc/server.h"
#include "rpc/server_stream.h"
#include "rpc/testing/call_unary.h"
#include "rpc/testing/client_read_stream.h"

namespace evenstep::rpc {
namespace {

using ServerConnect =
    ServerBidiStream<v1::AgentMessage, v1::CoordinatorMessage>;
using ClientConnect =
    ClientBidiStream<v1::CoordinatorMessage, v1::AgentMessage>;
using ServerLogs = ServerWriteStream<v1::LogsResponse>;
using ClientLogs = ClientReadStream<v1::LogsResponse>;

constexpr absl::Duration kSoon = absl::Seconds(20);

// Hands each call to a function of the test.
class FakeAgentService : public v1::AgentService::CallbackService {
 public:
  explicit FakeAgentService(StreamRegistry& streams) : streams_(streams) {}

  std::function<void(std::shared_ptr<ServerConnect>)> on_connect;
  std::function<void(std::shared_ptr<ServerUnaryCall>, v1::RendezvousResponse*)>
      on_rendezvous;
  StreamOptions options;

 private:
  grpc::ServerBidiReactor<v1::AgentMessage, v1::CoordinatorMessage>* Connect(
      grpc::CallbackServerContext* context) override {
    auto stream = ServerConnect::Create(context, streams_, options);
    on_connect(stream);
    return stream->reactor();
  }
  grpc::ServerUnaryReactor* Rendezvous(
      grpc::CallbackServerContext* context, const v1::RendezvousRequest*,
      v1::RendezvousResponse* response) override {
    auto call = ServerUnaryCall::Create(context, streams_);
    on_rendezvous(call, response);
    return call->reactor();
  }

  StreamRegistry& streams_;
};

class FakeJobService : public v1::JobService::CallbackService {
 public:
  explicit FakeJobService(StreamRegistry& streams) : streams_(streams) {}

  std::function<void(std::shared_ptr<ServerLogs>)> on_logs;
  StreamOptions options;

 private:
  grpc::ServerWriteReactor<v1::LogsResponse>* Logs(
      grpc::CallbackServerContext* context, const v1::LogsRequest*) override {
    auto stream = ServerLogs::Create(context, streams_, options);
    on_logs(stream);
    return stream->reactor();
  }

  StreamRegistry& streams_;
};

class StreamTest : public testing::Test {
 protected:
  explicit StreamTest(const StreamLimits& limits = {}) : streams_(limits) {}

  void SetUp() override {
    auto server =
        Server::Start({}, streams_,
                      {{v1::AgentService::service_full_name(), &agents_},
                       {v1::JobService::service_full_name(), &jobs_}});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    channel_ = MakeChannel(server_->address());
  }

  std::shared_ptr<ClientConnect> Connect(
      StreamCallbacks<v1::CoordinatorMessage> callbacks,
      const StreamOptions& options = {}) {
    auto stub = std::make_shared<v1::AgentService::Stub>(channel_);
    auto stream = ClientConnect::Create(options);
    auto on_done = std::move(callbacks.on_done);
    callbacks.on_done = [stub, on_done](absl::Status status) {
      if (on_done) on_done(std::move(status));
    };
    stream->Start(std::move(callbacks), [&](auto* context, auto* reactor) {
      stub->async()->Connect(context, reactor);
    });
    return stream;
  }

  std::shared_ptr<ClientLogs> OpenLogs(ClientLogs::Callbacks callbacks) {
    auto stream = ClientLogs::Create();
    job_stub_ = std::make_unique<v1::JobService::Stub>(channel_);
    stream->Start(std::move(callbacks), [&](auto* context, auto* reactor) {
      job_stub_->async()->Logs(context, &logs_request_, reactor);
    });
    return stream;
  }

  StreamRegistry streams_;
  FakeAgentService agents_{streams_};
  FakeJobService jobs_{streams_};
  std::unique_ptr<Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::JobService::Stub> job_stub_;
  v1::LogsRequest logs_request_;
};

v1::AgentMessage Beat(int64_t sequence) {
  v1::AgentMessage message;
  message.mutable_heartbeat()->set_sequence(sequence);
  return message;
}

v1::LogsResponse Line(size_t bytes) {
  v1::LogsResponse response;
  response.add_lines()->set_text(std::string(bytes, 'x'));
  return response;
}

TEST_F(StreamTest, ManyMessagesArriveInOrderBothWays) {
  constexpr int kMessages = 20000;
  agents_.options.max_queued_messages = kMessages;
  agents_.on_connect = [](std::shared_ptr<ServerConnect> stream) {
    stream->Start({.on_message = [stream](v1::AgentMessage message) {
      v1::CoordinatorMessage echo;
      echo.mutable_welcome()->set_lease_ms(message.heartbeat().sequence());
      ASSERT_TRUE(stream->Send(std::move(echo)).ok());
    }});
  };
  int64_t expected = 0;
  absl::Notification all;
  auto stream =
      Connect({.on_message =
                   [&](v1::CoordinatorMessage message) {
                     EXPECT_EQ(message.welcome().lease_ms(), expected);
                     if (++expected == kMessages) all.Notify();
                   }},
              {.max_queued_messages = kMessages});
  for (int i = 0; i < kMessages; ++i) ASSERT_TRUE(stream->Send(Beat(i)).ok());
  EXPECT_TRUE(all.WaitForNotificationWithTimeout(kSoon));
  stream->FinishWrites();
  EXPECT_TRUE(stream->WaitUntilDone(kSoon));
}

TEST_F(StreamTest, ManyThreadsMaySendAtOnce) {
  constexpr int kThreads = 4;
  constexpr int kEach = 500;
  absl::BlockingCounter received(kThreads * kEach);
  agents_.on_connect = [&](std::shared_ptr<ServerConnect> stream) {
    stream->Start({.on_message = [&received](v1::AgentMessage) {
      received.DecrementCount();
    }});
  };
  auto stream = Connect({}, {.max_queued_messages = kThreads * kEach});
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kEach; ++i) EXPECT_TRUE(stream->Send(Beat(i)).ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  received.Wait();
  stream->Cancel();
  EXPECT_TRUE(stream->WaitUntilDone(kSoon));
}

TEST_F(StreamTest, ClosingTheClientsSideEndsTheCallWithOk) {
  absl::Status server_end = absl::UnknownError("not called");
  absl::Notification server_done;
  int received = 0;
  agents_.on_connect = [&](std::shared_ptr<ServerConnect> stream) {
    stream->Start({.on_message = [&](v1::AgentMessage) { ++received; },
                   .on_done =
                       [&](absl::Status status) {
                         server_end = std::move(status);
                         server_done.Notify();
                       }});
  };
  absl::Status client_end = absl::UnknownError("not called");
  auto stream =
      Connect({.on_done = [&](absl::Status status) { client_end = status; }});
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(stream->Send(Beat(i)).ok());
  stream->FinishWrites();
  ASSERT_TRUE(stream->WaitUntilDone(kSoon));
  ASSERT_TRUE(server_done.WaitForNotificationWithTimeout(kSoon));
  EXPECT_TRUE(client_end.ok()) << client_end;
  EXPECT_TRUE(server_end.ok()) << server_end;
  EXPECT_EQ(received, 100);
  EXPECT_TRUE(absl::IsCancelled(stream->Send(Beat(0))));
}

TEST_F(StreamTest, TheServersErrorReachesTheClientWithItsReason) {
  agents_.on_connect = [](std::shared_ptr<ServerConnect> stream) {
    stream->Start({.on_message = [stream](v1::AgentMessage) {
      stream->Finish(WithReason(absl::AbortedError("replaced"), "REPLACED"));
    }});
  };
  absl::Status end;
  auto stream =
      Connect({.on_done = [&](absl::Status status) { end = status; }});
  ASSERT_TRUE(stream->Send(Beat(0)).ok());
  ASSERT_TRUE(stream->WaitUntilDone(kSoon));
  EXPECT_EQ(end.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(ReasonOf(end), "REPLACED");
}

TEST_F(StreamTest, ACancelledClientIsSeenByTheServer) {
  absl::Notification connected;
  absl::Notification ended;
  agents_.on_connect = [&](std::shared_ptr<ServerConnect> stream) {
    stream->Start({.on_message = [&](v1::AgentMessage) { connected.Notify(); },
                   .on_done =
                       [&](absl::Status status) {
                         EXPECT_TRUE(absl::IsCancelled(status)) << status;
                         ended.Notify();
                       }});
  };
  absl::Status client_end;
  auto stream =
      Connect({.on_done = [&](absl::Status status) { client_end = status; }});
  ASSERT_TRUE(stream->Send(Beat(0)).ok());
  ASSERT_TRUE(connected.WaitForNotificationWithTimeout(kSoon));
  stream->Cancel();
  ASSERT_TRUE(stream->WaitUntilDone(kSoon));
  EXPECT_TRUE(absl::IsCancelled(client_end)) << client_end;
  EXPECT_TRUE(ended.WaitForNotificationWithTimeout(kSoon));
}

TEST_F(StreamTest, ASlowReaderFillsTheQueueAndOnlyItsOwn) {
  jobs_.options.max_queued_messages = 8;
  absl::Notification filled;
  agents_.on_connect = [](std::shared_ptr<ServerConnect> stream) {
    stream->Start({.on_message = [stream](v1::AgentMessage) {
      (void)stream->Send(v1::CoordinatorMessage());
    }});
  };
  std::shared_ptr<ServerLogs> slow;
  jobs_.on_logs = [&](std::shared_ptr<ServerLogs> stream) {
    stream->Start({});
    absl::Status status;
    while (status.ok()) status = stream->Send(Line(1 << 20));
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    EXPECT_EQ(stream->num_queued(), 8u);
    slow = stream;
    filled.Notify();
  };
  absl::Notification read_on;
  auto reader = OpenLogs({.on_message = [&](v1::LogsResponse) {
    read_on.WaitForNotification();  // the slow reader
  }});
  ASSERT_TRUE(filled.WaitForNotificationWithTimeout(kSoon));
  absl::Notification answered;
  auto other = Connect(
      {.on_message = [&](v1::CoordinatorMessage) { answered.Notify(); }});
  ASSERT_TRUE(other->Send(Beat(0)).ok());
  EXPECT_TRUE(answered.WaitForNotificationWithTimeout(kSoon));
  read_on.Notify();
  slow->Finish(absl::OkStatus());
  EXPECT_TRUE(reader->WaitUntilDone(kSoon));
  other->Cancel();
  EXPECT_TRUE(other->WaitUntilDone(kSoon));
}

TEST_F(StreamTest, AProducerGoesOnWhenTheQueueHasDrained) {
  constexpr int kLines = 1000;
  jobs_.options.max_queued_messages = 16;
  jobs_.on_logs = [](std::shared_ptr<ServerLogs> stream) {
    auto sent = std::make_shared<int>(0);
    auto mutex = std::make_shared<absl::Mutex>();
    // The queue may drain again, on another thread, while this goes on.
    auto produce = [stream, sent, mutex] {
      absl::MutexLock lock(mutex.get());
      while (*sent < kLines && stream->Send(Line(10)).ok()) ++*sent;
      if (*sent == kLines) stream->Finish(absl::OkStatus());
    };
    stream->Start({.on_drained = produce});
    produce();
  };
  int received = 0;
  absl::Status end = absl::UnknownError("not called");
  auto reader =
      OpenLogs({.on_message = [&](v1::LogsResponse) { ++received; },
                .on_done = [&](absl::Status status) { end = status; }});
  ASSERT_TRUE(reader->WaitUntilDone(kSoon));
  EXPECT_TRUE(end.ok()) << end;
  EXPECT_EQ(received, kLines);
}

TEST_F(StreamTest, ShutdownEndsIdleStreamsAtOnceWithAReason) {
  absl::Notification connected;
  agents_.on_connect = [&](std::shared_ptr<ServerConnect> stream) {
    stream->Start(
        {.on_message = [&](v1::AgentMessage) { connected.Notify(); }});
  };
  absl::Status end;
  auto stream =
      Connect({.on_done = [&](absl::Status status) { end = status; }});
  ASSERT_TRUE(stream->Send(Beat(0)).ok());
  ASSERT_TRUE(connected.WaitForNotificationWithTimeout(kSoon));
  const absl::Time start = absl::Now();
  server_->Shutdown(absl::Seconds(10));
  EXPECT_LT(absl::Now() - start, absl::Seconds(5));
  ASSERT_TRUE(stream->WaitUntilDone(kSoon));
  EXPECT_TRUE(absl::IsUnavailable(end)) << end;
  EXPECT_EQ(ReasonOf(end), kShuttingDown);
  EXPECT_EQ(streams_.size(), 0u);
}

TEST_F(StreamTest, ShutdownEndsWithinItsGraceWhenAReaderIsStuck) {
  absl::Notification filled;
  jobs_.on_logs = [&](std::shared_ptr<ServerLogs> stream) {
    stream->Start({});
    while (stream->Send(Line(1 << 20)).ok()) {
    }
    filled.Notify();
  };
  jobs_.options.max_queued_messages = 8;
  absl::Notification read_on;
  auto reader = OpenLogs(
      {.on_message = [&](v1::LogsResponse) { read_on.WaitForNotification(); }});
  ASSERT_TRUE(filled.WaitForNotificationWithTimeout(kSoon));
  const absl::Time start = absl::Now();
  server_->Shutdown(absl::Milliseconds(200));
  EXPECT_LT(absl::Now() - start, absl::Seconds(2));
  EXPECT_EQ(streams_.size(), 0u);
  read_on.Notify();
  EXPECT_TRUE(reader->WaitUntilDone(kSoon));
}

TEST_F(StreamTest, AWaitingUnaryCallIsAnsweredOnceAndEndedByShutdown) {
  absl::Notification waiting;
  agents_.on_rendezvous = [&](std::shared_ptr<ServerUnaryCall> call,
                              v1::RendezvousResponse* response) {
    call->Start();
    if (waiting.HasBeenNotified()) {
      call->Answer([&] { response->set_found(true); });
      call->Answer([&] { response->set_found(false); });
      call->Finish(absl::InternalError("too late"));
      return;
    }
    waiting.Notify();
  };
  v1::AgentService::Stub stub(channel_);
  absl::StatusOr<v1::RendezvousResponse> first;
  std::thread caller([&] {
    first = CallUnary<v1::RendezvousResponse>([&](auto* c, auto* r) {
      return stub.Rendezvous(c, v1::RendezvousRequest(), r);
    });
  });
  ASSERT_TRUE(waiting.WaitForNotificationWithTimeout(kSoon));
  const auto second = CallUnary<v1::RendezvousResponse>([&](auto* c, auto* r) {
    return stub.Rendezvous(c, v1::RendezvousRequest(), r);
  });
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_TRUE(second->found());
  server_->Shutdown(absl::Seconds(10));
  caller.join();
  EXPECT_TRUE(absl::IsUnavailable(first.status())) << first.status();
}

struct NoStream : LiveStream {
  void Finish(absl::Status) override {}
  void Abort(absl::Status) override {}
};

absl::Status AddOne(StreamRegistry& registry, absl::string_view peer) {
  return registry.Add(std::make_shared<NoStream>(), peer);
}

TEST(StreamRegistryTest, MoreStreamsThanTheLimitAreRefused) {
  StreamRegistry registry(StreamLimits{.in_all = 1});
  ASSERT_TRUE(AddOne(registry, "ipv4:10.0.0.1:1").ok());
  EXPECT_TRUE(absl::IsResourceExhausted(AddOne(registry, "ipv4:10.0.0.2:1")));
}

TEST(StreamRegistryTest, OneCallerCannotUseUpTheStreamsOfTheOthers) {
  StreamRegistry registry(StreamLimits{.in_all = 100, .per_caller = 2});
  auto first = std::make_shared<NoStream>();
  ASSERT_TRUE(registry.Add(first, "ipv4:10.0.0.1:1").ok());
  ASSERT_TRUE(AddOne(registry, "ipv4:10.0.0.1:2").ok());
  const absl::Status refused = AddOne(registry, "ipv4:10.0.0.1:3");
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_TRUE(AddOne(registry, "ipv4:10.0.0.2:1").ok());
  registry.Remove(first.get());
  EXPECT_TRUE(AddOne(registry, "ipv4:10.0.0.1:3").ok());
}

TEST(StreamRegistryTest, ACallerIsAHostAndOnLoopbackAConnection) {
  EXPECT_EQ(CallerOf("ipv4:10.0.0.1:555"), "ipv4:10.0.0.1");
  EXPECT_EQ(CallerOf("ipv6:%5Bfe80::1%5D:555"), "ipv6:%5Bfe80::1%5D");
  EXPECT_EQ(CallerOf("ipv4:127.0.0.1:555"), "ipv4:127.0.0.1:555");
  EXPECT_EQ(CallerOf("ipv6:%5B::1%5D:555"), "ipv6:%5B::1%5D:555");
}

class OneStreamPerCallerTest : public StreamTest {
 protected:
  OneStreamPerCallerTest() : StreamTest({.per_caller = 1}) {}
};

TEST_F(OneStreamPerCallerTest, AnotherConnectionHasAStreamOfItsOwn) {
  std::atomic<int> count = 0;
  absl::Notification entered[3];
  agents_.on_connect = [&](std::shared_ptr<ServerConnect> stream) {
    stream->Start({});
    entered[count++].Notify();
  };
  const auto first = Connect({});
  ASSERT_TRUE(entered[0].WaitForNotificationWithTimeout(kSoon));
  absl::Status end;
  const auto second =
      Connect({.on_done = [&](absl::Status status) { end = status; }});
  EXPECT_TRUE(second->WaitUntilDone(kSoon));
  EXPECT_TRUE(absl::IsResourceExhausted(end)) << end;
  // Channels share a connection otherwise.
  grpc::ChannelArguments own;
  own.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  channel_ = grpc::CreateCustomChannel(server_->address(),
                                       grpc::InsecureChannelCredentials(), own);
  const auto third = Connect({});
  ASSERT_TRUE(entered[2].WaitForNotificationWithTimeout(kSoon));
  EXPECT_EQ(streams_.size(), 2u);
  for (const auto& stream : {first, third}) {
    stream->Cancel();
    EXPECT_TRUE(stream->WaitUntilDone(kSoon));
  }
}

TEST(StreamRegistryTest, NoStreamIsAddedAfterTheEndHasBegun) {
  StreamRegistry registry;
  EXPECT_TRUE(
      registry.FinishAll(absl::UnavailableError("end"), absl::ZeroDuration()));
  EXPECT_TRUE(absl::IsUnavailable(AddOne(registry, "ipv4:10.0.0.1:1")));
}

}  // namespace
}  // namespace evenstep::rpc
