#include "worker/trainer/loop/run_trainer.h"

#include <ATen/Parallel.h>
#include <signal.h>

#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/clock.h"
#include "base/config_table.h"
#include "base/log.h"
#include "base/signals.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "worker/trainer/comm/emulated_link.h"
#include "worker/trainer/comm/flight_recorder.h"
#include "worker/trainer/comm/gloo_communicator.h"
#include "worker/trainer/comm/group_tree.h"
#include "worker/trainer/comm/in_process_communicator.h"
#include "worker/trainer/job/fault.h"
#include "worker/trainer/job/trainer_setup.h"
#include "worker/trainer/link/abort_switch.h"
#include "worker/trainer/link/agent_link.h"
#include "worker/trainer/link/failure.h"
#include "worker/trainer/link/plan_book.h"
#include "worker/trainer/loop/step_loop.h"
#include "worker/trainer/loop/train.h"
#include "worker/trainer/loop/weights_keeper.h"
#include "worker/trainer/model/tensor_memory.h"

namespace evenstep::trainer {
namespace {

// How long an abandoned rank waits for its main thread, which may be deep in a
// forward pass or in a collective whose abort hangs: time for the loss curve.
constexpr absl::Duration kAbandonGrace = absl::Seconds(1);
// For the weights of a rank that was told to abandon; its agent bounds it, too.
constexpr absl::Duration kLongestKeep = absl::Minutes(10);
// For the weights of a rank whose agent is gone. The coordinator takes it as
// gone a few seconds later.
constexpr absl::Duration kOrphanKeep = absl::Seconds(5);
// A rank that has said why it fails is told what to do by then. The coordinator
// may have to wait for a node's lease before it knows why the job fails.
constexpr absl::Duration kOrderWait = absl::Seconds(30);

// What is shared with the socket's reader and the waiter for signals, and what
// must outlast the last word. The link goes first, so that no callback meets a
// destroyed member.
struct Process {
  explicit Process(int own_rank) : rank(own_rank) {}

