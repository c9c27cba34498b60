#include "worker/trainer/loop/run_trainer.h"

#include <ATen/Parallel.h>

#include <cstdlib>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "worker/trainer/comm/collective_ring.h"
#include "worker/trainer/comm/emulated_link.h"
#include "worker/trainer/comm/gloo_communicator.h"
#include "worker/trainer/comm/group_tree.h"
#include "worker/trainer/comm/in_process_communicator.h"
#include "worker/trainer/job/fault.h"
#include "worker/trainer/job/trainer_setup.h"
#include "worker/trainer/link/abort_switch.h"
#include "worker/trainer/link/agent_link.h"
#include "worker/trainer/link/failure.h"
#include "worker/trainer/link/plan_book.h"
#include "worker/trainer/loop/collective_timeout.h"
#include "worker/trainer/loop/train.h"

namespace evenstep::trainer {
namespace {

// From abandon to the end of the process, for a rank that is deep in a forward
// pass or a collective whose abort hangs.
constexpr absl::Duration kAbandonGrace = absl::Seconds(1);

// What is shared with the socket's reader, and what must outlast the last word.
// The link goes first, so that no callback meets a destroyed member.
struct Process {
  PlanBook plans;
  AbortSwitch abort;
  std::unique_ptr<InProcessHub> hub;  // for a world of one
  CollectiveRing ring;
  std::unique_ptr<CommunicatorFactory> factory;
  std::shared_ptr<GroupTree> groups;
  std::unique_ptr<AgentLink> link;
};

// Leaves without destructors: torch, Gloo and blocked threads have no say in
// it. The kernel closes the socket, which is how the agent hears of it.
[[noreturn]] void EndProcess(int exit_code) { std::_Exit(exit_code); }

// Of a call into NCCL that does not come back.
void EndHungProcess(absl::string_view why) {
  Log(LogLevel::kError, "hung", {{"reason", why}});
  EndProcess(kExitCollectiveFailed);
}

void OnAbandon(Process* process, const v1::AbandonStep& abandon) {
  Log(LogLevel::kWarning, "abandoned",
      {{"next_generation", abandon.next_generation()},
       {"message", abandon.message()}});
  std::thread timer([] {
    absl::SleepFor(kAbandonGrace);
    EndProcess(kExitAbandoned);
  });
  process->abort.Fire(absl::StrCat("abandoned: ", abandon.message()));
  timer.join();
}

void OnGone(const absl::Status& why) {
  Log(LogLevel::kError, "agent_gone", {{"reason", why}});
  EndProcess(kExitAgentGone);
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
             .end_process = DumpThenEnd(&process->ring, EndHungProcess)}));
  }
  return MakeRecordingFactory(std::move(factory), &process->ring);
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
  process->link->StartReading(&process->plans,
                              {.on_abandon =
                                   [process](const v1::AbandonStep& abandon) {
                                     OnAbandon(process, abandon);
                                   },
                               .on_gone = OnGone});
  parts.agent = process->link.get();
  parts.plans = &process->plans;
  parts.abort = &process->abort;
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
  message.mutable_finished()->set_weights_path(result.weights_path);
  message.mutable_finished()->set_stopped(result.stopped);
  Log(LogLevel::kInfo, result.stopped ? "stopped" : "finished",
      {{"steps", result.steps_done}, {"weights", result.weights_path}});
  const absl::Status sent = link->Send(message);
  return sent.ok() ? kExitFinished : kExitAgentGone;
}

int ReportFailure(const absl::Status& status, Process* process) {
  // What an abort breaks is no news: the agent knows, and the log says it.
  if (process->abort.fired()) return kExitAbandoned;
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
  const absl::Status sent = process->link->Send(message);
  return sent.ok() ? FailureExitCode(reason) : kExitAgentGone;
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
  Process process;
  auto link = AgentLink::Connect(options.socket_path, options.rank);
  if (!link.ok()) {
    Log(LogLevel::kError, "no_agent", {{"reason", link.status()}});
    return kExitAgentGone;
  }
  process.link = *std::move(link);
  const auto result = StartAndTrain(options, &process);
  if (result.ok()) return ReportFinished(*result, process.link.get());
  // A broken communicator may hang or abort when it is torn down.
  EndProcess(ReportFailure(result.status(), &process));
}

}  // namespace evenstep::trainer
