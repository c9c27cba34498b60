#include "jobspec/presets.h"

#include "absl/strings/str_cat.h"
#include "base/text.h"

namespace evenstep::jobspec {
namespace {

struct Preset {
  const char* name;
  const char* text;
};

constexpr Preset kPresets[] = {
    {"tiny", R"(# Seconds on one core.
name: tiny
model:
  layers: 2
  width: 64
  heads: 4
data:
  source: text:/usr/include/**/*.h
  max_length: 2048
  on_too_long: skip
  on_bad_sample: skip
batch:
  samples: 4
steps: 20
optimizer:
  lr: 0.003
  warmup: 2
ranks: 1
memory:
  tokens_per_rank: 8192
)"},
    {"small", R"(# Minutes on two cores.
name: small
model:
  layers: 4
  width: 256
  heads: 8
data:
  source: text:/usr/include/**/*.h
  max_length: 8192
  on_too_long: skip
  on_bad_sample: skip
batch:
  samples: 8
steps: 50
optimizer:
  lr: 0.001
  warmup: 5
ranks: 2
memory:
  tokens_per_rank: 8192
)"},
};

}  // namespace

std::vector<std::string> PresetNames() {
  std::vector<std::string> names;
  for (const Preset& preset : kPresets) names.emplace_back(preset.name);
  return names;
}

absl::StatusOr<std::string> PresetJobFile(absl::string_view name) {
  for (const Preset& preset : kPresets) {
    if (name == preset.name) return std::string(preset.text);
  }
  return absl::NotFoundError(absl::StrCat("no preset '", name, "'",
                                          KnownNamesHint(name, PresetNames())));
}

}  // namespace evenstep::jobspec