  const int rank;
  PlanBook plans;
  AbortSwitch abort;
  WeightsKeeper keeper;
  // The socket's reader ends the process.
  SteadyNotification ordered;
  // The main thread has left the training.
  SteadyNotification trained;
  std::unique_ptr<InProcessHub> hub;  // for a world of one
  FlightRecorder recorder;
  std::unique_ptr<CommunicatorFactory> factory;
  std::shared_ptr<GroupTree> groups;
  std::unique_ptr<AgentLink> link;
};

// Leaves without destructors: torch, Gloo and blocked threads have no say in
// it. The kernel closes the socket, which is how the agent hears of it.
[[noreturn]] void EndProcess(int exit_code) { std::_Exit(exit_code); }

// Nothing that hangs keeps the process longer. The thread ends with it.
std::thread EndProcessAfter(absl::Duration limit, int exit_code) {
  return std::thread([limit, exit_code] {
    absl::SleepFor(limit);
    EndProcess(exit_code);
  });
}

// Another thread ends the process.
[[noreturn]] void AwaitEnd() {
  while (true) absl::SleepFor(absl::InfiniteDuration());
}

// Of a call into NCCL that does not come back.
void EndHungProcess(absl::string_view why) {
  Log(LogLevel::kError, "hung", {{"reason", why}});
  EndProcess(kExitCollectiveFailed);
}

// Writes the weights of the last whole step, and tells the agent.
void LeaveWeights(Process* process) {
  v1::ToAgent message;
  FillWeights(process->keeper.Keep(), message.mutable_finished());
  message.mutable_finished()->set_steps_done(process->keeper.steps());
  const absl::Status sent = process->link->Send(message);
  if (!sent.ok()) Log(LogLevel::kWarning, "not_told", {{"reason", sent}});
}

// The main thread may be in the middle of a step: the parameters are those of
// the step before.
[[noreturn]] void OnAbandon(Process* process, const v1::AbandonStep& abandon) {
  Log(LogLevel::kWarning, "abandoned",
      {{"next_generation", abandon.next_generation()},
       {"weights_rank", abandon.weights_rank()},
       {"message", abandon.message()}});
  process->ordered.Notify();
  const std::thread limit = EndProcessAfter(kLongestKeep, kExitAbandoned);
  const std::thread breaker([&] {  // an abort may hang
    process->abort.Fire(absl::StrCat("abandoned: ", abandon.message()));
  });
  if (process->rank == abandon.weights_rank()) LeaveWeights(process);
  process->trained.WaitFor(kAbandonGrace);
  EndProcess(kExitAbandoned);
}

// Nobody is there to name another rank.
[[noreturn]] void OnGone(Process* process, const absl::Status& why) {
  Log(LogLevel::kError, "agent_gone", {{"reason", why}});
  const std::thread limit = EndProcessAfter(kOrphanKeep, kExitAgentGone);
  if (process->rank == 0) process->keeper.Keep().IgnoreError();  // is logged
  EndProcess(kExitAgentGone);
}

// Returns whether the agent was told.
bool TellFailure(const absl::Status& status, Process* process) {
  const FailureReason reason = ReasonOf(status);
  Log(LogLevel::kError, "failed",
      {{"reason", FailureReasonName(reason)},
       {"step", StepOf(status)},
       {"message", status.message()}});
  v1::ToAgent message;
  v1::Failure* failure = message.mutable_failure();
  failure->set_reason(std::string(FailureReasonName(reason)));
  failure->set_message(ToValidUtf8(status.message()));
  failure->set_step(StepOf(status));
  return process->link->Send(message).ok();
}

// A failure of this rank alone: says it, which ends the job, and sees to the
// weights. Rank 0 writes them unasked; another rank does if it is told that
// those before it are gone.
[[noreturn]] void LeaveAlone(const absl::Status& status, Process* process) {
  const int code = TellFailure(status, process)
                       ? FailureExitCode(ReasonOf(status))
                       : kExitAgentGone;
  if (process->keeper.steps() == 0) EndProcess(code);
  if (process->rank == 0) {
    LeaveWeights(process);
  } else if (process->ordered.WaitFor(kOrderWait)) {
    AwaitEnd();
  }
  EndProcess(code);
}

// On the thread that waits for signals.
void OnTerminate(Process* process) {
  Log(LogLevel::kWarning, "sigterm", {{"rank", process->rank}});
  if (process->ordered.HasBeenNotified()) AwaitEnd();
  LeaveAlone(FailureError(FailureReason::kTerminated, kNoStep,
                          "the trainer was told to end by SIGTERM"),
             process);
}

absl::StatusOr<FaultPlan> LoadFaults(const TrainerOptions& options) {
  EVENSTEP_ASSIGN_OR_RETURN(const std::vector<Fault> faults,
                            ParseFaults(options.fault_text));
  FaultPlan plan(faults, options.rank);
  if (!plan.empty()) {
    Log(LogLevel::kWarning, "PLANTED_FAULT_ACTIVE",
        {{"variable", kFaultVariable}, {"value", options.fault_text}});
  }
  return plan;
}

// Slows `factory` down, and says so in the setup.
absl::Status Emulate(const std::string& link_text, TrainerSetup* setup,
                     std::unique_ptr<CommunicatorFactory>* factory) {
  EVENSTEP_ASSIGN_OR_RETURN(const EmulatedLink link,
                            ParseEmulatedLink(link_text));
  setup->emulated_link = DescribeEmulatedLink(link);
  *factory = MakeEmulatedLinkFactory(std::move(*factory), link, absl::SleepFor);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<CommunicatorFactory>> MakeFactory(
    const TrainerOptions& trainer, TrainerSetup* setup, Process* process) {
  if (setup->world == 1) {
    process->hub = std::make_unique<InProcessHub>();
    return process->hub->MakeFactory();
  }
  GlooOptions options;
  options.listen_host = setup->listen_host;
  // The step loop sets the one of collectives once the first gate is passed.
  options.timeout = SetUpTimeout(setup->spec.timeouts);
  // Peers may index for longer. The coordinator, which hears of their progress,
  // ends a start that is late.
  options.start_wait = kLongestTimeout;
  EVENSTEP_ASSIGN_OR_RETURN(auto factory,
                            MakeGlooFactory(options, process->link.get()));
  if (!trainer.emulated_link_text.empty()) {
    EVENSTEP_RETURN_IF_ERROR(
        Emulate(trainer.emulated_link_text, setup, &factory));
  }
  if (trainer.device != nullptr) {
    EVENSTEP_ASSIGN_OR_RETURN(
        factory,
        trainer.device->make_factory(
            {.host = std::move(factory),
             .store = process->link.get(),
             .timeout = options.timeout,
             .end_process = DumpThenEnd(&process->recorder, EndHungProcess)}));
  }
  return MakeRecordingFactory(std::move(factory), &process->recorder);
}

// What the agent wants, checked; the reader runs afterwards.
absl::StatusOr<TrainParts> TakeOrders(const TrainerOptions& options,
                                      Process* process) {
  EVENSTEP_ASSIGN_OR_RETURN(const v1::Start start,
                            process->link->ReceiveStart());
  TrainParts parts;
  EVENSTEP_ASSIGN_OR_RETURN(parts.setup, MakeTrainerSetup(start, options.rank));
  parts.setup.models = options.models;
  EVENSTEP_ASSIGN_OR_RETURN(parts.faults, LoadFaults(options));
  process->plans.Begin(parts.setup.generation, parts.setup.world);
  process->link->StartReading(
      &process->plans,
      {.on_abandon =
           [process](const v1::AbandonStep& abandon) {
             OnAbandon(process, abandon);
           },
       .on_gone =
           [process](const absl::Status& why) { OnGone(process, why); }});
  parts.agent = process->link.get();
  parts.plans = &process->plans;
  parts.abort = &process->abort;
  parts.keeper = &process->keeper;
  parts.clock = &RealClock();
  parts.sleep = absl::SleepFor;
  return parts;
}

// Every error that it returns has a reason.
absl::StatusOr<TrainResult> StartAndTrain(const TrainerOptions& options,
                                          Process* process) {
  auto parts = TakeOrders(options, process);
  if (!parts.ok()) {
    return WithReason(parts.status(), FailureReason::kStartFailed, kNoStep);
  }
  at::set_num_threads(parts->setup.threads);
  if (options.device != nullptr) {
    auto device = options.device->start(parts->setup.local_rank);
    if (!device.ok()) {
      return WithReason(device.status(), FailureReason::kStartFailed, kNoStep);
    }
    parts->setup.device = *device;
    parts->setup.device_name = options.device->name(*device);
  }
  auto factory = MakeFactory(options, &parts->setup, process);
  if (!factory.ok()) {
    return WithReason(factory.status(), FailureReason::kStartFailed, kNoStep);
  }
  process->factory = *std::move(factory);
  parts->factory = process->factory.get();
  parts->groups = &process->groups;
  auto result = Train(*parts);
  if (result.ok()) return result;
  return WithReason(result.status(), ReasonOf(result.status()), kNoStep);
}

int ReportFinished(const TrainResult& result, AgentLink* link) {
  v1::ToAgent message;
  message.mutable_finished()->set_steps_done(result.steps_done);
  message.mutable_finished()->set_stopped(result.stopped);
  if (result.weights.has_value()) {
    FillWeights(*result.weights, message.mutable_finished());
  }
  Log(LogLevel::kInfo, result.stopped ? "stopped" : "finished",
      {{"steps", result.steps_done},
       {"weights", message.finished().weights_path()}});
  const absl::Status sent = link->Send(message);
  return sent.ok() ? kExitFinished : kExitAgentGone;
}

// A broken communicator may hang or abort when it is torn down.
[[noreturn]] void LeaveFailed(const absl::Status& status, Process* process) {
  // What an abort breaks is no news: the agent knows, and the log says it.
  if (process->ordered.HasBeenNotified()) AwaitEnd();
  if (!IsAgreedByAll(status)) LeaveAlone(status, process);
  EndProcess(TellFailure(status, process) ? FailureExitCode(ReasonOf(status))
                                          : kExitAgentGone);
}

}  // namespace

absl::Status ValidateTrainerOptions(const TrainerOptions& options) {
  if (options.socket_path.empty()) {
    return absl::InvalidArgumentError("socket: the agent's socket is needed");
  }
  if (options.rank < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank: ", options.rank, " is not a rank"));
  }
  return absl::OkStatus();
}

int RunTrainer(const TrainerOptions& options) {
  Process process(options.rank);
  auto link = AgentLink::Connect(options.socket_path, options.rank);
  if (!link.ok()) {
    Log(LogLevel::kError, "no_agent", {{"reason", link.status()}});
    return kExitAgentGone;
  }
  process.link = *std::move(link);
  const SignalWaiter signals(
      {.on_stop = [&] { OnTerminate(&process); }, .on_reload = nullptr});
  const auto result = StartAndTrain(options, &process);
  process.trained.Notify();
  if (!result.ok()) LeaveFailed(result.status(), &process);
  return ReportFinished(*result, process.link.get());
}

namespace {

// Ctrl-C and a closed terminal reach the whole process group, but whether to
// stop is the agent's to say. RunTrainer waits for SIGTERM.
void SetUpSignals() {
  signal(SIGINT, SIG_IGN);
  signal(SIGHUP, SIG_IGN);
  BlockSigtermOnly();
}

// Of variables that only tests and benchmarks set.
std::string Environment(const char* variable) {
  const char* value = std::getenv(variable);
  return value == nullptr ? "" : value;
}

}  // namespace

int TrainerMain(int argc, char** argv, const DeviceSupport* device,
                const NamedModels* models) {
  TrainerOptions options;
  LogLevel level = LogLevel::kInfo;
  LogFormat format = LogFormat::kText;
  ConfigTable table(
      device == nullptr ? "evenstep-trainer" : "evenstep-trainer-cuda",
      "Runs one rank of a job for its agent.");
  table.Add("socket", "EVENSTEP_TRAINER_SOCKET", &options.socket_path,
            "Unix socket of the agent");
  table.Add("rank", "EVENSTEP_TRAINER_RANK", &options.rank,
            "rank of this process");
  table.Add("log-level", "EVENSTEP_LOG_LEVEL", &level,
            "debug, info, warning or error");
  table.Add("log-format", "EVENSTEP_LOG_FORMAT", &format, "text or json");
  table.AddCheck([&] { return ValidateTrainerOptions(options); });
  if (const std::optional<int> code = table.Run(argc, argv)) return *code;

  CountTensorBytes();
  SetUpSignals();
  SetUpLogging(level, format, absl::StrCat("trainer rank=", options.rank));
  options.fault_text = Environment(kFaultVariable);
  options.emulated_link_text = Environment(kEmulatedLinkVariable);
  options.device = device;
  options.models = models;
  return RunTrainer(options);
}

}  // namespace evenstep::trainer
