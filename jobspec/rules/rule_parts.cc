#include "jobspec/rules/rule_parts.h"

#include "base/text.h"

namespace evenstep::jobspec {
namespace {

bool HasControlCharacter(absl::string_view text) {
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) return true;
  }
  return false;
}

}  // namespace

Found FirstOf(std::initializer_list<Found> found) {
  for (const Found& one : found) {
    if (one.has_value()) return one;
  }
  return std::nullopt;
}

Found TextRule(absl::string_view key, absl::string_view text, size_t most) {
  if (text.empty()) return RuleBreak{std::string(key), "is required"};
  if (text.size() > most) {
    return RuleBreak{std::string(key),
                     absl::StrCat(text.size(), " bytes; at most ", most)};
  }
  const absl::Status valid = CheckUtf8("the text", text);
  if (!valid.ok()) {
    return RuleBreak{std::string(key), std::string(valid.message())};
  }
  if (HasControlCharacter(text)) {
    return RuleBreak{std::string(key), "holds a control character"};
  }
  return std::nullopt;
}

}  // namespace evenstep::jobspec
