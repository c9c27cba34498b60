#include "planner/costs/cost_file.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/parse_value.h"
#include "base/status_macros.h"
#include "planner/costs/cost_fields.h"
#include "planner/costs/cost_limits.h"
#include "planner/costs/yaml_reader.h"

namespace evenstep::planner {
namespace {

using CollectiveCosts = std::vector<TimeModel::CollectiveCost>;

// The line of a key, also where it is "spatial_x" and written as a map; that of
// the map if it is not there.
int LineOf(const YamlNode& map, absl::string_view key) {
  for (const YamlEntry& entry : map.entries) {
    if (entry.key == key) return entry.line;
    const std::string prefix = absl::StrCat(entry.key, "_");
    if (entry.value.kind == YamlNode::Kind::kMap &&
        absl::StartsWith(key, prefix)) {
      return LineOf(entry.value, key.substr(prefix.size()));
    }
  }
  return map.line;
}

bool HasKinds(const YamlNode& map) {
  bool found = false;
  const TimeModel none;
  ForEachKind(none, [&](const char* kind, const LayerTime&) {
    for (const YamlEntry& entry : map.entries) {
      found |= absl::StartsWith(entry.key, kind);
    }
  });
  return found;
}

class TimeReader {
 public:
  TimeReader(absl::string_view file, const std::string& path, CostsOf of)
      : reader_(file), path_(path), of_(of) {}

  absl::StatusOr<TimeModel> Read(const YamlNode& map) {
    const bool video = HasKinds(map);
    std::vector<YamlKey> keys;
    ForEachCostList(time_, [&](const char* name, CollectiveCosts& costs) {
      keys.push_back(List(name, &costs));
    });
    ForEachNumber(time_, [&](const CostKey& key, auto& cost) {
      keys.push_back(
          reader_.Value(key.name, PresenceOf(key.use, video), &cost));
    });
    ForEachKind(time_, [&](const char* kind, LayerTime& layers) {
      keys.push_back(Kind(kind, &layers));
    });
    EVENSTEP_RETURN_IF_ERROR(reader_.ReadMap(map, path_, keys));
    if (video && of_ == CostsOf::kPlan) {
      EVENSTEP_RETURN_IF_ERROR(CheckBothKinds(map));
    }
    if (const auto found = FindCostBreak(time_)) {
      return reader_.Error(LineOf(map, found->key),
                           absl::StrCat(found->key, ": ", found->sentence));
    }
    return time_;
  }

 private:
  Presence PresenceOf(CostUse use, bool video) const {
    const bool required =
        use == CostUse::kRequired ||
        (use == CostUse::kRequiredOfText && !video) ||
        (use == CostUse::kRequiredOfJobs && of_ == CostsOf::kJob);
    return required ? Presence::kRequired : Presence::kOptional;
  }

  // Layers of a kind that the file does not name would be free.
  absl::Status CheckBothKinds(const YamlNode& map) const {
    absl::Status status;
    ForEachKind(time_, [&](const char* kind, const LayerTime&) {
      const bool named = std::any_of(map.entries.begin(), map.entries.end(),
                                     [kind](const auto& entry) {
                                       return absl::StartsWith(entry.key, kind);
                                     });
      if (named) return;
      status.Update(
          reader_.Error(map.line, absl::StrCat(path_, ".", kind,
                                               " is missing: its layers "
                                               "would cost nothing")));
    });
    return status;
  }

  YamlKey Kind(const std::string& kind, LayerTime* layers) const {
    return YamlReader::Part(
        kind,
        [this, kind, layers](const YamlNode& map) {
          if (*layers != LayerTime()) {
            return reader_.Error(map.line,
                                 absl::StrCat(kind,
                                              ": given twice, as a map "
                                              "and as keys"));
          }
          std::vector<YamlKey> keys;
          ForEachLayerCost(*layers, CostUse::kRequired,
                           [&](const CostKey& key, double& cost) {
                             keys.push_back(reader_.Value(
                                 key.name, PresenceOf(key.use, true), &cost));
                           });
          return reader_.ReadMap(map, absl::StrCat(path_, ".", kind), keys);
        },
        Presence::kOptional);
  }

  YamlKey List(const std::string& name, CollectiveCosts* costs) const {
    return YamlReader::Part(
        name,
        [this, name, costs](const YamlNode& list) -> absl::Status {
          if (list.kind == YamlNode::Kind::kNull) return absl::OkStatus();
          if (list.kind != YamlNode::Kind::kList) {
            return reader_.Error(
                list.line, absl::StrCat(name,
                                        ": expected a list of "
                                        "{degree: 2, ns_per_token: 1.5}"));
          }
          for (const YamlNode& item : list.items) {
            TimeModel::CollectiveCost& cost = costs->emplace_back();
            EVENSTEP_RETURN_IF_ERROR(reader_.ReadMap(
                item, name,
                {reader_.Value("degree", Presence::kRequired, &cost.degree),
                 reader_.Value("ns_per_token", Presence::kRequired,
                               &cost.ns_per_token)}));
          }
          return absl::OkStatus();
        },
        Presence::kOptional);
  }

  const YamlReader reader_;
  const std::string path_;
  const CostsOf of_;
  TimeModel time_;
};

}  // namespace

absl::StatusOr<TimeModel> ReadTime(const YamlNode& map, absl::string_view file,
                                   const std::string& path, CostsOf of) {
  return TimeReader(file, path, of).Read(map);
}

absl::StatusOr<TimeModel> ReadJobCosts(const YamlNode& root,
                                       absl::string_view file) {
  for (const YamlEntry& entry : root.entries) {
    if (entry.key == "time") {
      return ReadTime(entry.value, file, "time", CostsOf::kJob);
    }
  }
  return ReadTime(root, file, "costs", CostsOf::kJob);
}

std::string FormatTime(const TimeModel& time, absl::string_view indent) {
  std::string out;
  ForEachWrittenNumber(time, [&](const std::string& key, auto cost) {
    absl::StrAppend(&out, indent, key, ": ", FormatValue(cost), "\n");
  });
  ForEachCostList(time, [&](const char* key, const CollectiveCosts& costs) {
    if (costs.empty()) return;
    absl::StrAppend(&out, indent, key, ":\n");
    for (const auto& entry : costs) {
      absl::StrAppend(&out, indent, "  - {degree: ", entry.degree,
                      ", ns_per_token: ", FormatValue(entry.ns_per_token),
                      "}\n");
    }
  });
  return out;
}

}  // namespace evenstep::planner
