#include "wire/job_spec_proto.h"

#include <algorithm>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "base/check.h"
#include "base/parse_value.h"
#include "base/status_macros.h"
#include "jobspec/job_keys.h"
#include "planner/costs/cost_limits.h"
#include "wire/cost_proto.h"

namespace evenstep::wire {
namespace {

absl::Status InField(absl::string_view field, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": ", status.message()));
}

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using jobspec::JobKey;

// A repeated enum as "ulysses, kv_gather". Its first value is no word.
absl::StatusOr<std::string> WordsOf(const JobKey& key, const Message& section) {
  const Reflection& reflection = *section.GetReflection();
  std::vector<absl::string_view> words;
  for (int i = 0; i < reflection.FieldSize(section, key.field); ++i) {
    const int number = reflection.GetRepeatedEnumValue(section, key.field, i);
    if (number < 1 || number > static_cast<int>(key.words.size())) {
      return absl::InvalidArgumentError(absl::StrCat(number, " is unknown"));
    }
    words.push_back(key.words[number - 1]);
  }
  return absl::StrJoin(words, ", ");
}

// A key's value in the message as the text of a job file. Absent: the default.
absl::StatusOr<std::optional<std::string>> TextOf(const JobKey& key,
                                                  const Message& section) {
  const Reflection& reflection = *section.GetReflection();
  if (key.field->is_repeated()) return WordsOf(key, section);
  if (key.field->has_presence() && !reflection.HasField(section, key.field)) {
    return std::nullopt;
  }
  switch (key.field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return FormatValue(reflection.GetInt32(section, key.field));
    case FieldDescriptor::CPPTYPE_INT64: {
      const int64_t number = reflection.GetInt64(section, key.field);
      return key.is_duration ? FormatValue(absl::Milliseconds(number))
                             : FormatValue(number);
    }
    case FieldDescriptor::CPPTYPE_UINT64:
      return FormatValue(reflection.GetUInt64(section, key.field));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return FormatValue(reflection.GetDouble(section, key.field));
    case FieldDescriptor::CPPTYPE_BOOL:
      return FormatValue(reflection.GetBool(section, key.field) != key.negated);
    default:
      return reflection.GetString(section, key.field);
  }
}

// What KeyText has written, of values that break a rule too.
template <typename T>
T Parsed(absl::string_view text) {
  T value{};
  bool parsed = false;
  if constexpr (std::is_same_v<T, double>) {
    parsed = absl::SimpleAtod(text, &value);
  } else if constexpr (std::is_same_v<T, absl::Duration>) {
    parsed = absl::ParseDuration(text, &value);
  } else {
    parsed = ParseValue(text, &value).ok();
  }
  EVENSTEP_CHECK(parsed, "a field has the type of its member");
  return value;
}

void AddWords(const JobKey& key, const std::string& text, Message* section) {
  const Reflection& reflection = *section->GetReflection();
  for (const absl::string_view word :
       absl::StrSplit(text, ", ", absl::SkipEmpty())) {
    const auto found = std::find(key.words.begin(), key.words.end(), word);
    reflection.AddEnumValue(section, key.field,
                            static_cast<int>(found - key.words.begin()) + 1);
  }
}

void SetText(const JobKey& key, const std::string& text, Message* section) {
  const Reflection& reflection = *section->GetReflection();
  if (key.field->is_repeated()) return AddWords(key, text, section);
  switch (key.field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return reflection.SetInt32(section, key.field, Parsed<int>(text));
    case FieldDescriptor::CPPTYPE_INT64:
      return reflection.SetInt64(
          section, key.field,
          key.is_duration
              ? absl::ToInt64Milliseconds(Parsed<absl::Duration>(text))
              : Parsed<int64_t>(text));
    case FieldDescriptor::CPPTYPE_UINT64:
      return reflection.SetUInt64(section, key.field, Parsed<uint64_t>(text));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return reflection.SetDouble(section, key.field, Parsed<double>(text));
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection.SetBool(section, key.field,
                                Parsed<bool>(text) != key.negated);
    default:
      return reflection.SetString(section, key.field, text);
  }
}

// The message of the key's section; the whole where it has none.
const Message& SectionOf(const JobKey& key, const v1::JobSpec& proto) {
  if (key.section == nullptr) return proto;
  return proto.GetReflection()->GetMessage(proto, key.section);
}

Message* MutableSectionOf(const JobKey& key, v1::JobSpec* proto) {
  if (key.section == nullptr) return proto;
  return proto->GetReflection()->MutableMessage(proto, key.section);
}

}  // namespace

v1::JobSpec ToProto(const jobspec::JobSpec& spec) {
  v1::JobSpec proto;
  for (const JobKey& key : jobspec::JobKeys()) {
    const std::optional<std::string> text = jobspec::KeyText(key, spec);
    if (text.has_value()) SetText(key, *text, MutableSectionOf(key, &proto));
  }
  if (!spec.evaluation.enabled()) proto.clear_evaluation();
  if (spec.profile.empty()) proto.clear_profile();
  if (spec.costs.has_value()) *proto.mutable_costs() = ToProto(*spec.costs);
  return proto;
}

absl::StatusOr<jobspec::JobSpec> FromProto(const v1::JobSpec& proto) {
  jobspec::JobSpec spec;
  for (const JobKey& key : jobspec::JobKeys()) {
    const auto text = TextOf(key, SectionOf(key, proto));
    if (!text.ok()) return InField(key.name, text.status());
    if (!text->has_value()) continue;
    EVENSTEP_RETURN_IF_ERROR(
        InField(key.name, jobspec::SetKey(key, **text, &spec)));
  }
  if (proto.has_costs()) {
    EVENSTEP_ASSIGN_OR_RETURN(spec.costs, FromProto(proto.costs()));
  }
  EVENSTEP_RETURN_IF_ERROR(jobspec::ValidateJobSpec(spec));
  return spec;
}

v1::CostModel ToProto(const planner::TimeModel& costs) {
  return CostsToProto(costs);
}

absl::StatusOr<planner::TimeModel> FromProto(const v1::CostModel& proto) {
  auto costs = CostsFromProto<planner::TimeModel>(proto);
  EVENSTEP_RETURN_IF_ERROR(planner::ValidateTime(costs));
  return costs;
}

}  // namespace evenstep::wire
