#include "client/cli/local/local_job.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "client/cli/job_source.h"
#include "client/cli/rank_limit.h"
#include "data/source_kind.h"
#include "jobspec/input_check.h"
#include "jobspec/plan_request.h"
#include "planner/planner.h"

namespace evenstep::cli {
namespace {

constexpr char kTextPrefix[] = "text:";
// `--costs profile` asks for the stored profile of the model.
constexpr char kProfileWord[] = "profile";
// More ranks than this would want a larger batch and model.
constexpr int kMostDefaultRanks = 4;
constexpr char kTokensPerRank[] = "memory.tokens_per_rank";

// A model that learns something within a minute on two cores.
constexpr char kDefaultJob[] = R"(name: local
model: {layers: 2, width: 128, heads: 4}
data:
  source: text:.
  max_length: 4096
  on_too_long: skip
  on_bad_sample: skip
batch: {samples: 8}
steps: 30
optimizer: {lr: 0.003, warmup: 3}
memory: {tokens_per_rank: 4096}
)";

constexpr int64_t kDefaultWarmup = 3;  // as above

absl::StatusOr<std::string> AbsolutePath(const std::string& path) {
  std::error_code error;
  const auto absolute = std::filesystem::absolute(path, error);
  if (error) return absl::InvalidArgumentError(error.message());
  return absolute.lexically_normal().string();
}

// A path that is made absolute takes the working folder's bytes.
absl::Status CheckName(absl::string_view flag, absl::string_view given,
                       const std::string& absolute) {
  if (CheckUtf8(flag, absolute).ok()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      flag, " ", ToValidUtf8(given), ": its path ", ToValidUtf8(absolute),
      " is not UTF-8, which the text of a job must be; rename the folder or "
      "file whose name has the '?'"));
}

// A source with an absolute path; a bare path is one of text. What it names
// exists.
absl::StatusOr<std::string> DataSource(const std::string& data) {
  std::error_code error;
  if (data::FindSourceKind(data) == nullptr && data::LooksLikeSource(data) &&
      !std::filesystem::exists(data, error)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--data: ", data::ExplainNoKind(data).message()));
  }
  const bool has_kind = data::FindSourceKind(data) != nullptr;
  const std::string source = has_kind ? data : absl::StrCat(kTextPrefix, data);
  if (data::FindSourceKind(source) == nullptr) {
    return absl::InvalidArgumentError(
        "--data: name a folder, a glob or a JSONL file, such as "
        "--data text:/usr/include");
  }
  EVENSTEP_ASSIGN_OR_RETURN(std::string absolute,
                            data::AbsoluteSource(source, "."));
  EVENSTEP_RETURN_IF_ERROR(CheckName("--data", data, absolute));
  const absl::Status found = data::LookForSource(absolute);
  if (found.ok()) return absolute;
  return absl::InvalidArgumentError(absl::StrCat("--data: ", found.message()));
}

absl::StatusOr<client::SubmitOptions> BaseJob(const LocalCommand& command) {
  if (!command.file.empty() || !command.preset.empty()) {
    return ReadJob(command.file, command.preset);
  }
  if (command.data.empty()) {
    return absl::InvalidArgumentError(
        "what shall be trained? Name a job file, or data such as "
        "--data text:/usr/include");
  }
  client::SubmitOptions job;
  job.job_yaml = kDefaultJob;
  job.file_name = "the default job";
  return job;
}

absl::Status AddOverrides(const LocalCommand& command, int num_cores,
                          client::SubmitOptions* job) {
  const bool from_file = !command.file.empty();
  const auto add = [job](const char* flag, std::string pair) {
    job->overrides.push_back(std::move(pair));
    job->override_names.emplace_back(flag);
  };
  if (command.ranks) {
    add("--ranks", absl::StrCat("ranks=", *command.ranks));
  } else if (!from_file) {
    const int ranks = std::clamp(num_cores, 1, kMostDefaultRanks);
    add("", absl::StrCat("ranks=", ranks));
  }
  if (!command.data.empty()) {
    EVENSTEP_ASSIGN_OR_RETURN(std::string source, DataSource(command.data));
    add("--data", "data.source=" + source);
  }
  if (command.num_steps) {
    add("--steps", absl::StrCat("steps=", *command.num_steps));
    const bool default_job = !from_file && command.preset.empty();
    if (default_job && *command.num_steps < kDefaultWarmup) {
      add("", "optimizer.warmup=0");
    }
  }
  if (!command.policy.empty()) {
    add("--policy", "policy=" + command.policy);
  }
  if (command.costs == kProfileWord) {
    add("--costs", "costs=profile");
  } else if (!command.costs.empty()) {
    EVENSTEP_ASSIGN_OR_RETURN(std::string path, AbsolutePath(command.costs));
    EVENSTEP_RETURN_IF_ERROR(CheckName("--costs", command.costs, path));
    add("--costs", "costs=" + path);
  }
  for (const std::string& pair : command.overrides) add("", pair);
  return absl::OkStatus();
}

