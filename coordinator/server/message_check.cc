#include "coordinator/server/message_check.h"

#include <algorithm>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "coordinator/steps/step_summary.h"
#include "google/protobuf/util/time_util.h"
#include "wire/job_spec_proto.h"
#include "wire/message_bounds.h"

namespace evenstep::coordinator {
namespace {

using What = v1::AgentMessage::WhatCase;

constexpr int kMaxSignal = 64;
constexpr int kMaxExitStatus = 255;

struct KindRow {
  What what;
  absl::string_view name;
  // Of the whole message, unknown fields included.
  size_t max_bytes;
};

constexpr KindRow kKinds[] = {
    {What::kHello, "hello", 256 << 10},
    {What::kHeartbeat, "heartbeat", 1 << 10},
    {What::kLengths, "lengths", 64 << 20},  // the transport's bound is less
    {What::kStep, "step", 64 << 20},
    {What::kCosts, "costs", wire::kMaxCostsBytes + (1 << 10)},
    {What::kData, "data", wire::kMaxDataSummaryBytes + (1 << 10)},
    {What::kStarted, "started", 4 << 10},
    {What::kAbandon, "abandon", 1 << 20},
    {What::kExited, "exited", 1 << 20},
    {What::kEnded, "ended", 1 << 10},
    {What::kLogs, "logs", 16 << 20},
    {What::kReady, "ready", 1 << 10},
};

const KindRow* RowOf(What what) {
  const auto row =
      std::find_if(std::begin(kKinds), std::end(kKinds),
                   [&](const KindRow& kind) { return kind.what == what; });
  return row == std::end(kKinds) ? nullptr : row;
}

MessageVerdict Take() { return {}; }
MessageVerdict Repeat() { return {Verdict::kRepeat, "", {}}; }
MessageVerdict Stale() { return {Verdict::kStale, "", {}}; }

template <typename... Parts>
MessageVerdict Refuse(const char* reason, const Parts&... parts) {
  return {Verdict::kRefuse, reason,
          absl::InvalidArgumentError(absl::StrCat(parts...))};
}

MessageVerdict FailUnlessOk(const char* reason, const absl::Status& status) {
  if (status.ok()) return Take();
  return {Verdict::kFail, reason, status};
}

MessageVerdict RefuseUnlessOk(const char* reason, const absl::Status& status) {
  if (status.ok()) return Take();
  return {Verdict::kRefuse, reason, status};
}

bool RunsRank(const MessageContext& context, int rank) {
  const RankReports& ranks = context.run->ranks();
  return ranks.HasRank(rank) && ranks.NodeOf(rank) == context.node;
}

MessageVerdict ForeignRank(const MessageContext& context, int rank) {
  return Refuse("rank", "node ", context.node, " sent a message for rank ",
                rank, ", which it does not run; the job has ",
                context.run->ranks().world(), " ranks");
}

// Nothing is planned any more for the step. Of an attempt from before a restart
// of the coordinator no plan is known, while its trainers run on.
bool IsPast(const MessageContext& context, int64_t step) {
  return context.run->stopping() ||
         (step >= 0 && step < context.run->steps().next_step());
}

MessageVerdict CheckLengths(const v1::JobLengthReport& message,
                            const MessageContext& context) {
  const v1::LengthReport& report = message.report();
  if (report.generation() != message.attempt().generation()) return Stale();
  if (!RunsRank(context, report.rank())) {
    return ForeignRank(context, report.rank());
  }
  const JobSteps& steps = context.run->steps();
  if (IsPast(context, report.step())) return Repeat();
  return FailUnlessOk("content", steps.CheckLengths(report));
}

MessageVerdict CheckStep(const v1::JobStepReport& message,
                         const MessageContext& context) {
  const v1::StepReport& report = message.report();
  if (report.generation() != message.attempt().generation()) return Stale();
  if (!RunsRank(context, report.rank())) {
    return ForeignRank(context, report.rank());
  }
  const JobSteps& steps = context.run->steps();
  const v1::StepPlan* const plan = steps.Find(report.step());
  if (plan != nullptr) {
    return FailUnlessOk("content", CheckStepReport(*plan, report));
  }
  if (IsPast(context, report.step())) return Repeat();
  return Refuse("step", "step report of rank ", report.rank(), " for step ",
                report.step(), ": step ", steps.next_step(),
                " is not planned yet");
}

MessageVerdict CheckCosts(const v1::MeasuredCosts& message,
                          const MessageContext& context) {
  if (!RunsRank(context, 0)) return ForeignRank(context, 0);
  if (context.run->steps().costs().has_value()) return Repeat();
  const auto costs = wire::FromProto(message.costs());
  // Costs are estimates: TakeCosts replaces those that no plan may be made
  // with.
  if (!costs.ok()) return Take();
  if (!costs->is_video() || context.run->spec().model.is_video()) return Take();
  return FailUnlessOk("content", absl::InvalidArgumentError(absl::StrCat(
                                     "measured costs of node ", context.node,
                                     " are of a video model")));
}

// Every count of the summary, whatever they are: also those that a later
// version adds.
absl::Status CheckCounts(const v1::DataSummary& data) {
  const auto& reflection = *data.GetReflection();
  using Field = google::protobuf::FieldDescriptor;
  const auto& type = *data.GetDescriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const Field& field = *type.field(i);
    if (field.is_repeated()) continue;
    if (field.cpp_type() == Field::CPPTYPE_INT64) {
      // -1: the source has no token ids of its own.
      const bool may_lack =
          field.number() == v1::DataSummary::kLargestTokenFieldNumber;
      EVENSTEP_RETURN_IF_ERROR(wire::CheckRange<int64_t>(
          field.name(), reflection.GetInt64(data, &field), may_lack ? -1 : 0,
          kMaxDataCount));
    }
    if (field.cpp_type() == Field::CPPTYPE_STRING) {
      EVENSTEP_RETURN_IF_ERROR(
          wire::CheckSize(field.name(), reflection.GetString(data, &field),
                          wire::kMaxPathBytes));
    }
  }
  for (const std::string& warning : data.warnings()) {
    EVENSTEP_RETURN_IF_ERROR(
        wire::CheckSize("warnings", warning, wire::kMaxPathBytes));
  }
  return absl::OkStatus();
}

MessageVerdict CheckData(const v1::RankData& message,
                         const MessageContext& context) {
  if (!RunsRank(context, message.rank())) {
    return ForeignRank(context, message.rank());
  }
  return FailUnlessOk("content", CheckCounts(message.data()));
}

MessageVerdict CheckStarted(const v1::RankStarted& message,
                            const MessageContext& context) {
  if (!RunsRank(context, message.rank())) {
    return ForeignRank(context, message.rank());
  }
  return RefuseUnlessOk(
      "text", wire::CheckText("emulated_link", message.emulated_link(),
                              wire::kMaxLinkTextBytes));
}

MessageVerdict CheckAbandon(const v1::AbandonRequest& message,
                            const MessageContext& context) {
  // -1: the agent itself.
  if (message.rank() != -1 && !RunsRank(context, message.rank())) {
    return ForeignRank(context, message.rank());
  }
  const absl::Status step = wire::CheckRange<int64_t>(
      "step", message.step(), -1, context.run->spec().steps);
  if (!step.ok()) return RefuseUnlessOk("number", step);
  return RefuseUnlessOk("text", wire::CheckReason(message.reason()));
}

absl::Status CheckExitNumbers(const v1::TrainerExited& message,
                              int64_t num_steps) {
  EVENSTEP_RETURN_IF_ERROR(wire::CheckRange(
      "exit_status", message.exit_status(), 0, kMaxExitStatus));
  EVENSTEP_RETURN_IF_ERROR(
      wire::CheckRange("signal", message.signal(), 0, kMaxSignal));
  EVENSTEP_RETURN_IF_ERROR(wire::CheckRange<int64_t>(
      "steps_done", message.steps_done(), 0, num_steps));
  EVENSTEP_RETURN_IF_ERROR(wire::CheckRange<int64_t>(
      "weights_steps", message.weights_steps(), 0, num_steps));
  if (!message.clean() ||
      (message.signal() == 0 && message.exit_status() == 0)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("a clean end with exit status ", message.exit_status(),
                   " and signal ", message.signal(), " cannot be"));
}

MessageVerdict CheckExited(const v1::TrainerExited& message,
                           const MessageContext& context) {
  if (!RunsRank(context, message.rank())) {
    return ForeignRank(context, message.rank());
  }
  const absl::Status numbers =
      CheckExitNumbers(message, context.run->spec().steps);
  if (!numbers.ok()) return RefuseUnlessOk("number", numbers);
  return RefuseUnlessOk("text",
                        wire::CheckSize("weights_path", message.weights_path(),
                                        wire::kMaxPathBytes));
}

// From year 1 to year 9999, as protobuf has it.
bool IsTime(const google::protobuf::Timestamp& time) {
  using google::protobuf::util::TimeUtil;
  return time.seconds() >= TimeUtil::kTimestampMinSeconds &&
         time.seconds() <= TimeUtil::kTimestampMaxSeconds &&
         time.nanos() >= 0 && time.nanos() < 1'000'000'000;
}

MessageVerdict CheckLogs(const v1::LogBatch& message,
                         const MessageContext& context) {
  if (message.lines_size() > kMaxLogLines || message.first_line() < 0 ||
      message.first_line() > kMaxLogLineNumber) {
    return Refuse("number", message.lines_size(), " log lines from number ",
                  message.first_line(), " on; at most ", kMaxLogLines,
                  ", and numbers are 0 to ", kMaxLogLineNumber);
  }
  for (const v1::LogLine& line : message.lines()) {
    if (line.rank() != -1 && !RunsRank(context, line.rank())) {
      return ForeignRank(context, line.rank());
    }
    if (!IsTime(line.time())) {
      return Refuse("number", "a log line of second ", line.time().seconds(),
                    " and nanosecond ", line.time().nanos());
    }
  }
  return Take();
}

MessageVerdict CheckContent(const v1::AgentMessage& message,
                            const MessageContext& context) {
  switch (message.what_case()) {
    case What::kLengths:
      return CheckLengths(message.lengths(), context);
    case What::kStep:
      return CheckStep(message.step(), context);
    case What::kCosts:
      return CheckCosts(message.costs(), context);
    case What::kData:
      return CheckData(message.data(), context);
    case What::kStarted:
      return CheckStarted(message.started(), context);
    case What::kAbandon:
      return CheckAbandon(message.abandon(), context);
    case What::kExited:
      return CheckExited(message.exited(), context);
    case What::kLogs:
      return CheckLogs(message.logs(), context);
    default:
      return Take();  // ready and ended: the attempt is all they say
  }
}

}  // namespace

