#include "evenstep/job.h"

#include <array>
#include <utility>

#include "absl/strings/match.h"

namespace evenstep::client {
namespace {

constexpr std::array<std::pair<JobState, absl::string_view>, 9> kStateNames = {{
    {JobState::kUnknown, "UNKNOWN"},
    {JobState::kQueued, "QUEUED"},
    {JobState::kStarting, "STARTING"},
    {JobState::kRunning, "RUNNING"},
    {JobState::kRecovering, "RECOVERING"},
    {JobState::kStopping, "STOPPING"},
    {JobState::kSucceeded, "SUCCEEDED"},
    {JobState::kFailed, "FAILED"},
    {JobState::kCancelled, "CANCELLED"},
}};

}  // namespace

absl::string_view JobStateName(JobState state) {
  for (const auto& [value, name] : kStateNames) {
    if (value == state) return name;
  }
  return "UNKNOWN";
}

std::optional<JobState> ParseJobState(absl::string_view name) {
  for (const auto& [value, known] : kStateNames) {
    if (value != JobState::kUnknown && absl::EqualsIgnoreCase(known, name)) {
      return value;
    }
  }
  return std::nullopt;
}

bool IsFinal(JobState state) {
  return state == JobState::kSucceeded || state == JobState::kFailed ||
         state == JobState::kCancelled;
}

}  // namespace evenstep::client
