#ifndef EVENSTEP_CLIENT_PLAN_LENGTH_SOURCE_H_
#define EVENSTEP_CLIENT_PLAN_LENGTH_SOURCE_H_

// Where the lengths of a step come from when no job reports them: a file or
// standard input, a data set, or a named law (data/length_law.h). Used by
// `evenstep plan` and by studies. Stateless.
//
// A file has one sample a line: a number of tokens, or frames x height x width
// in patches for video, such as 30x45x80. Blank lines are skipped, and what
// follows a #. Clips of `latents:` data keep their frames too.

#include <cstdint>
#include <istream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "data/dataset.h"
#include "data/length_law.h"

namespace evenstep::plan {

struct LengthSource {
  std::string lengths;      // FILE, "-", or a law
  std::string data;         // or: a data set, as in a job file
  int64_t num_samples = 0;  // 0: all of a file; kDefaultSamples of the others
  uint64_t seed = 1;
  int64_t max_length = 0;         // of a data set: longer ones are skipped
  int patch = 1;                  // of latents: a token's side in pixels
  std::istream* input = nullptr;  // what "-" reads
  data::IndexProgressFunction progress = {};  // of a data set's indexing
};
inline constexpr int64_t kDefaultSamples = 512;

struct StepLengths {
  std::string origin;  // for people: "lengths.txt", "law wikipedia, seed 1"
  std::vector<data::LengthDraw> samples;
  // Some are clips of a data set or a file. A law's sizes serve either model.
  bool has_clips = false;
  std::string note;  // what was left out, if anything
};

// INVALID_ARGUMENT with the file, line or law, or the data set's own words.
absl::StatusOr<StepLengths> ReadStepLengths(const LengthSource& source);

// INVALID_ARGUMENT naming the first line that is not a length.
absl::StatusOr<std::vector<data::LengthDraw>> ParseLengths(
    const std::string& text);

}  // namespace evenstep::plan

#endif  // EVENSTEP_CLIENT_PLAN_LENGTH_SOURCE_H_