absl::StatusOr<jobspec::JobSpec> Parse(const client::SubmitOptions& job) {
  jobspec::ParseOptions options;
  options.name = job.file_name;
  options.base_dir = job.base_dir;
  options.overrides = job.overrides;
  options.override_names = job.override_names;
  return jobspec::ParseJobFile(job.job_yaml, options);
}

// The ranks run on this machine: what they will not find is missing here.
absl::Status CheckInputs(const jobspec::JobSpec& spec) {
  absl::Status found = jobspec::CheckInputs(spec, {});
  if (found.ok()) return found;
  return absl::InvalidArgumentError(found.message());
}

// Before anything is started.
absl::Status CheckTrainer(const LocalCommand& command) {
  if (command.trainer.empty() || access(command.trainer.c_str(), X_OK) == 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--trainer ", command.trainer, ": no such program"));
}

// What is to run on this machine must not stop it.
absl::Status CheckCores(const LocalCommand& command, int ranks, int num_cores) {
  if (command.oversubscribe) return absl::OkStatus();
  return CheckRankLimit(ranks, num_cores,
                        "run the job on a cluster (evenstep submit). "
                        "--oversubscribe starts them anyway");
}

bool SetsMemory(const std::vector<std::string>& overrides) {
  return std::any_of(
      overrides.begin(), overrides.end(), [](const std::string& pair) {
        return absl::StartsWith(pair, absl::StrCat(kTokensPerRank, "="));
      });
}

}  // namespace

absl::StatusOr<LocalJob> MakeLocalJob(const LocalCommand& command,
                                      int num_cores) {
  EVENSTEP_RETURN_IF_ERROR(CheckTrainer(command));
  LocalJob job;
  job.chosen_here = command.file.empty();
  EVENSTEP_ASSIGN_OR_RETURN(job.submit, BaseJob(command));
  EVENSTEP_RETURN_IF_ERROR(AddOverrides(command, num_cores, &job.submit));
  EVENSTEP_RETURN_IF_ERROR(
      CheckPresetData(command.preset, job.submit.overrides));
  EVENSTEP_ASSIGN_OR_RETURN(job.spec, Parse(job.submit));
  // What the user did not choose is made to fit.
  if (job.chosen_here && !SetsMemory(job.submit.overrides) &&
      job.spec.memory.tokens_per_rank < job.spec.data.max_length) {
    job.submit.overrides.push_back(
        absl::StrCat(kTokensPerRank, "=", job.spec.data.max_length));
    EVENSTEP_ASSIGN_OR_RETURN(job.spec, Parse(job.submit));
  }
  EVENSTEP_RETURN_IF_ERROR(CheckCores(command, job.spec.ranks, num_cores));
  job.warning = CoresWarning(job.spec.ranks, num_cores,
                             "steps take longer than with a core each");
  EVENSTEP_RETURN_IF_ERROR(jobspec::CheckJobFits(job.spec));
  EVENSTEP_RETURN_IF_ERROR(CheckInputs(job.spec));
  return job;
}

std::string DescribeLocalJob(const jobspec::JobSpec& spec) {
  using jobspec::OnTooLong;
  const char* too_long = spec.data.on_too_long == OnTooLong::kSkip
                             ? "longer ones are skipped"
                         : spec.data.on_too_long == OnTooLong::kTruncate
                             ? "longer ones are cut"
                             : "a longer one is an error";
  const std::string name =
      spec.model.name.empty() ? "" : absl::StrCat(spec.model.name, ", ");
  return absl::StrCat(spec.data.source, ": ", name, spec.model.layers,
                      " layers, width ", spec.model.width, ", ",
                      spec.model.heads, " heads; ",
                      spec.model.is_video() ? "clips" : "documents", " up to ",
                      spec.data.max_length, " tokens (", too_long, "), ",
                      spec.batch_samples, " a step, ", spec.steps,
                      " steps; policy ", planner::PolicyName(spec.policy), ", ",
                      spec.ranks, spec.ranks == 1 ? " rank" : " ranks", " of ",
                      spec.memory.tokens_per_rank, " tokens");
}

}  // namespace evenstep::cli
