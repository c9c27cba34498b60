// Job files: YAML trees and "a.b=value" pairs into the keys of
// jobspec/job_keys.h, and back.

#include <algorithm>
#include <filesystem>
#include <map>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/atomic_file.h"
#include "base/parse_value.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "base/yaml.h"
#include "data/source_kind.h"
#include "jobspec/fields.h"
#include "jobspec/job_keys.h"
#include "jobspec/profile.h"
#include "jobspec/rules/rules.h"
#include "planner/costs/cost_file.h"

namespace evenstep::jobspec {
namespace {

constexpr int64_t kMaxCostFileBytes = 1 << 20;
constexpr absl::string_view kProfileWord = "profile";

std::string Join(absl::string_view prefix, absl::string_view key) {
  return prefix.empty() ? std::string(key) : absl::StrCat(prefix, ".", key);
}

// The names that may stand directly under `prefix`.
std::vector<std::string> KeysUnder(const std::vector<std::string>& keys,
                                   absl::string_view prefix) {
  const std::string start = prefix.empty() ? "" : absl::StrCat(prefix, ".");
  std::vector<std::string> names;
  for (const std::string& key : keys) {
    absl::string_view rest = key;
    if (!absl::ConsumePrefix(&rest, start)) continue;
    const std::vector<std::string> parts = absl::StrSplit(rest, '.');
    if (names.empty() || names.back() != parts[0]) names.push_back(parts[0]);
  }
  return names;
}

// A job's steps keep their samples (docs/adr/0020).
bool AsksForElasticBatches(absl::string_view key, absl::string_view text) {
  return key == "batch" && text == "elastic";
}
constexpr char kNoElasticBatches[] =
    "elastic: which samples a step trains on would depend on the ranks, the "
    "costs and the steps before it, and a repeated step would train on others; "
    "`evenstep plan --batch elastic` shows what such batches would be";

// Reads one job file and its overrides, and says where each key was set.
class JobReader {
 public:
  JobReader(const ParseOptions& options, JobSpec* spec)
      : options_(options), spec_(spec) {
    for (const JobKey& key : JobKeys()) keys_.push_back(key.name);
    keys_.push_back("costs");
  }

  absl::Status ReadFile(const YamlNode& root) {
    if (root.kind == YamlNode::Kind::kNull) return absl::OkStatus();
    if (root.kind == YamlNode::Kind::kScalar &&
        absl::StrContains(root.scalar, " = ")) {
      return YamlError(options_.name, root.line,
                       "expected 'key: value' lines; 'key = value' is TOML, "
                       "a job file is YAML");
    }
    if (root.kind != YamlNode::Kind::kMap) {
      return YamlError(options_.name, root.line, "expected 'key: value' lines");
    }
    return ReadMap(root, "");
  }

