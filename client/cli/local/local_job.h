#ifndef EVENSTEP_CLIENT_CLI_LOCAL_LOCAL_JOB_H_
#define EVENSTEP_CLIENT_CLI_LOCAL_LOCAL_JOB_H_

// Which job `evenstep local` runs: a file, a preset, or, with nothing but a
// folder of data, a small model that suits this machine. Reads the job file and
// looks whether the data exist.

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "evenstep/client.h"
#include "jobspec/job_spec.h"

namespace evenstep::cli {

struct LocalCommand {
  std::string file;
  std::string preset;
  std::string data;   // "text:PATH" or a plain path
  std::string costs;  // cost file
  std::string policy;
  std::optional<int> ranks;
  bool oversubscribe = false;  // beyond the limit of rank_limit.h
  std::optional<int64_t> num_steps;
  std::vector<std::string> overrides;
  std::string trainer;       // program; empty: beside this one
  std::string output;        // folder; empty: evenstep-out/JOB
  std::string json_summary;  // a second place for summary.json
  bool keep = false;         // the private folder
};

struct LocalJob {
  client::SubmitOptions submit;
  jobspec::JobSpec spec;
  bool chosen_here = false;  // not from a file: say what was chosen
  std::string warning;       // that cores are short; empty: they are not
};

// `num_cores` decides the default number of ranks, and how many there may be.
// INVALID_ARGUMENT with a sentence for what cannot be.
absl::StatusOr<LocalJob> MakeLocalJob(const LocalCommand& command,
                                      int num_cores);

// "2 layers, width 128, ...": what the job is, for people.
std::string DescribeLocalJob(const jobspec::JobSpec& spec);

}  // namespace evenstep::cli

#endif  // EVENSTEP_CLIENT_CLI_LOCAL_LOCAL_JOB_H_
