#include "worker/agent/trainer_frames.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "jobspec/rules/rule_parts.h"
#include "wire/message_bounds.h"

namespace evenstep::agent {
namespace {

using Frame = trainer::v1::ToAgent;

// Longer than any time limit of a job.
constexpr absl::Duration kLongestWait = absl::Hours(24 * 8);

absl::Status CheckBytes(absl::string_view what,
                        const google::protobuf::Message& message, size_t most) {
  const size_t bytes = message.ByteSizeLong();
  if (bytes <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(what, " of ", bytes, " bytes; at most ", most));
}

// Of a length or step report.
template <typename Report>
absl::Status CheckReport(absl::string_view what, const Report& report, int rank,
                         int64_t num_steps) {
  if (report.rank() != rank) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, " of rank ", report.rank()));
  }
  return wire::CheckRange<int64_t>(absl::StrCat("step of a ", what),
                                   report.step(), 0, num_steps - 1);
}

absl::Status CheckKey(const std::string& key) {
  if (!key.empty() && key.size() <= wire::kMaxRendezvousKeyBytes) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("a rendezvous key of ",
                                                 key.size(), " bytes; 1 to ",
                                                 wire::kMaxRendezvousKeyBytes));
}

absl::Status CheckSet(const trainer::v1::RendezvousSet& set) {
  EVENSTEP_RETURN_IF_ERROR(CheckKey(set.key()));
  if (set.value().size() <= wire::kMaxRendezvousValueBytes) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("a rendezvous value of ", set.value().size(),
                   " bytes; at most ", wire::kMaxRendezvousValueBytes));
}

absl::Status CheckGet(const trainer::v1::RendezvousGet& get) {
  EVENSTEP_RETURN_IF_ERROR(CheckKey(get.key()));
  return wire::CheckRange<int64_t>("wait_ms", get.wait_ms(), 0,
                                   absl::ToInt64Milliseconds(kLongestWait));
}

// Its message may be long: it is cut.
absl::Status CheckFailure(const trainer::v1::Failure& failure,
                          int64_t num_steps) {
  EVENSTEP_RETURN_IF_ERROR(wire::CheckReason(failure.reason()));
  return wire::CheckRange<int64_t>("step of a failure", failure.step(), -1,
                                   num_steps);
}

absl::Status CheckFinished(const trainer::v1::Finished& finished,
                           int64_t num_steps) {
  EVENSTEP_RETURN_IF_ERROR(wire::CheckSize(
      "weights_path", finished.weights_path(), wire::kMaxPathBytes));
  EVENSTEP_RETURN_IF_ERROR(wire::CheckRange<int64_t>(
      "weights_steps", finished.weights_steps(), 0, num_steps));
  return wire::CheckRange<int64_t>("steps_done", finished.steps_done(), 0,
                                   num_steps);
}

absl::Status CheckFields(const Frame& frame, int rank, int64_t num_steps) {
  switch (frame.what_case()) {
    case Frame::kHello:
      return absl::InvalidArgumentError("a second hello");
    case Frame::kData:
      return CheckBytes("a data summary", frame.data(),
                        wire::kMaxDataSummaryBytes);
    case Frame::kLengths:
      return CheckReport("length report", frame.lengths(), rank, num_steps);
    case Frame::kStep:
      return CheckReport("step report", frame.step(), rank, num_steps);
    case Frame::kCosts:
      return CheckBytes("costs", frame.costs(), wire::kMaxCostsBytes);
    case Frame::kStarted:
      return wire::CheckText("emulated_link", frame.started().emulated_link(),
                             wire::kMaxLinkTextBytes);
    case Frame::kSet:
      return CheckSet(frame.set());
    case Frame::kGet:
      return CheckGet(frame.get());
    case Frame::kFailure:
      return CheckFailure(frame.failure(), num_steps);
    case Frame::kFinished:
      return CheckFinished(frame.finished(), num_steps);
    case Frame::kWritingWeights:
      return wire::CheckRange<int64_t>("bytes_written",
                                       frame.writing_weights().bytes_written(),
                                       0, std::numeric_limits<int64_t>::max());
    case Frame::WHAT_NOT_SET:
      return absl::OkStatus();  // ignored
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckFrame(const Frame& frame, int rank, int64_t num_steps) {
  absl::Status status = CheckFields(frame, rank, num_steps);
  if (status.ok()) return status;
  return absl::InvalidArgumentError(
      absl::StrCat("the trainer of rank ", rank,
                   " sent an invalid message: ", status.message()));
}

std::optional<int64_t> GenerationOf(const Frame& frame) {
  if (frame.has_lengths()) return frame.lengths().generation();
  if (frame.has_step()) return frame.step().generation();
  return std::nullopt;
}

std::optional<v1::AgentMessage> ForCoordinator(const Frame& frame,
                                               const v1::AttemptId& id,
                                               int rank) {
  v1::AgentMessage message;
  switch (frame.what_case()) {
    case Frame::kData:
      *message.mutable_data()->mutable_attempt() = id;
      message.mutable_data()->set_rank(rank);
      *message.mutable_data()->mutable_data() = frame.data();
      return message;
    case Frame::kLengths:
      *message.mutable_lengths()->mutable_attempt() = id;
      *message.mutable_lengths()->mutable_report() = frame.lengths();
      return message;
    case Frame::kStep:
      *message.mutable_step()->mutable_attempt() = id;
      *message.mutable_step()->mutable_report() = frame.step();
      return message;
    case Frame::kCosts:
      *message.mutable_costs()->mutable_attempt() = id;
      *message.mutable_costs()->mutable_costs() = frame.costs();
      return message;
    case Frame::kStarted:
      *message.mutable_started()->mutable_attempt() = id;
      message.mutable_started()->set_rank(rank);
      message.mutable_started()->set_emulated_link(
          frame.started().emulated_link());
      return message;
    default:
      return std::nullopt;
  }
}

}  // namespace evenstep::agent
