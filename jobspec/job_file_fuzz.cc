// Job files as people may write them; with them the YAML reader. An accepted
// job must obey the rules and survive being written and read again.
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "jobspec/job_spec.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  namespace jobspec = evenstep::jobspec;
  const absl::string_view text(reinterpret_cast<const char*>(bytes), size);
  jobspec::ParseOptions options;
  options.base_dir = "/nowhere";
  const auto spec = jobspec::ParseJobFile(text, options);
  if (!spec.ok()) return 0;
  EVENSTEP_CHECK(jobspec::ValidateJobSpec(*spec).ok(), "rules are checked");
  const std::string written = jobspec::FormatJobFile(*spec);
  const auto again = jobspec::ParseJobFile(written, options);
  EVENSTEP_CHECK(again.ok(), "a written job reads back");
  EVENSTEP_CHECK(jobspec::FormatJobFile(*again) == written, "to the same job");
  return 0;
}
