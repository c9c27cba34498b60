// Streams of an agent that behaves well up to a random message and then changes
// one or two fields of what it sends, leaves messages out, repeats them or
// swaps them, against a whole coordinator over loopback. Beside it run an
// honest node that shares the agent's jobs, and one whose job has nothing to do
// with the agent and must not notice it. After each stream the job's state must
// be right; at the end an honest job must succeed.
//
// EVENSTEP_CHAOS_RUNS and EVENSTEP_CHAOS_SEED choose more streams (`make
// chaos-messages RUNS=N SEED=S`).

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "coordinator/jobs/job_state.h"
#include "coordinator/server/coordinator_server.h"
#include "coordinator/server/message_check.h"
#include "coordinator/store/sqlite_job_store.h"
#include "coordinator/testing/fake_node.h"
#include "coordinator/testing/fake_ranks.h"
#include "gtest/gtest.h"
#include "prometheus/text_serializer.h"
#include "rpc/channel.h"
#include "rpc/errors.h"
#include "rpc/testing/call_unary.h"
#include "wire/testing/message_mutator.h"

namespace evenstep::coordinator {
namespace {

using testing::FakeNode;
using wire::testing::MessageMutator;

constexpr int64_t kFirstHonest = 14;  // messages before the first change
constexpr int kChangesOfStream = 12;

int64_t FromEnvironment(const char* name, int64_t otherwise) {
  const char* const text = std::getenv(name);
  int64_t value = 0;
  return text != nullptr && absl::SimpleAtoi(text, &value) ? value : otherwise;
}

// What one broken agent sends. Thread-safe.
class Script {
 public:
  Script(uint64_t seed, v1::AttemptId bystander)
      : mutator_(seed),
        bystander_(std::move(bystander)),
        num_honest_(mutator_.Below(kFirstHonest)),
        gets_better_(mutator_.OneIn(2)) {}

  std::vector<v1::AgentMessage> Replace(const v1::AgentMessage& message) {
    absl::MutexLock lock(&mutex_);
    honest_.push_back(message);
    std::vector<v1::AgentMessage> sent;
    if (num_honest_ > 0 || (IsDone() && gets_better_)) {
      --num_honest_;
      sent = {message};
    } else if (!IsDone()) {
      sent = Spoil(message);
    }
    for (const v1::AgentMessage& each : sent) Note(each);
    num_sent_ += static_cast<int64_t>(sent.size());
    return sent;
  }

  // All changes are made, or nothing more is sent.
  void AwaitEnd(absl::Duration idle) {
    absl::MutexLock lock(&mutex_);
    while (!IsDone()) {
      const int64_t before = num_sent_;
      const auto moved = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return num_sent_ != before;
      };
      if (!mutex_.AwaitWithTimeout(absl::Condition(&moved), idle)) return;
    }
  }

  int64_t num_sent() const {
    absl::MutexLock lock(&mutex_);
    return num_sent_;
  }
  int num_changed() const {
    absl::MutexLock lock(&mutex_);
    return num_changed_;
  }
  // The first one sent: the node's name may be a changed one.
  v1::AgentHello hello() const {
    absl::MutexLock lock(&mutex_);
    return hello_.value_or(v1::AgentHello());
  }
  bool SaysFinished(const v1::Job& job, int rank) const {
    absl::MutexLock lock(&mutex_);
    return finished_.contains({job.job_id(), job.attempt(), rank});
  }

 private:
  bool IsDone() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return num_changed_ >= kChangesOfStream;
  }