  // `name`: what messages call it; empty: "--set KEY".
  absl::Status ReadOverride(absl::string_view pair, const std::string& name) {
    EVENSTEP_RETURN_IF_ERROR(CheckUtf8(name.empty() ? "--set" : name, pair));
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(pair, absl::MaxSplits('=', 1));
    const std::string key(parts.first);
    if (!absl::StrContains(pair, "=")) {
      return absl::InvalidArgumentError(
          absl::StrCat("--set ", pair, ": expected key=value"));
    }
    const std::string where = name.empty() ? absl::StrCat("--set ", key) : name;
    where_[key] = where;
    if (key == "costs" && options_.costs == CostsWanted::kLeaveOut) {
      return absl::OkStatus();
    }
    if (key == "costs") {
      spec_->profile = ProfileKey();  // of the file's own costs
      return At(where, ReadCostFile(std::string(parts.second)));
    }
    if (AsksForElasticBatches(key, parts.second)) {
      return At(where, absl::InvalidArgumentError(kNoElasticBatches));
    }
    const JobKey* const known = FindJobKey(key);
    const std::vector<std::string> under = KeysUnder(keys_, key);
    if (known == nullptr && !under.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, ": unknown key; it is a section, with ",
                       absl::StrJoin(under, ", ")));
    }
    if (known == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, ": unknown key", UnknownKeyHint(key)));
    }
    return At(where, SetKey(*known, parts.second, spec_));
  }

  absl::Status CheckRules() const {
    const auto found = FindRuleBreak(*spec_);
    if (!found.has_value()) return absl::OkStatus();
    const auto where = where_.find(found->key);
    if (where != where_.end()) {
      return absl::InvalidArgumentError(
          IsFlag(where->second)
              ? absl::StrCat(where->second, ": ", found->sentence)
              : absl::StrCat(where->second, ": ", found->key, ": ",
                             found->sentence));
    }
    // The section that lacks the key, or the key that names a file of costs.
    const auto parent = where_.find(found->key.substr(0, found->key.find('.')));
    const std::string sentence =
        absl::StrCat(found->key, ": ", found->sentence);
    if (parent != where_.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat(parent->second, ": ", sentence));
    }
    return YamlError(options_.name, 1, sentence);
  }

  // After everything was read: `costs: profile`.
  absl::Status FindWantedProfile() {
    if (!wants_profile_) return absl::OkStatus();
    const std::string folder = options_.profile_folder.empty()
                                   ? DefaultProfileFolder()
                                   : options_.profile_folder;
    const auto found =
        FindProfile(folder, ModelKey(spec_->model), PrecisionKey(*spec_));
    if (!found.ok()) {
      const std::string& where = where_["costs"];
      return At(IsFlag(where) ? where : absl::StrCat(where, ": costs"),
                found.status());
    }
    UseProfile(*found);
    return absl::OkStatus();
  }

 private:
  // Where a flag set a key, not the file.
  static bool IsFlag(absl::string_view where) {
    return absl::StartsWith(where, "--");
  }

  // A key that is known in another section, or the nearest of its own.
  std::string UnknownKeyHint(absl::string_view key) const {
    const size_t dot = key.rfind('.');
    const bool has_section = dot != absl::string_view::npos;
    const absl::string_view word = has_section ? key.substr(dot + 1) : key;
    for (const std::string& known : keys_) {
      if (absl::EndsWith(known, absl::StrCat(".", word))) {
        return absl::StrCat("; did you mean '", known, "'?");
      }
    }
    std::vector<std::string> names =
        KeysUnder(keys_, has_section ? key.substr(0, dot) : "");
    if (names.empty()) names = keys_;
    return KnownNamesHint(word, names);
  }

  absl::Status ReadMap(const YamlNode& map, const std::string& prefix) {
    for (const YamlEntry& entry : map.entries) {
      EVENSTEP_RETURN_IF_ERROR(ReadEntry(entry, prefix));
    }
    return absl::OkStatus();
  }

  absl::Status ReadEntry(const YamlEntry& entry, const std::string& prefix) {
    const std::string key = Join(prefix, entry.key);
    where_[key] = absl::StrCat(options_.name, ":", entry.line);
    // A key may not carry a dot past the tree's own levels.
    const bool dotted = absl::StrContains(entry.key, ".");
    if (key == "costs") return ReadCosts(entry);
    const JobKey* const known = FindJobKey(key);
    if (known != nullptr && !dotted) return ReadScalar(entry, *known);
    if (!dotted && !KeysUnder(keys_, key).empty()) {
      return ReadSection(entry, key);
    }
    if (known != nullptr) {
      return YamlError(
          options_.name, entry.line,
          absl::StrCat("unknown key '", key,
                       "'; dots are for --set, a file has "
                       "sections: ",
                       absl::StrReplaceAll(key, {{".", ": {"}}), ": ...}"));
    }
    return YamlError(
        options_.name, entry.line,
        absl::StrCat("unknown key '", key, "'", UnknownKeyHint(key)));
  }

  absl::Status ReadSection(const YamlEntry& entry, const std::string& key) {
    if (entry.value.kind == YamlNode::Kind::kNull) return absl::OkStatus();
    if (entry.value.kind == YamlNode::Kind::kMap) {
      return ReadMap(entry.value, key);
    }
    if (AsksForElasticBatches(key, entry.value.scalar)) {
      return YamlError(options_.name, entry.line,
                       absl::StrCat(key, ": ", kNoElasticBatches));
    }
    return YamlError(options_.name, entry.line,
                     absl::StrCat(key, ": expected a map with ",
                                  absl::StrJoin(KeysUnder(keys_, key), ", ")));
  }

  absl::Status ReadScalar(const YamlEntry& entry, const JobKey& key) {
    if (entry.value.kind != YamlNode::Kind::kScalar) {
      return YamlError(options_.name, entry.line,
                       absl::StrCat(key.name, ": expected a single value"));
    }
    return At(absl::StrCat(options_.name, ":", entry.line, ": ", key.name),
              SetKey(key, entry.value.scalar, spec_));
  }

  absl::Status ReadCosts(const YamlEntry& entry) {
    if (options_.costs == CostsWanted::kLeaveOut) return absl::OkStatus();
    if (entry.value.kind == YamlNode::Kind::kScalar) {
      return At(absl::StrCat(options_.name, ":", entry.line, ": costs"),
                ReadCostFile(entry.value.scalar));
    }
    wants_profile_ = false;
    EVENSTEP_ASSIGN_OR_RETURN(
        spec_->costs, planner::ReadJobCosts(entry.value, options_.name));
    return absl::OkStatus();
  }

  absl::Status ReadCostFile(const std::string& path) {
    // Which profile, is known when all of the model is.
    wants_profile_ = path == kProfileWord;
    if (wants_profile_) return absl::OkStatus();
    const std::string full =
        (std::filesystem::path(options_.base_dir) / path).string();
    EVENSTEP_ASSIGN_OR_RETURN(const std::string text,
                              ReadWholeFile(full, kMaxCostFileBytes));
    EVENSTEP_ASSIGN_OR_RETURN(const YamlNode root, ParseYaml(text, path));
    if (IsProfile(root)) {
      EVENSTEP_ASSIGN_OR_RETURN(const Profile profile,
                                ParseProfile(text, path));
      UseProfile(profile);
      return absl::OkStatus();
    }
    EVENSTEP_ASSIGN_OR_RETURN(spec_->costs, planner::ReadJobCosts(root, path));
    return absl::OkStatus();
  }

  void UseProfile(const Profile& profile) {
    spec_->costs = profile.costs;
    spec_->profile = profile.key;
    where_["profile.model"] = where_["costs"];
  }

  const ParseOptions& options_;
  JobSpec* const spec_;
  std::vector<std::string> keys_;             // and `costs`
  std::map<std::string, std::string> where_;  // "NAME:LINE" or "--set KEY"
  bool wants_profile_ = false;
};

