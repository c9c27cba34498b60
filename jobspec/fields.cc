#include "jobspec/fields.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace evenstep::jobspec {
const Field* FindField(const std::vector<Field>& fields,
                       absl::string_view key) {
  const auto found = std::find_if(fields.begin(), fields.end(),
                                  [&](const Field& f) { return f.key == key; });
  return found == fields.end() ? nullptr : &*found;
}

absl::Status At(absl::string_view where, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::InvalidArgumentError(
      absl::StrCat(where, ": ", status.message()));
}

}  // namespace evenstep::jobspec
