#ifndef EVENSTEP_JOBSPEC_JOB_SPEC_H_
#define EVENSTEP_JOBSPEC_JOB_SPEC_H_

// What a job is, as plain structs with their defaults: the meaning of a job
// file. Parsed by ParseJobFile, checked by ValidateJobSpec, carried by
// wire/job_spec_proto.h. Plain data; no thread-safety needed.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "data/dataset.h"
#include "planner/request.h"

namespace evenstep::jobspec {

using data::OnBadSample;
using data::OnTooLong;

struct ModelSpec {
  int layers = 2;
  int width = 128;
  int heads = 4;
  int kv_heads = 0;  // 0 in a file means as many as heads; filled in on parsing
  int vocab = 257;   // bytes and an end token
};

struct DataSpec {
  std::string source;  // "text:PATH"
  int64_t max_length = 2048;
  OnTooLong on_too_long = OnTooLong::kFail;
  OnBadSample on_bad_sample = OnBadSample::kFail;
};

struct OptimizerSpec {
  double lr = 3e-4;
  int64_t warmup = 0;  // steps
  double weight_decay = 0.1;
  double clip = 1.0;  // bound on the global norm; 0 = none
};

struct MemorySpec {
  int64_t tokens_per_rank = 8192;
  int recompute_layers = 0;
};

struct TimeoutSpec {
  // Absent: the larger of 60 s and ten predicted steps.
  std::optional<absl::Duration> collective;
  absl::Duration start = absl::Minutes(5);
  absl::Duration stop = absl::Seconds(5);
};

struct JobSpec {
  std::string name;
  std::string kind = "train";
  ModelSpec model;
  DataSpec data;
  int64_t batch_samples = 16;
  int64_t steps = 100;
  uint64_t seed = 0;
  OptimizerSpec optimizer;
  planner::Policy policy = planner::Policy::kEven;
  int ranks = 1;
  int look_ahead = 4;
  MemorySpec memory;
  std::optional<planner::TimeModel> costs;  // absent: measured at the start
  TimeoutSpec timeouts;
};

// Parses a YAML job file. Unknown keys, wrong types and rule breaks are
// INVALID_ARGUMENT with "NAME:LINE: key: sentence" ("--set key: sentence" where
// an override is to blame). `costs` may be a map or the
// path of a cost file (relative to `base_dir`). A relative data path is made
// absolute against `base_dir`. `overrides` are "a.b=value" pairs, applied over
// the file before the rules are checked.
struct ParseOptions {
  std::string name = "job.yaml";  // for messages
  std::string base_dir = ".";
  std::vector<std::string> overrides;
};
absl::StatusOr<JobSpec> ParseJobFile(absl::string_view yaml,
                                     const ParseOptions& options);

// Rules that need no data and no cluster: ranges, divisibility, known names.
// INVALID_ARGUMENT with the key and the numbers.
absl::Status ValidateJobSpec(const JobSpec& spec);

// The same for costs.
absl::Status ValidateCosts(const planner::TimeModel& costs);

// Whether max_length fits ranks x tokens per rank at a legal degree:
// FAILED_PRECONDITION with the numbers and what would make it fit.
absl::Status CheckJobFits(const JobSpec& spec);

// The job as YAML that ParseJobFile reads back to an equal job.
std::string FormatJobFile(const JobSpec& spec);

// A cost file: the keys of planner::TimeModel as YAML, with a comment.
absl::StatusOr<planner::TimeModel> ParseCostFile(absl::string_view yaml,
                                                 absl::string_view name);
std::string FormatCostFile(const planner::TimeModel& costs);

// "fail", "truncate", "skip", and back. INVALID_ARGUMENT naming the known ones.
absl::string_view OnTooLongName(OnTooLong value);
absl::string_view OnBadSampleName(OnBadSample value);
absl::Status ParseOnTooLong(absl::string_view name, OnTooLong* value);
absl::Status ParseOnBadSample(absl::string_view name, OnBadSample* value);

// What OpenDataset needs of a job.
data::DatasetOptions ToDatasetOptions(const DataSpec& data);

// The planner's view of a job's model and memory.
planner::ModelShape ToModelShape(const ModelSpec& model);
planner::MemoryModel ToMemoryModel(const MemorySpec& memory);

}  // namespace evenstep::jobspec

#endif  // EVENSTEP_JOBSPEC_JOB_SPEC_H_