const v1::AttemptId& AttemptOf(const v1::AgentMessage& message) {
  switch (message.what_case()) {
    case What::kLengths:
      return message.lengths().attempt();
    case What::kStep:
      return message.step().attempt();
    case What::kCosts:
      return message.costs().attempt();
    case What::kData:
      return message.data().attempt();
    case What::kStarted:
      return message.started().attempt();
    case What::kAbandon:
      return message.abandon().attempt();
    case What::kExited:
      return message.exited().attempt();
    case What::kEnded:
      return message.ended().attempt();
    case What::kLogs:
      return message.logs().attempt();
    case What::kReady:
      return message.ready().attempt();
    default:
      return v1::AttemptId::default_instance();
  }
}

absl::string_view KindOf(const v1::AgentMessage& message) {
  const KindRow* const row = RowOf(message.what_case());
  return row == nullptr ? "unknown" : row->name;
}

MessageVerdict CheckAgentMessage(const v1::AgentMessage& message,
                                 const MessageContext& context) {
  const KindRow* const row = RowOf(message.what_case());
  if (row == nullptr) return Refuse("content", "a message of no known kind");
  const size_t bytes = message.ByteSizeLong();
  if (bytes > row->max_bytes) {
    return Refuse("size", "a message '", row->name, "' of ", bytes,
                  " bytes; at most ", row->max_bytes);
  }
  const v1::AttemptId& id = AttemptOf(message);
  if (!wire::IsLegalJobId(id.job_id()) || id.attempt() < 1 ||
      id.generation() < 0) {
    return Refuse("attempt", "a message '", row->name, "' of attempt ",
                  id.attempt(), ", generation ", id.generation(),
                  " of a job whose id has ", id.job_id().size(), " bytes");
  }
  if (context.run == nullptr ||
      context.run->id().generation() != id.generation()) {
    return Stale();
  }
  if (FindNode(context.run->nodes(), context.node) == nullptr) {
    return Refuse("attempt", "node ", context.node, " has no part in attempt ",
                  id.attempt(), " of job ", id.job_id());
  }
  if (!context.is_own) return Stale();
  return CheckContent(message, context);
}

