#include "jobspec/job_keys.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/check.h"
#include "base/parse_value.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "evenstep/v1/job_spec.pb.h"
#include "evenstep/v1/key_options.pb.h"
#include "planner/planner.h"

namespace evenstep::jobspec {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;

// SP_MODE_KV_GATHER is "kv_gather". The value 0, SP_MODE_UNSPECIFIED, is not a
// word; value N is the C++ enum's N - 1.
std::vector<std::string> WordsOfEnum(const EnumDescriptor& type) {
  std::string prefix = type.value(0)->name();
  prefix.resize(prefix.size() - absl::string_view("UNSPECIFIED").size());
  std::vector<std::string> words;
  for (int i = 1; i < type.value_count(); ++i) {
    words.push_back(absl::AsciiStrToLower(
        absl::StripPrefix(type.value(i)->name(), prefix)));
  }
  return words;
}

JobKey MakeKey(const FieldDescriptor* section, const FieldDescriptor& field) {
  const v1::KeyOptions& options = field.options().GetExtension(v1::key);
  JobKey key;
  absl::string_view name = options.name();
  if (name.empty()) name = field.name();
  key.is_duration = absl::ConsumeSuffix(&name, "_ms");
  key.name = section == nullptr ? std::string(name)
                                : absl::StrCat(section->name(), ".", name);
  key.section = section;
  key.field = &field;
  key.words.assign(options.words().begin(), options.words().end());
  if (field.enum_type() != nullptr) key.words = WordsOfEnum(*field.enum_type());
  key.of_video = options.of_video();
  key.hide_default = options.hide_default();
  key.negated = options.negated();
  return key;
}

void AddKeys(const FieldDescriptor* section, const Descriptor& message,
             std::vector<JobKey>* keys) {
  for (int i = 0; i < message.field_count(); ++i) {
    const FieldDescriptor& field = *message.field(i);
    if (field.message_type() == nullptr) {
      keys->push_back(MakeKey(section, field));
    } else if (field.message_type() != v1::CostModel::descriptor()) {
      AddKeys(&field, *field.message_type(), keys);
    }
  }
}

absl::StatusOr<int> NumberOf(const JobKey& key, absl::string_view word) {
  const auto found = std::find(key.words.begin(), key.words.end(), word);
  if (found != key.words.end()) {
    return static_cast<int>(found - key.words.begin());
  }
  return absl::InvalidArgumentError(
      absl::StrCat("'", word, "' is unknown", KnownNamesHint(word, key.words)));
}

// The text of a key into its member, by the member's type.

template <typename T>
absl::Status Parse(const JobKey& key, absl::string_view text, T* member) {
  if constexpr (std::is_enum_v<T>) {
    EVENSTEP_ASSIGN_OR_RETURN(const int number, NumberOf(key, text));
    *member = static_cast<T>(number);
    return absl::OkStatus();
  } else {
    return ParseValue(text, member);
  }
}

// The planner has the table of its policies.
absl::Status Parse(const JobKey& /*key*/, absl::string_view text,
                   planner::Policy* member) {
  EVENSTEP_ASSIGN_OR_RETURN(*member, planner::ParsePolicy(text));
  return absl::OkStatus();
}

template <typename T>
absl::Status Parse(const JobKey& key, absl::string_view text,
                   std::optional<T>* member) {
  T parsed;
  EVENSTEP_RETURN_IF_ERROR(Parse(key, text, &parsed));
  *member = parsed;
  return absl::OkStatus();
}

// "ulysses, kv_gather"; empty for none.
template <typename T>
absl::Status Parse(const JobKey& key, absl::string_view text,
                   std::vector<T>* member) {
  std::vector<T> parsed;
  for (const absl::string_view one :
       absl::StrSplit(text, ',', absl::SkipWhitespace())) {
    EVENSTEP_RETURN_IF_ERROR(
        Parse(key, absl::StripAsciiWhitespace(one), &parsed.emplace_back()));
  }
  *member = std::move(parsed);
  return absl::OkStatus();
}

// And back.

using Text = std::optional<std::string>;

template <typename T>
Text Format(const JobKey& key, const T& member) {
  if constexpr (std::is_enum_v<T>) {
    return key.words.at(static_cast<size_t>(member));
  } else {
    return FormatValue(member);
  }
}

Text Format(const JobKey& /*key*/, planner::Policy member) {
  return std::string(planner::PolicyName(member));
}

template <typename T>
Text Format(const JobKey& key, const std::optional<T>& member) {
  return member.has_value() ? Format(key, *member) : std::nullopt;
}

template <typename T>
Text Format(const JobKey& key, const std::vector<T>& member) {
  return absl::StrJoin(member, ", ", [&key](std::string* out, const T& one) {
    absl::StrAppend(out, *Format(key, one));
  });
}

}  // namespace

const std::vector<JobKey>& JobKeys() {
  static const auto* const kKeys = [] {
    auto* const keys = new std::vector<JobKey>;
    AddKeys(nullptr, *v1::JobSpec::descriptor(), keys);
    return keys;
  }();
  return *kKeys;
}

const JobKey* FindJobKey(absl::string_view name) {
  for (const JobKey& key : JobKeys()) {
    if (key.name == name) return &key;
  }
  return nullptr;
}

absl::Status SetKey(const JobKey& key, absl::string_view text, JobSpec* spec) {
  absl::Status status = absl::InternalError("VisitKeys lacks the key");
  VisitKeys(*spec, [&](absl::string_view name, auto& member) {
    if (name == key.name) status = Parse(key, text, &member);
  });
  return status;
}

std::optional<std::string> KeyText(const JobKey& key, const JobSpec& spec) {
  Text text;
  VisitKeys(spec, [&](absl::string_view name, const auto& member) {
    if (name == key.name) text = Format(key, member);
  });
  return text;
}

std::optional<std::string> ShownText(const JobKey& key, const JobSpec& spec) {
  if (key.of_video && !spec.model.is_video()) return std::nullopt;
  Text text = KeyText(key, spec);
  if (key.hide_default && text == KeyText(key, JobSpec())) return std::nullopt;
  return text;
}

absl::string_view WordOfNumber(absl::string_view key, int number) {
  const JobKey* const found = FindJobKey(key);
  EVENSTEP_CHECK(found != nullptr, "a key of job_spec.proto");
  return found->words.at(static_cast<size_t>(number));
}

}  // namespace evenstep::jobspec
