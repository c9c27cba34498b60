// Profiles as YAML: a key, costs, and the measured points.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/parse_value.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "base/yaml.h"
#include "data/length_list.h"
#include "jobspec/fields.h"
#include "jobspec/profile.h"
#include "planner/costs/cost_file.h"

namespace evenstep::jobspec {
namespace {

std::vector<Field> KeyFields(Profile* profile) {
  ProfileKey* const key = &profile->key;
  return {
      ValueField("model", &key->model),
      ValueField("device", &key->device),
      ValueField("software", &key->software),
      ValueField("precision", &key->precision),
      ValueField("fit_error", &profile->fit_error),
      ValueField("held_out_error", &profile->held_out_error),
  };
}

// A number that older profiles and those of text do without.
template <typename Number>
Field OptionalNumber(std::string key, Number* target) {
  Field field = ValueField(std::move(key), target);
  field.format = [target]() -> std::optional<std::string> {
    if (*target == 0) return std::nullopt;
    return FormatValue(*target);
  };
  return field;
}

// Without `lengths` and `clips`, which are lists.
std::vector<Field> PointFields(ProfilePoint* point) {
  return {
      ValueField("layers", &point->layers),
      ValueField("recompute", &point->recompute_layers),
      OptionalNumber("recompute_temporal", &point->recompute_temporal_layers),
      ValueField("degree", &point->degree),
      ValueField("held_out", &point->held_out),
      ValueField("compute_ns", &point->compute_ns),
      ValueField("collective_ns", &point->collective_ns),
      ValueField("predicted_ns", &point->predicted_ns),
      OptionalNumber("activation_bytes", &point->activation_bytes),
      OptionalNumber("predicted_bytes", &point->predicted_bytes),
  };
}

// Reads one file; all errors have its name and the line.
class ProfileReader {
 public:
  explicit ProfileReader(absl::string_view name) : name_(name) {}

  absl::StatusOr<Profile> Read(const YamlNode& root) {
    if (!IsProfile(root)) {
      return YamlError(name_, root.line, "not a profile: no `profile` map");
    }
    Profile profile;
    bool has_costs = false;
    for (const YamlEntry& entry : root.entries) {
      EVENSTEP_RETURN_IF_ERROR(ReadEntry(entry, &profile));
      has_costs |= entry.key == "costs";
    }
    if (!has_costs) return YamlError(name_, root.line, "costs are missing");
    return profile;
  }

 private:
  absl::Status ReadEntry(const YamlEntry& entry, Profile* profile) {
    if (entry.key == "profile") {
      return ReadFields(entry.value, KeyFields(profile));
    }
    if (entry.key == "costs") {
      EVENSTEP_ASSIGN_OR_RETURN(profile->costs,
                                planner::ReadJobCosts(entry.value, name_));
      return absl::OkStatus();
    }
    if (entry.key == "points") return ReadPoints(entry.value, profile);
    return YamlError(name_, entry.line,
                     absl::StrCat("unknown key '", entry.key,
                                  "'; known: profile, costs, points"));
  }

  absl::Status ReadFields(const YamlNode& map,
                          const std::vector<Field>& fields) {
    for (const YamlEntry& entry : map.entries) {
      EVENSTEP_RETURN_IF_ERROR(ReadField(entry, fields));
    }
    return absl::OkStatus();
  }

  absl::Status ReadField(const YamlEntry& entry,
                         const std::vector<Field>& fields) {
    const Field* const field = FindField(fields, entry.key);
    if (field == nullptr) {
      std::vector<std::string> known;
      known.reserve(fields.size());
      for (const Field& one : fields) known.push_back(one.key);
      return YamlError(name_, entry.line,
                       absl::StrCat("unknown key '", entry.key, "'",
                                    KnownNamesHint(entry.key, known)));
    }
    if (entry.value.kind != YamlNode::Kind::kScalar) {
      return YamlError(name_, entry.line,
                       absl::StrCat(entry.key, ": expected a single value"));
    }
    return At(absl::StrCat(name_, ":", entry.line, ": ", entry.key),
              field->parse(entry.value.scalar));
  }

  absl::Status ReadPoints(const YamlNode& list, Profile* profile) {
    for (const YamlNode& item : list.items) {
      ProfilePoint point;
      for (const YamlEntry& entry : item.entries) {
        EVENSTEP_RETURN_IF_ERROR(
            entry.key == "lengths" ? ReadLengths(entry.value, &point.lengths)
            : entry.key == "clips" ? ReadClips(entry.value, &point)
                                   : ReadField(entry, PointFields(&point)));
      }
      profile->points.push_back(std::move(point));
    }
    return absl::OkStatus();
  }

  absl::Status ReadLengths(const YamlNode& list,
                           std::vector<int64_t>* lengths) {
    for (const YamlNode& item : list.items) {
      int64_t length = 0;
      EVENSTEP_RETURN_IF_ERROR(At(absl::StrCat(name_, ":", item.line),
                                  ParseValue(item.scalar, &length)));
      lengths->push_back(length);
    }
    return absl::OkStatus();
  }

  // As in a list of lengths; they say the lengths too.
  absl::Status ReadClips(const YamlNode& list, ProfilePoint* point) {
    for (const YamlNode& item : list.items) {
      const std::string where = absl::StrCat(name_, ":", item.line);
      const auto draws = data::ParseLengths(item.scalar);
      if (!draws.ok()) return At(where, draws.status());
      const data::LengthDraw& draw = draws->front();
      if (draws->size() != 1 || draw.frames == 0) {
        return At(where, absl::InvalidArgumentError(absl::StrCat(
                             "'", item.scalar, "' is not a clip")));
      }
      point->shapes.push_back({draw.frames, draw.height, draw.width});
      point->lengths.push_back(draw.length);
    }
    return absl::OkStatus();
  }

  const std::string name_;
};

std::string FormatPoint(const ProfilePoint& point) {
  ProfilePoint copy = point;
  std::string out =
      absl::StrCat("  - {", point.shapes.empty() ? "lengths" : "clips", ": [",
                   FormatSizes(point, ", "), "]");
  for (const Field& field : PointFields(&copy)) {
    const std::optional<std::string> value = field.format();
    if (!value.has_value()) continue;
    absl::StrAppend(&out, ", ", field.key, ": ", *value);
  }
  return absl::StrCat(out, "}\n");
}

}  // namespace

bool IsProfile(const YamlNode& root) {
  if (root.kind != YamlNode::Kind::kMap) return false;
  for (const YamlEntry& entry : root.entries) {
    if (entry.key == "profile") return true;
  }
  return false;
}

std::string FormatProfile(const Profile& profile) {
  Profile copy = profile;
  std::string out =
      "# Evenstep profile: costs of one model on one kind of device, for the\n"
      "# `costs` of a job file. Times are of one micro-batch.\n"
      "profile:\n";
  for (const Field& field : KeyFields(&copy)) {
    absl::StrAppend(&out, "  ", field.key, ": ", YamlScalar(*field.format()),
                    "\n");
  }
  absl::StrAppend(&out, "costs:\n", planner::FormatTime(profile.costs, "  "),
                  "points:\n");
  for (const ProfilePoint& point : profile.points) {
    absl::StrAppend(&out, FormatPoint(point));
  }
  return out;
}

absl::StatusOr<Profile> ParseProfile(absl::string_view yaml,
                                     absl::string_view name) {
  EVENSTEP_ASSIGN_OR_RETURN(const YamlNode root, ParseYaml(yaml, name));
  return ProfileReader(name).Read(root);
}

}  // namespace evenstep::jobspec
