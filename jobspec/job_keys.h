#ifndef EVENSTEP_JOBSPEC_JOB_KEYS_H_
#define EVENSTEP_JOBSPEC_JOB_KEYS_H_

// The keys of a job file as evenstep.v1.JobSpec declares them
// (proto/evenstep/v1/job_spec.proto): names, order, words and options are those
// of its descriptor. Job files, `--set` and messages all set a key by its text
// and show it as text, so they cannot disagree. Pure functions, thread-safe.

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "jobspec/job_spec.h"

namespace google::protobuf {
class FieldDescriptor;
}  // namespace google::protobuf

namespace evenstep::jobspec {

struct JobKey {
  std::string name;  // dotted, such as "model.layers"
  // Where it is in a v1::JobSpec; no section: in the message itself.
  const google::protobuf::FieldDescriptor* section = nullptr;
  const google::protobuf::FieldDescriptor* field = nullptr;
  // The legal words, by the number of the C++ enum's value; none: no words.
  std::vector<std::string> words;
  bool is_duration = false;  // in the message: milliseconds
  bool of_video = false;
  bool hide_default = false;
  bool negated = false;  // the message says the opposite
};

// In the order of job files. Without `costs` (cost_file.h).
const std::vector<JobKey>& JobKeys();
// Null when there is none.
const JobKey* FindJobKey(absl::string_view name);

// INVALID_ARGUMENT with a sentence about `text`; *spec is then unchanged.
absl::Status SetKey(const JobKey& key, absl::string_view text, JobSpec* spec);
// What SetKey reads back to an equal value. Absent: a value that was not set.
std::optional<std::string> KeyText(const JobKey& key, const JobSpec& spec);
// The same for a job file, which leaves out keys of video from jobs of text,
// and defaults of keys that say so.
std::optional<std::string> ShownText(const JobKey& key, const JobSpec& spec);

// The word of an enum's value under a key, such as ("precision", kBFloat16).
absl::string_view WordOfNumber(absl::string_view key, int number);
template <typename Enum>
absl::string_view WordOf(absl::string_view key, Enum value) {
  return WordOfNumber(key, static_cast<int>(value));
}

}  // namespace evenstep::jobspec

#endif  // EVENSTEP_JOBSPEC_JOB_KEYS_H_
