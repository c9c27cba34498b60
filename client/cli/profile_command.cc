#include "client/cli/profile_command.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/atomic_file.h"
#include "base/output_marker.h"
#include "base/status_macros.h"
#include "base/usable_cores.h"
#include "client/cli/flags.h"
#include "client/cli/job_source.h"
#include "client/cli/local/result_folder.h"
#include "client/cli/local/trainer_mode.h"
#include "client/cli/output_file.h"
#include "client/cli/rank_limit.h"
#include "client/cli/show/format_value.h"
#include "client/cli/show/table.h"
#include "client/cli/show/to_json.h"
#include "jobspec/job_spec.h"

namespace evenstep::cli {
namespace {

using jobspec::ProfilePoint;

constexpr int64_t kMaxProfileBytes = 1 << 20;
constexpr double kNsPerMs = 1e6;

absl::StatusOr<jobspec::JobSpec> ReadSpec(const ProfileCommand& command) {
  EVENSTEP_ASSIGN_OR_RETURN(const client::SubmitOptions job,
                            ReadJob(command.file, command.preset));
  jobspec::ParseOptions options;
  options.name = job.file_name;
  options.base_dir = job.base_dir;
  options.overrides = command.overrides;
  options.costs = jobspec::CostsWanted::kLeaveOut;
  return jobspec::ParseJobFile(job.job_yaml, options);
}

// As many as the job has, a core each.
int ChooseRanks(const ProfileCommand& command, const jobspec::JobSpec& spec) {
  if (command.ranks.has_value()) return *command.ranks;
  return std::clamp(spec.ranks, 1, UsableCores());
}

absl::StatusOr<jobspec::Profile> Measure(const Environment& environment,
                                         const ProfileCommand& command,
                                         const jobspec::JobSpec& spec,
                                         int ranks) {
  EVENSTEP_ASSIGN_OR_RETURN(const PrivateFolder folder, PrivateFolder::Make());
  EVENSTEP_RETURN_IF_ERROR(WriteFileAtomically(folder.path() + "/job.yaml",
                                               jobspec::FormatJobFile(spec)));
  const std::string path = folder.path() + "/profile.yaml";
  EVENSTEP_RETURN_IF_ERROR(
      RunTrainerMode(environment, command.trainer, folder.path(),
                     {"profile", "--job", folder.path() + "/job.yaml", "--out",
                      path, "--ranks", absl::StrCat(ranks), "--repeats",
                      absl::StrCat(command.repeats)}));
  EVENSTEP_ASSIGN_OR_RETURN(const std::string text,
                            ReadWholeFile(path, kMaxProfileBytes));
  return jobspec::ParseProfile(text, path);
}

// Where it was stored.
absl::StatusOr<std::string> Store(const ProfileCommand& command,
                                  const jobspec::Profile& profile) {
  const std::string out =
      command.out.empty() ? jobspec::DefaultProfileFolder() : command.out;
  std::string path = absl::EndsWith(out, ".yaml")
                         ? out
                         : jobspec::ProfilePath(out, profile.key);
  const std::string parent = std::filesystem::path(path).parent_path().string();
  if (!parent.empty()) EVENSTEP_RETURN_IF_ERROR(MakeFolders(parent));
  EVENSTEP_RETURN_IF_ERROR(
      WriteFileAtomically(path, jobspec::FormatProfile(profile)));
  MarkOutput(path).IgnoreError();
  return path;
}

bool HasMemoryError(const ProfilePoint& point) {
  return point.activation_bytes > 0 && point.predicted_bytes > 0;
}

// The point that held most; null where bytes were not counted or not predicted.
const ProfilePoint* LargestPoint(const jobspec::Profile& profile) {
  const ProfilePoint* largest = nullptr;
  for (const ProfilePoint& point : profile.points) {
    if (!HasMemoryError(point)) continue;
    if (largest == nullptr ||
        point.activation_bytes > largest->activation_bytes) {
      largest = &point;
    }
  }
  return largest;
}

double MemoryError(const ProfilePoint& point) {
  return static_cast<double>(point.predicted_bytes) /
             static_cast<double>(point.activation_bytes) -
         1;
}

Json MemoryToJson(const jobspec::Profile& profile) {
  const ProfilePoint* const largest = LargestPoint(profile);
  if (largest == nullptr) return nullptr;
  return {{"largest_bytes", largest->activation_bytes},
          {"predicted_bytes", largest->predicted_bytes}};
}

Json ToJson(const jobspec::Profile& profile, const std::string& path) {
  return {{"path", path},
          {"model", profile.key.model},
          {"device", profile.key.device},
          {"software", profile.key.software},
          {"precision", profile.key.precision},
          {"fit_error", profile.fit_error},
          {"held_out_error", profile.held_out_error},
          {"num_points", profile.points.size()},
          {"memory", MemoryToJson(profile)},
          {"costs", cli::ToJson(profile.costs)}};
}

constexpr double kBytesPerMb = 1e6;

// "12.3 (+1.2%)": measured, and how far off the memory model is.
std::string MemoryText(const ProfilePoint& point) {
  if (point.activation_bytes == 0) return "-";
  std::string measured = absl::StrFormat(
      "%.2f", static_cast<double>(point.activation_bytes) / kBytesPerMb);
  if (!HasMemoryError(point)) return measured;
  return absl::StrFormat("%s (%+.1f%%)", measured, MemoryError(point) * 100);
}

// "2", or "1+2" of spatial and temporal layers.
std::string RecomputeText(const ProfilePoint& point) {
  if (point.shapes.empty()) return absl::StrCat(point.recompute_layers);
  return absl::StrCat(point.recompute_layers, "+",
                      point.recompute_temporal_layers);
}

Row PointRow(const ProfilePoint& point) {
  const double measured = point.measured_ns();
  return {point.held_out ? "held out" : "fitted",
          absl::StrCat(point.layers),
          RecomputeText(point),
          absl::StrCat(point.degree),
          jobspec::FormatSizes(point, "+"),
          absl::StrFormat("%.2f", measured / kNsPerMs),
          absl::StrFormat("%.2f", point.predicted_ns / kNsPerMs),
          measured > 0
              ? absl::StrFormat("%+.1f%%",
                                (point.predicted_ns / measured - 1) * 100)
              : "-",
          MemoryText(point)};
}

}  // namespace

std::string FormatProfileReport(const jobspec::Profile& profile,
                                ColourMode mode) {
  std::vector<Row> rows = {{"POINT", "LAYERS", "RECOMPUTED", "DEGREE",
                            "LENGTHS", "MEASURED MS", "PREDICTED MS", "ERROR",
                            "MB (PREDICTED)"}};
  for (const ProfilePoint& point : profile.points) {
    rows.push_back(PointRow(point));
  }
  std::vector<Row> facts = {
      {"Model:", profile.key.model},
      {"Device:", profile.key.device},
      {"Software:", profile.key.software},
      {"Precision:", profile.key.precision},
      {"Mean error:",
       absl::StrFormat("%.1f%% of fitted, %.1f%% of held-out "
                       "points",
                       profile.fit_error * 100, profile.held_out_error * 100)}};
  if (const ProfilePoint* const largest = LargestPoint(profile)) {
    facts.push_back(
        {"Memory:",
         absl::StrFormat(
             "%+.1f%% predicted of the %.2f MB of the largest "
             "point",
             MemoryError(*largest) * 100,
             static_cast<double>(largest->activation_bytes) / kBytesPerMb)});
  }
  return absl::StrCat(FormatTable(rows, mode), FormatTable(facts, mode));
}

void AddProfileFlags(CLI::App* app, ProfileCommand* command) {
  AddJobFile(app, &command->file);
  AddPreset(app, &command->preset);
  AddSet(app, &command->overrides);
  app->add_option("--ranks", command->ranks,
                  "Number of ranks to measure with, one core each (the job's, "
                  "at most the number of cores)");
  app->add_option(
         "--repeats", command->repeats,
         "Measurements per point; 8 times as many where ranks share the work")
      ->capture_default_str();
  app->add_option("--out", command->out,
                  "Folder for profiles, or a file that ends in .yaml "
                  "($EVENSTEP_PROFILE_DIR, ~/.cache/evenstep/profiles)")
      ->type_name("PATH");
  app->add_option("--trainer", command->trainer,
                  "Trainer to measure with, as the worker's --trainer; "
                  "evenstep-trainer-cuda measures on GPUs (the "
                  "evenstep-trainer beside this program)")
      ->envname("EVENSTEP_TRAINER")
      ->type_name("PATH");
}

ExitCode Profile(Environment& environment, const GlobalOptions& global,
                 const ProfileCommand& command) {
  Output output(environment, global);
  const absl::StatusOr<jobspec::JobSpec> spec = ReadSpec(command);
  if (!spec.ok()) return output.FailHere(spec.status());
  if (absl::EndsWith(command.out, ".yaml")) {
    const absl::Status replaces = CheckReplaces("--out", command.out);
    if (!replaces.ok()) return output.FailHere(replaces);
  }
  const int ranks = ChooseRanks(command, *spec);
  const absl::Status fits = CheckRankLimit(
      ranks, UsableCores(), "measure on a machine with more cores");
  if (!fits.ok()) return output.FailHere(fits);
  const std::string warning = CoresWarning(
      ranks, UsableCores(), "measured times are longer than with a core each");
  if (!warning.empty()) output.Message(warning);
  output.Message(absl::StrCat("Measuring a model with ",
                              jobspec::ModelKey(spec->model), " on ", ranks,
                              ranks == 1 ? " rank" : " ranks",
                              "; about a minute, best on a quiet machine"));
  const absl::StatusOr<jobspec::Profile> profile =
      Measure(environment, command, *spec, ranks);
  if (!profile.ok()) return output.FailHere(profile.status());
  const absl::StatusOr<std::string> path = Store(command, *profile);
  if (!path.ok()) return output.FailHere(path.status());
  if (output.structured()) {
    output.Document(ToJson(*profile, *path));
    return kExitOk;
  }
  output.Text(FormatProfileReport(*profile, output.colour()));
  output.Text(absl::StrCat("Stored: ", *path, "\n"));
  return kExitOk;
}

}  // namespace evenstep::cli