// Trainers run elsewhere than the user's shell.
absl::Status MakeAbsolute(const std::string& base_dir, std::string* path) {
  if (path->empty()) return absl::OkStatus();
  std::error_code error;
  const std::filesystem::path absolute =
      std::filesystem::absolute(std::filesystem::path(base_dir) / *path, error);
  if (error) {
    return ErrnoStatus(error.value(), "no absolute path of", *path);
  }
  *path = absolute.lexically_normal().string();
  return absl::OkStatus();
}

// A relative path takes the bytes of the folder that it is relative to.
absl::Status CheckBaseDir(const std::string& base_dir,
                          const std::string& absolute) {
  if (CheckUtf8("", absolute).ok() || CheckUtf8("", base_dir).ok()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "the job has a path relative to ", ToValidUtf8(base_dir),
      ", a folder whose name is not UTF-8, which the text of a job must be; "
      "rename that folder, or write the path from the root"));
}

absl::Status MakePathsAbsolute(const std::string& base_dir, JobSpec* spec) {
  for (std::string* source : {&spec->data.source, &spec->evaluation.source}) {
    if (source->empty() && source == &spec->evaluation.source) continue;
    EVENSTEP_ASSIGN_OR_RETURN(*source, data::AbsoluteSource(*source, base_dir));
  }
  EVENSTEP_RETURN_IF_ERROR(MakeAbsolute(base_dir, &spec->data.tokenizer));
  EVENSTEP_RETURN_IF_ERROR(MakeAbsolute(base_dir, &spec->model.weights));
  for (const std::string* path :
       {&spec->data.source, &spec->evaluation.source, &spec->data.tokenizer,
        &spec->model.weights}) {
    EVENSTEP_RETURN_IF_ERROR(CheckBaseDir(base_dir, *path));
  }
  return absl::OkStatus();
}

// "a.b" and its value as YAML lines; `section` is the one that is open.
void AppendKey(const std::string& key, const std::string& value,
               std::string* section, std::string* out) {
  const size_t dot = key.find('.');
  if (dot == std::string::npos) {
    section->clear();
    absl::StrAppend(out, key, ": ", YamlScalar(value), "\n");
    return;
  }
  const std::string name = key.substr(0, dot);
  if (name != *section) absl::StrAppend(out, name, ":\n");
  *section = name;
  absl::StrAppend(out, "  ", key.substr(dot + 1), ": ", YamlScalar(value),
                  "\n");
}

}  // namespace

absl::StatusOr<JobSpec> ParseJobFile(absl::string_view yaml,
                                     const ParseOptions& options) {
  EVENSTEP_ASSIGN_OR_RETURN(const YamlNode root, ParseYaml(yaml, options.name));
  if (root.kind == YamlNode::Kind::kNull && options.overrides.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        options.name,
        ": there is nothing in it; a job needs at least `name` and "
        "`data: {source: ...}`"));
  }
  JobSpec spec;
  JobReader reader(options, &spec);
  EVENSTEP_RETURN_IF_ERROR(reader.ReadFile(root));
  for (size_t i = 0; i < options.overrides.size(); ++i) {
    const bool has_name = i < options.override_names.size();
    EVENSTEP_RETURN_IF_ERROR(reader.ReadOverride(
        options.overrides[i], has_name ? options.override_names[i] : ""));
  }
  if (spec.model.kv_heads == 0) spec.model.kv_heads = spec.model.heads;
  EVENSTEP_RETURN_IF_ERROR(MakePathsAbsolute(options.base_dir, &spec));
  if (options.costs == CostsWanted::kLeaveOut) spec.profile = ProfileKey();
  EVENSTEP_RETURN_IF_ERROR(reader.FindWantedProfile());
  EVENSTEP_RETURN_IF_ERROR(reader.CheckRules());
  return spec;
}

std::string FormatJobFile(const JobSpec& spec) {
  std::string out;
  std::string section;
  for (const JobKey& key : JobKeys()) {
    const std::optional<std::string> value = ShownText(key, spec);
    if (value.has_value()) AppendKey(key.name, *value, &section, &out);
  }
  if (spec.costs.has_value()) {
    absl::StrAppend(&out, "costs:\n", planner::FormatTime(*spec.costs, "  "));
  }
  return out;
}

}  // namespace evenstep::jobspec
