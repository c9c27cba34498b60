// The config.json beside weights as an outsider may write it, read as
// `generate` reads it, which makes that model, and as a job with
// `model.weights` does, which compares it with its own.
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "jobspec/llama_config.h"
#include "jobspec/rules/rules.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  namespace jobspec = evenstep::jobspec;
  const absl::string_view text(reinterpret_cast<const char*>(bytes), size);
  const auto model = jobspec::ParseLlamaConfig(text);
  // What has no sizes may still be compared.
  const jobspec::ModelSpec ours = model.ok() ? *model : jobspec::ModelSpec();
  const bool same = jobspec::CheckLlamaConfig(text, ours).ok();
  if (!model.ok() || !jobspec::ValidateModelSpec(*model).ok() || !same) {
    return 0;
  }
  jobspec::ModelSpec other = ours;
  other.heads += 1;
  EVENSTEP_CHECK(!jobspec::CheckLlamaConfig(text, other).ok(),
                 "heads are compared");
  other = ours;
  other.norm_epsilon *= 2;
  EVENSTEP_CHECK(!jobspec::CheckLlamaConfig(text, other).ok(),
                 "the epsilon is compared, said or not");
  other = ours;
  other.rope_theta *= 2;
  EVENSTEP_CHECK(!jobspec::CheckLlamaConfig(text, other).ok(),
                 "the angles are compared, said or not");
  return 0;
}
