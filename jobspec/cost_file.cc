#include "jobspec/cost_file.h"

#include <map>
#include <optional>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/parse_value.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "jobspec/fields.h"
#include "jobspec/rules/rules.h"

namespace evenstep::jobspec {
namespace {

// Lists by degree.
constexpr char kCollective[] = "collective";
constexpr char kGather[] = "gather";

using CollectiveCosts = std::vector<planner::TimeModel::CollectiveCost>;

// May be left out: the linear cost then holds all of it, or the model is of
// the other kind.
bool IsOptional(absl::string_view key) {
  return key == "head_ns_per_token" || absl::StartsWith(key, "spatial_") ||
         absl::StartsWith(key, "temporal_");
}

// Reads one cost map; lines are remembered for messages about rules.
class CostReader {
 public:
  explicit CostReader(absl::string_view name) : name_(name) {}

  absl::StatusOr<planner::TimeModel> Read(const YamlNode& root) {
    if (root.kind != YamlNode::Kind::kMap) {
      return YamlError(name_, root.line, "costs: expected 'key: value' lines");
    }
    planner::TimeModel costs;
    const std::vector<Field> fields = CostFields(&costs);
    std::map<std::string, int> lines;
    for (const YamlEntry& entry : root.entries) {
      lines[entry.key] = entry.line;
      EVENSTEP_RETURN_IF_ERROR(ReadEntry(entry, fields, &costs));
    }
    EVENSTEP_RETURN_IF_ERROR(CheckComplete(root, fields, lines));
    if (const auto found = FindCostRuleBreak(costs)) {
      const auto line = lines.find(found->key);
      return YamlError(name_, line == lines.end() ? root.line : line->second,
                       absl::StrCat(found->key, ": ", found->sentence));
    }
    return costs;
  }

 private:
  absl::Status ReadEntry(const YamlEntry& entry,
                         const std::vector<Field>& fields,
                         planner::TimeModel* costs) {
    if (entry.key == kCollective) {
      return ReadCollective(entry, &costs->collective);
    }
    if (entry.key == kGather) return ReadCollective(entry, &costs->gather);
    const Field* const field = FindField(fields, entry.key);
    if (field == nullptr) {
      std::vector<std::string> known = {kCollective, kGather};
      for (const Field& one : fields) known.push_back(one.key);
      return YamlError(name_, entry.line,
                       absl::StrCat("unknown key '", entry.key, "'",
                                    KnownNamesHint(entry.key, known)));
    }
    return ReadScalar(entry, *field);
  }

  absl::Status ReadScalar(const YamlEntry& entry, const Field& field) {
    if (entry.value.kind != YamlNode::Kind::kScalar) {
      return YamlError(name_, entry.line,
                       absl::StrCat(entry.key, ": expected a number"));
    }
    return At(absl::StrCat(name_, ":", entry.line, ": ", entry.key),
              field.parse(entry.value.scalar));
  }

  absl::Status CheckComplete(const YamlNode& root,
                             const std::vector<Field>& fields,
                             const std::map<std::string, int>& lines) {
    for (const Field& field : fields) {
      if (lines.count(field.key) == 0 && !IsOptional(field.key)) {
        return YamlError(name_, root.line,
                         absl::StrCat("costs: ", field.key, " is missing"));
      }
    }
    return absl::OkStatus();
  }

  absl::Status ReadCollective(const YamlEntry& entry, CollectiveCosts* costs) {
    const YamlNode& list = entry.value;
    if (list.kind == YamlNode::Kind::kNull) return absl::OkStatus();
    if (list.kind != YamlNode::Kind::kList) {
      return YamlError(name_, list.line,
                       absl::StrCat(entry.key,
                                    ": expected a list of "
                                    "{degree: 2, ns_per_token: 1.5}"));
    }
    for (const YamlNode& item : list.items) {
      planner::TimeModel::CollectiveCost cost;
      EVENSTEP_RETURN_IF_ERROR(ReadCollectiveItem(entry.key, item, &cost));
      costs->push_back(cost);
    }
    return absl::OkStatus();
  }

  absl::Status ReadCollectiveItem(absl::string_view key, const YamlNode& item,
                                  planner::TimeModel::CollectiveCost* cost) {
    const std::vector<Field> fields = {
        {"degree",
         [cost](absl::string_view text) {
           return ParseValue(text, &cost->degree);
         },
         nullptr},
        {"ns_per_token",
         [cost](absl::string_view text) {
           return ParseValue(text, &cost->ns_per_token);
         },
         nullptr}};
    size_t found = 0;
    for (const YamlEntry& entry : item.entries) {
      const Field* const field = FindField(fields, entry.key);
      if (field == nullptr) {
        return YamlError(name_, entry.line,
                         absl::StrCat("unknown key '", entry.key,
                                      "'; known: degree, ns_per_token"));
      }
      EVENSTEP_RETURN_IF_ERROR(ReadScalar(entry, *field));
      ++found;
    }
    if (found == fields.size()) return absl::OkStatus();
    return YamlError(
        name_, item.line,
        absl::StrCat(key, ": expected {degree: 2, ns_per_token: 1.5}"));
  }

  const std::string name_;
};

void AppendCollective(const char* key, const CollectiveCosts& costs,
                      absl::string_view indent, std::string* out) {
  if (costs.empty()) return;
  absl::StrAppend(out, indent, key, ":\n");
  for (const auto& entry : costs) {
    absl::StrAppend(out, indent, "  - {degree: ", entry.degree,
                    ", ns_per_token: ", FormatValue(entry.ns_per_token), "}\n");
  }
}

}  // namespace

absl::StatusOr<planner::TimeModel> ReadCosts(const YamlNode& root,
                                             absl::string_view name) {
  return CostReader(name).Read(root);
}

std::string FormatCosts(const planner::TimeModel& costs,
                        absl::string_view indent) {
  planner::TimeModel copy = costs;
  std::string out;
  for (const Field& field : CostFields(&copy)) {
    const std::optional<std::string> value = field.format();
    if (!value.has_value()) continue;
    absl::StrAppend(&out, indent, field.key, ": ", *value, "\n");
  }
  AppendCollective(kCollective, costs.collective, indent, &out);
  AppendCollective(kGather, costs.gather, indent, &out);
  return out;
}

absl::StatusOr<planner::TimeModel> ParseCostFile(absl::string_view yaml,
                                                 absl::string_view name) {
  EVENSTEP_ASSIGN_OR_RETURN(const YamlNode root, ParseYaml(yaml, name));
  return ReadCosts(root, name);
}

std::string FormatCostFile(const planner::TimeModel& costs) {
  return absl::StrCat(
      "# Evenstep costs of one model on one kind of device, in nanoseconds.\n"
      "# A micro-batch of S tokens with lengths s on d ranks takes about\n"
      "#   micro_batch_fixed + (quadratic * sum s^2 + (linear + head) * S) / "
      "d\n"
      "# and the collectives of its degree. Of video, spatial_quadratic is "
      "for\n"
      "# pairs of patches of a frame, temporal_quadratic for frames of a "
      "patch.\n",
      FormatCosts(costs, ""));
}

}  // namespace evenstep::jobspec
