#include "worker/trainer/profile/profile_key.h"

#include <torch/headeronly/version.h>

#include <fstream>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/version.h"

namespace evenstep::trainer {
namespace {

// As the kernel names the first one.
std::string CpuName() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos || !absl::StartsWith(line, "model name")) {
      continue;
    }
    return std::string(absl::StripAsciiWhitespace(line.substr(colon + 1)));
  }
  return "unnamed";
}

}  // namespace

jobspec::ProfileKey LocalProfileKey(const jobspec::JobSpec& spec,
                                    const ProfiledDevice& where) {
  jobspec::ProfileKey key;
  key.model = jobspec::ModelKey(spec.model);
  key.device = c10::DeviceTypeName(where.device.type(), /*lower_case=*/true);
  if (where.device.is_cpu()) {
    absl::StrAppend(&key.device, " ", CpuName(), ", threads ",
                    where.threads_per_rank);
  } else {
    absl::StrAppend(&key.device, " ", where.name);
  }
  key.software =
      absl::StrCat("evenstep ", Version(), ", torch ", TORCH_VERSION_MAJOR, ".",
                   TORCH_VERSION_MINOR, ".", TORCH_VERSION_PATCH);
  key.precision = jobspec::PrecisionKey(spec);
  return key;
}

}  // namespace evenstep::trainer