absl::Status CheckHello(const v1::AgentHello& hello) {
  const size_t bytes = hello.ByteSizeLong();
  const size_t most = RowOf(What::kHello)->max_bytes;
  if (bytes > most) {
    return absl::InvalidArgumentError(
        absl::StrCat("hello: it has ", bytes, " bytes; at most ", most));
  }
  if (hello.node().empty() || hello.incarnation().empty()) {
    return absl::InvalidArgumentError("hello: node or incarnation is empty");
  }
  for (const auto& [field, text, most] :
       {std::tuple("hello: node", &hello.node(), wire::kMaxNodeNameBytes),
        {"hello: incarnation", &hello.incarnation(), wire::kMaxNodeNameBytes},
        {"hello: folder_id", &hello.folder_id(), wire::kMaxNodeNameBytes},
        {"hello: version", &hello.version(), wire::kMaxVersionBytes},
        {"hello: metrics_address", &hello.metrics_address(),
         wire::kMaxAddressBytes}}) {
    EVENSTEP_RETURN_IF_ERROR(wire::CheckText(field, *text, most));
  }
  EVENSTEP_RETURN_IF_ERROR(
      wire::CheckRange("hello: slots", hello.slots(), 1, kMaxSlots));
  EVENSTEP_RETURN_IF_ERROR(wire::CheckRange(
      "hello: running attempts", hello.running_size(), 0, kMaxSlots));
  for (const v1::AttemptId& running : hello.running()) {
    if (wire::IsLegalJobId(running.job_id())) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("hello: a running attempt of a job whose id has ",
                     running.job_id().size(), " bytes is not legal"));
  }
  return absl::OkStatus();
}

}  // namespace evenstep::coordinator
