#ifndef EVENSTEP_WORKER_AGENT_FAKE_COORDINATOR_H_
#define EVENSTEP_WORKER_AGENT_FAKE_COORDINATOR_H_

// A coordinator for the agent's tests: greets, keeps what agents say, sends
// what the test says, and holds rendezvous values. Can be taken away and
// brought back on the same port. Thread-safe.

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "evenstep/v1/agent.grpc.pb.h"
#include "rpc/server.h"
#include "rpc/server_stream.h"

namespace evenstep::agent {

class FakeCoordinator : public v1::AgentService::CallbackService {
 public:
  using Stream =
      rpc::ServerBidiStream<v1::AgentMessage, v1::CoordinatorMessage>;

  explicit FakeCoordinator(int64_t reconnect_budget_ms = 60000)
      : reconnect_budget_ms_(reconnect_budget_ms) {}
  ~FakeCoordinator() override { GoAway(); }

  // On the port of last time, if there was one.
  absl::Status Come() {
    streams_ = std::make_unique<rpc::StreamRegistry>();
    auto server =
        rpc::Server::Start({.listen_address = address_}, *streams_,
                           {{v1::AgentService::service_full_name(), this}});
    if (!server.ok()) return server.status();
    server_ = *std::move(server);
    address_ = server_->address();
    return absl::OkStatus();
  }

  void GoAway() {
    if (server_ != nullptr) server_->Shutdown(absl::Milliseconds(500));
    server_ = nullptr;
  }

  const std::string& address() const { return address_; }

  // False: no agent is connected.
  bool Send(v1::CoordinatorMessage message) ABSL_LOCKS_EXCLUDED(mutex_) {
    std::shared_ptr<Stream> stream;
    {
      absl::MutexLock lock(&mutex_);
      stream = stream_;
    }
    return stream != nullptr && stream->Send(std::move(message)).ok();
  }

  std::vector<v1::AgentMessage> Received() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return received_;
  }

  // What agents have said since the last call.
  std::vector<v1::AgentMessage> Take() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return std::exchange(received_, {});
  }

  // Waits until `count` messages fulfil the condition.
  bool Await(const std::function<bool(const v1::AgentMessage&)>& condition,
             int count = 1, absl::Duration timeout = absl::Seconds(20))
      ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    const auto there = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      int found = 0;
      for (const auto& message : received_) found += condition(message) ? 1 : 0;
      return found >= count;
    };
    return mutex_.AwaitWithTimeout(absl::Condition(&there), timeout);
  }

 private:
  grpc::ServerBidiReactor<v1::AgentMessage, v1::CoordinatorMessage>* Connect(
      grpc::CallbackServerContext* context) override {
    auto stream = Stream::Create(context, *streams_);
    stream->Start({.on_message = [this, stream](v1::AgentMessage message) {
      OnMessage(stream, std::move(message));
    }});
    return stream->reactor();
  }

  void OnMessage(const std::shared_ptr<Stream>& stream,
                 v1::AgentMessage message) ABSL_LOCKS_EXCLUDED(mutex_) {
    const bool hello = message.has_hello();
    if (hello) {
      v1::CoordinatorMessage welcome;
      welcome.mutable_welcome()->set_heartbeat_interval_ms(20);
      welcome.mutable_welcome()->set_lease_ms(1000);
      welcome.mutable_welcome()->set_reconnect_budget_ms(reconnect_budget_ms_);
      (void)stream->Send(std::move(welcome));
    }
    absl::MutexLock lock(&mutex_);
    if (hello) stream_ = stream;
    received_.push_back(std::move(message));
  }

  grpc::ServerUnaryReactor* Rendezvous(
      grpc::CallbackServerContext* context,
      const v1::RendezvousRequest* request,
      v1::RendezvousResponse* response) override {
    auto call = rpc::ServerUnaryCall::Create(context, *streams_);
    call->Start();
    const std::string scope = absl::StrCat(
        request->attempt().job_id(), "/", request->attempt().generation(), "/");
    if (request->has_set()) {
      SetValue(scope + request->set().key(), request->set().value());
      call->Answer([] {});
    } else {
      GetValue(scope + request->get().key(), [call, response](std::string v) {
        call->Answer([&] {
          response->set_found(true);
          response->set_value(v);
        });
      });
    }
    return call->reactor();
  }

  void SetValue(const std::string& key, const std::string& value)
      ABSL_LOCKS_EXCLUDED(mutex_) {
    std::vector<std::function<void(std::string)>> waiting;
    {
      absl::MutexLock lock(&mutex_);
      values_[key] = value;
      waiting.swap(waiting_[key]);
    }
    for (const auto& answer : waiting) answer(value);
  }

  void GetValue(const std::string& key, std::function<void(std::string)> answer)
      ABSL_LOCKS_EXCLUDED(mutex_) {
    std::string value;
    {
      absl::MutexLock lock(&mutex_);
      const auto it = values_.find(key);
      if (it == values_.end()) {
        waiting_[key].push_back(std::move(answer));
        return;
      }
      value = it->second;
    }
    answer(value);
  }

  const int64_t reconnect_budget_ms_;
  std::string address_ = "127.0.0.1:0";
  std::unique_ptr<rpc::StreamRegistry> streams_;
  std::unique_ptr<rpc::Server> server_;
  mutable absl::Mutex mutex_;
  std::shared_ptr<Stream> stream_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::AgentMessage> received_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::string> values_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::vector<std::function<void(std::string)>>> waiting_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace evenstep::agent

#endif  // EVENSTEP_WORKER_AGENT_FAKE_COORDINATOR_H_