  std::vector<v1::AgentMessage> Spoil(const v1::AgentMessage& message)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    std::vector<v1::AgentMessage> sent;
    const int copies = 1 + mutator_.Below(4);
    for (int i = 0; i < copies; ++i) {
      const int earlier =
          mutator_.OneIn(2) ? static_cast<int>(honest_.size()) - 1
                            : mutator_.Below(static_cast<int>(honest_.size()));
      v1::AgentMessage changed = honest_[earlier];
      Change(&changed);
      sent.push_back(std::move(changed));
      ++num_changed_;
    }
    // The honest one comes before, after, twice or not at all.
    const int place = mutator_.Below(8);
    if (place > 0) {
      sent.insert(place < 4 ? sent.begin() : sent.end(), message);
    }
    if (place == 7) sent.push_back(message);
    return sent;
  }

  void Change(v1::AgentMessage* message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (mutator_.OneIn(6)) return ChangeRank(message);
    if (mutator_.OneIn(8)) return ChangeAttempt(message);
    if (mutator_.OneIn(12)) return Invent(message);
    mutator_.ChangeOneField(message);
    if (mutator_.OneIn(2)) mutator_.ChangeOneField(message);
  }

  void ChangeRank(v1::AgentMessage* message)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const int rank =
        mutator_.OneIn(2) ? 1 - mutator_.Below(2) : mutator_.Below(4096) - 16;
    if (message->has_lengths()) {
      message->mutable_lengths()->mutable_report()->set_rank(rank);
    }
    if (message->has_step()) {
      message->mutable_step()->mutable_report()->set_rank(rank);
    }
    if (message->has_data()) message->mutable_data()->set_rank(rank);
    if (message->has_started()) message->mutable_started()->set_rank(rank);
    if (message->has_exited()) message->mutable_exited()->set_rank(rank);
    if (message->has_logs() && message->logs().lines_size() > 0) {
      message->mutable_logs()->mutable_lines(0)->set_rank(rank);
    }
  }

  // Another's attempt, or another generation of its own.
  void ChangeAttempt(v1::AgentMessage* message)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto* const what = message->GetDescriptor()->FindFieldByNumber(
        static_cast<int>(message->what_case()));
    if (what == nullptr) return;
    auto* const inner = message->GetReflection()->MutableMessage(message, what);
    const auto* const attempt =
        inner->GetDescriptor()->FindFieldByName("attempt");
    if (attempt == nullptr) return;
    auto* const id = static_cast<v1::AttemptId*>(
        inner->GetReflection()->MutableMessage(inner, attempt));
    if (mutator_.OneIn(2)) {
      *id = bystander_;
    } else {
      id->set_generation(id->generation() - 1 + 2 * mutator_.Below(2));
    }
  }

  // The end of another's rank, or of a whole attempt.
  void Invent(v1::AgentMessage* message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const v1::AttemptId id =
        mutator_.OneIn(3) ? bystander_ : AttemptOf(*message);
    const int rank = mutator_.Below(3);
    switch (mutator_.Below(5)) {
      case 0:
        *message = testing::CleanExit(id, rank, mutator_.Below(8));
        return;
      case 1:
        *message = testing::Killed(id, rank, 9);
        return;
      case 2:
        *message = testing::Ended(id);
        return;
      case 3:
        *message = testing::Started(id, rank);
        return;
      default:
        *message = testing::CollectiveFailed(id, rank);
    }
  }

  void Note(const v1::AgentMessage& message)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (message.has_hello() && !hello_.has_value()) hello_ = message.hello();
    if (!message.has_exited() || !message.exited().clean()) return;
    const v1::TrainerExited& exited = message.exited();
    finished_.insert(
        {exited.attempt().job_id(), exited.attempt().attempt(), exited.rank()});
  }

  mutable absl::Mutex mutex_;
  MessageMutator mutator_;
  const v1::AttemptId bystander_;
  int num_honest_;
  const bool gets_better_;
  int num_changed_ = 0;
  int64_t num_sent_ = 0;
  std::vector<v1::AgentMessage> honest_;
  std::optional<v1::AgentHello> hello_;
  std::set<std::tuple<std::string, int, int>> finished_;
};

class MessageChaosTest : public ::testing::Test {
 protected:
  MessageChaosTest() {
    std::string name = ::testing::TempDir() + "/evenstep-chaos-XXXXXX";
    folder_ = mkdtemp(name.data());
    settings_.listen = "127.0.0.1:0";
    settings_.store_path = folder_ + "/store.db";
    AttemptTimes& times = settings_.options.times;
    times.lease = absl::Seconds(2);
    times.cause_grace = absl::Milliseconds(20);
    times.explain_grace = absl::Milliseconds(50);
    times.end_interval = absl::Milliseconds(100);
    times.reconnect_budget = absl::Seconds(1);
    times.kill_grace = absl::Milliseconds(100);
  }
  ~MessageChaosTest() override {
    server_.reset();
    std::filesystem::remove_all(folder_);
  }

