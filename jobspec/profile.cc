#include "jobspec/profile.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/atomic_file.h"
#include "base/fnv1a.h"
#include "base/status_macros.h"
#include "jobspec/job_keys.h"

namespace evenstep::jobspec {
namespace {

constexpr int64_t kMaxProfileBytes = 1 << 20;
constexpr absl::string_view kModelPrefix = "model.";

// The profile files of a folder, by name; none where it cannot be read.
std::vector<std::string> ProfileFiles(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end;
       !error && it != end; it.increment(error)) {
    if (it->path().extension() == ".yaml") files.push_back(it->path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string Environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

std::string FormatSizes(const ProfilePoint& point, absl::string_view between) {
  if (point.shapes.empty()) return absl::StrJoin(point.lengths, between);
  return absl::StrJoin(point.shapes, between,
                       [](std::string* out, const data::ClipShape& shape) {
                         absl::StrAppend(out, shape.frames, "x", shape.height,
                                         "x", shape.width);
                       });
}

std::string ModelKey(const ModelSpec& model) {
  JobSpec spec;
  spec.model = model;
  // These change no cost.
  spec.model.weights.clear();
  spec.model.rope_theta = kRopeTheta;
  spec.model.norm_epsilon = kNormEpsilon;
  std::vector<std::string> parts;
  for (const JobKey& key : JobKeys()) {
    absl::string_view name = key.name;
    if (!absl::ConsumePrefix(&name, kModelPrefix)) continue;
    const std::optional<std::string> value = ShownText(key, spec);
    if (value.has_value()) parts.push_back(absl::StrCat(name, "=", *value));
  }
  return absl::StrJoin(parts, " ");
}

std::string PrecisionKey(const JobSpec& spec) {
  const absl::string_view precision = WordOf("precision", spec.precision);
  const OptimizerSharding sharding = spec.optimizer.sharding;
  if (sharding == OptimizerSharding::kNone) return std::string(precision);
  return absl::StrCat(precision, ", optimizer ",
                      WordOf("optimizer.sharding", sharding));
}

std::string FormatProfileKey(const ProfileKey& key) {
  return absl::StrCat("model ", key.model, "; device ", key.device,
                      "; software ", key.software, "; precision ",
                      key.precision);
}

absl::Status CheckProfileKey(const ProfileKey& profile,
                             const ProfileKey& here) {
  if (profile == here) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "the costs are of another profile: it was measured for [",
      FormatProfileKey(profile), "], the job runs as [", FormatProfileKey(here),
      "]; measure here with `evenstep profile`, or leave costs out"));
}

std::string DefaultProfileFolder() {
  std::string own = Environment("EVENSTEP_PROFILE_DIR");
  if (!own.empty()) return own;
  const std::string cache = Environment("XDG_CACHE_HOME");
  if (!cache.empty()) return absl::StrCat(cache, "/evenstep/profiles");
  return absl::StrCat(Environment("HOME"), "/.cache/evenstep/profiles");
}

std::string ProfilePath(absl::string_view folder, const ProfileKey& key) {
  Fnv1a64 digest;
  for (const std::string& part : {key.model, key.device, key.precision}) {
    digest.AddString(part);
  }
  return absl::StrCat(folder, "/", absl::Hex(digest.value(), absl::kZeroPad16),
                      ".yaml");
}

absl::StatusOr<Profile> FindProfile(const std::string& folder,
                                    absl::string_view model,
                                    absl::string_view precision) {
  std::vector<Profile> found;
  std::vector<std::string> names;
  for (const std::string& file : ProfileFiles(folder)) {
    EVENSTEP_ASSIGN_OR_RETURN(const std::string text,
                              ReadWholeFile(file, kMaxProfileBytes));
    EVENSTEP_ASSIGN_OR_RETURN(Profile profile, ParseProfile(text, file));
    if (profile.key.model != model || profile.key.precision != precision) {
      continue;
    }
    names.push_back(absl::StrCat(file, " (", profile.key.device, ")"));
    found.push_back(std::move(profile));
  }
  if (found.size() == 1) return found.front();
  if (found.empty()) {
    return absl::NotFoundError(absl::StrCat(
        "no profile in ", folder, " of a model with ", model, ", precision ",
        precision, "; make one with `evenstep profile` and the same job"));
  }
  return absl::FailedPreconditionError(absl::StrCat(
      found.size(), " profiles are of this model: ", absl::StrJoin(names, ", "),
      "; name one by its path"));
}

}  // namespace evenstep::jobspec
