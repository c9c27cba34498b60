#ifndef EVENSTEP_JOBSPEC_INPUT_CHECK_H_
#define EVENSTEP_JOBSPEC_INPUT_CHECK_H_

// Whether the files that a job names are there, of the kind that it says, and
// fit its model: all that can be known before a rank starts, without reading
// data or the values of weights. Called by `evenstep local` and `submit` before
// anything runs, and by agents before they start a process. Reads files;
// stateless.

#include "absl/status/status.h"
#include "jobspec/job_spec.h"

namespace evenstep::jobspec {

// How closely to look. kHeaders: first bytes of tokenizers and headers of
// weights; folders are not listed. kAll: folders are listed and tokenizers
// loaded, too.
enum class InputDepth { kHeaders, kAll };

// What a path means that is not there. kMustBeHere: the ranks run on this
// machine. kMayBeElsewhere: the ranks may see what this machine does not; what
// it does see is checked.
enum class InputPlace { kMustBeHere, kMayBeElsewhere };

struct InputCheckOptions {
  InputDepth depth = InputDepth::kAll;
  InputPlace place = InputPlace::kMustBeHere;
};

// "KEY PATH: sentence" of the first input that is not sound: NOT_FOUND,
// FAILED_PRECONDITION, DATA_LOSS, INVALID_ARGUMENT, or what opening it says.
// The spec keeps the rules of ValidateJobSpec, and its paths are absolute.
absl::Status CheckInputs(const JobSpec& spec, const InputCheckOptions& options);

}  // namespace evenstep::jobspec

#endif  // EVENSTEP_JOBSPEC_INPUT_CHECK_H_