  void StartServer() {
    auto server = CoordinatorServer::Start(settings_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    stub_ = v1::JobService::NewStub(rpc::MakeChannel(server_->address()));
  }
  void Submit(const std::string& id, int ranks, int64_t steps) {
    v1::SubmitRequest request = testing::SmallJob(id, ranks, steps);
    request.mutable_spec()->mutable_timeouts()->set_stop_ms(20);
    const auto response = rpc::CallUnary<v1::SubmitResponse>(
        [&](auto* c, auto* r) { return stub_->Submit(c, request, r); });
    ASSERT_TRUE(response.ok()) << response.status();
  }
  v1::Job Get(const std::string& id) {
    v1::GetRequest request;
    request.set_job_id(id);
    const auto response = rpc::CallUnary<v1::GetResponse>(
        [&](auto* c, auto* r) { return stub_->Get(c, request, r); });
    EXPECT_TRUE(response.ok())
        << "the coordinator is gone: " << response.status();
    return response.ok() ? response->job() : v1::Job();
  }
  void Cancel(const std::string& id) {
    v1::CancelRequest request;
    request.set_job_id(id);
    const auto response = rpc::CallUnary<v1::CancelResponse>(
        [&](auto* c, auto* r) { return stub_->Cancel(c, request, r); });
    EXPECT_TRUE(response.ok()) << response.status();
  }
  template <typename Condition>
  v1::Job AwaitJob(const std::string& id, absl::Duration timeout,
                   Condition condition) {
    const absl::Time deadline = absl::Now() + timeout;
    v1::Job job = Get(id);
    while (!condition(job) && absl::Now() < deadline && !HasFailure()) {
      absl::SleepFor(absl::Milliseconds(2));
      job = Get(id);
    }
    return job;
  }
  static bool IsOver(const v1::Job& job) {
    return IsFinal(static_cast<JobState>(job.state()));
  }

  void RunStream(int index, MessageMutator& random);
  void CheckSuccess(const v1::Job& job, const Script& script);
  void CheckStore();
  void PrintRefusals() {
    const std::string text = prometheus::TextSerializer().Serialize(
        server_->metrics().registry()->Collect());
    for (const absl::string_view line : absl::StrSplit(text, '\n')) {
      if (absl::StrContains(line, "_messages_total{"))
        std::cout << line << "\n";
    }
  }

  std::string folder_;
  CoordinatorSettings settings_;
  std::unique_ptr<CoordinatorServer> server_;
  std::unique_ptr<v1::JobService::Stub> stub_;
  std::unique_ptr<FakeNode> peer_;
  v1::AttemptId bystander_;
  int64_t num_sent_ = 0, num_changed_ = 0;
  std::map<std::string, int> results_;
};

// Ranks of the peer are known; those of the broken node are what it says.
void MessageChaosTest::CheckSuccess(const v1::Job& job, const Script& script) {
  for (const v1::Placement& placement : job.placements()) {
    for (int i = 0; i < placement.num_ranks(); ++i) {
      const int rank = placement.first_rank() + i;
      const bool finished =
          placement.node() == "peer"
              ? peer_->HasFinished(job.job_id(), job.attempt())
              : script.SaysFinished(job, rank);
      EXPECT_TRUE(finished) << job.job_id() << " succeeded without rank "
                            << rank << " of node " << placement.node();
    }
  }
}

void MessageChaosTest::RunStream(int index, MessageMutator& random) {
  const std::string id = absl::StrCat("job-", index);
  // A peer that does not go on: its jobs may fail, and never succeed.
  peer_->HoldAt(random.OneIn(4) ? 2 : -1);
  Submit(id, 2, 3 + random.Below(5));
  // Ranks are given in order of names: it is rank 0 or 1.
  const std::string name = random.OneIn(2) ? "chaos" : "zchaos";
  const v1::AgentMessage hello =
      testing::Hello(name, absl::StrCat("incarnation ", index), 1);
  Script script(random.Below(1 << 30), bystander_);
  {
    FakeNode broken(server_->address(), hello, [&](const auto& message) {
      return script.Replace(message);
    });
    script.AwaitEnd(absl::Milliseconds(150));
    AwaitJob(id, absl::Milliseconds(random.OneIn(3) ? 150 : 0), IsOver);
  }
  num_sent_ += script.num_sent();
  num_changed_ += script.num_changed();
  // The agent starts again in its folder: that ends what it ran.
  v1::AgentMessage after;
  *after.mutable_hello() = script.hello();
  after.mutable_hello()->clear_running();
  after.mutable_hello()->set_incarnation(absl::StrCat("after ", index));
  if (!IsOver(Get(id))) Cancel(id);
  const FakeNode restarted(server_->address(), after, nullptr);
  const v1::Job job = AwaitJob(id, absl::Seconds(40), IsOver);
  ASSERT_TRUE(IsOver(job)) << job.ShortDebugString();
  ++results_[absl::StrCat(v1::JobState_Name(job.state()), " ", job.reason())];
  if (job.state() == v1::JOB_STATE_SUCCEEDED) CheckSuccess(job, script);
  EXPECT_GE(job.steps_done(), 0);
  EXPECT_LE(job.steps_done(), job.spec().steps());
}

// The file as the next coordinator will find it.
void MessageChaosTest::CheckStore() {
  auto store = SqliteJobStore::Open(settings_.store_path, {});
  ASSERT_TRUE(store.ok()) << store.status();
  const auto records = (*store)->LoadJobs();
  ASSERT_TRUE(records.ok()) << records.status();
  for (const JobRecord& record : *records) {
    const std::string& id = record.job.job_id();
    EXPECT_EQ(static_cast<int>(record.status.state), record.job.state()) << id;
    EXPECT_TRUE(IsFinal(record.status.state)) << id;
    const auto events = (*store)->ReadEvents(id, 0, 1000);
    ASSERT_TRUE(events.ok()) << events.status();
    JobState before = JobState::kQueued;
    int64_t sequence = 0;
    for (const v1::JobEvent& event : *events) {
      EXPECT_EQ(event.sequence(), ++sequence) << id;
      const auto now = static_cast<JobState>(event.state());
      EXPECT_FALSE(IsFinal(before)) << id << ": something followed its end";
      if (now == JobState::kSucceeded || now == JobState::kFailed) {
        EXPECT_EQ(before, JobState::kStopping) << id;
      }
      before = now;
    }
    EXPECT_EQ(before, record.status.state) << id;
    const auto log = (*store)->ReadLog(id, 0, 1000);
    ASSERT_TRUE(log.ok()) << log.status();
    for (const v1::LogLine& line : log->lines) {
      EXPECT_GE(line.rank(), -1) << id;
      EXPECT_LT(line.rank(), record.job.spec().ranks()) << id;
      EXPECT_LE(line.text().size(), 8u << 10) << id;
    }
  }
}

TEST_F(MessageChaosTest, ABrokenAgentHarmsNobodyElse) {
  const int64_t runs = FromEnvironment("EVENSTEP_CHAOS_RUNS", 60);
  const int64_t seed = FromEnvironment("EVENSTEP_CHAOS_SEED", 1);
  std::cout << "seed " << seed << ", " << runs << " streams" << std::endl;
  StartServer();
  FakeNode steady(server_->address(), "steady", 1);
  steady.HoldAt(1);
  Submit("bystander", 1, runs + 1);
  AwaitJob("bystander", absl::Seconds(20), [](const v1::Job& job) {
    return job.state() == v1::JOB_STATE_RUNNING;
  });
  bystander_ = steady.attempt();
  peer_ = std::make_unique<FakeNode>(server_->address(), "peer", 1);
  MessageMutator random(static_cast<uint64_t>(seed));
  for (int index = 0; index < runs && !HasFailure(); ++index) {
    RunStream(index, random);
    steady.HoldAt(index + 2 <= runs ? index + 2 : -1);
    const v1::Job job = Get("bystander");
    ASSERT_TRUE(job.state() == v1::JOB_STATE_RUNNING || index + 1 == runs)
        << "stream " << index << ": " << job.ShortDebugString();
    ASSERT_EQ(job.attempt(), 1);
  }
  peer_->HoldAt(-1);
  const FakeNode honest(server_->address(), "honest", 1);
  Submit("honest", 2, 6);
  const v1::Job job = AwaitJob("honest", absl::Seconds(20), IsOver);
  EXPECT_EQ(job.state(), v1::JOB_STATE_SUCCEEDED) << job.ShortDebugString();
  const v1::Job bystander = AwaitJob("bystander", absl::Seconds(20), IsOver);
  EXPECT_EQ(bystander.state(), v1::JOB_STATE_SUCCEEDED)
      << bystander.ShortDebugString();
  EXPECT_EQ(bystander.steps_done(), runs + 1);
  std::cout << num_sent_ << " messages, " << num_changed_ << " changed\n";
  if (runs >= 20) {
    EXPECT_GE(num_changed_, runs) << "too well behaved";
  }
  for (const auto& [result, count] : results_) {
    std::cout << count << " jobs " << result << "\n";
  }
  PrintRefusals();
  server_.reset();
  CheckStore();
}

}  // namespace
}  // namespace evenstep::coordinator
