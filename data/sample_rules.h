#ifndef EVENSTEP_DATA_SAMPLE_RULES_H_
#define EVENSTEP_DATA_SAMPLE_RULES_H_

// What a job does about samples that are bad or too long, when its data is
// opened: counts them, names them, and says in the end whether the job may run.
// Used by data/index/selection.h. Not thread-safe.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "data/dataset.h"

namespace evenstep::data {

// A message names this many samples, and counts the others.
inline constexpr size_t kMostNamedSamples = 5;
// The log of a job names this many: half of the lines that an agent passes on
// of a trainer in a second.
inline constexpr size_t kMostLoggedSamples = 500;
// Notes on bad samples ("NAME: reason") are kept up to this many bytes, which
// is well over 100,000 of them; the others are counted.
inline constexpr size_t kMostNoteBytes = size_t{1} << 24;

class SampleRules {
 public:
  // `options` outlives the rules.
  explicit SampleRules(const DatasetOptions& options) : options_(options) {}

  // Bad for this job.
  void AddBad(const std::string& name, const std::string& reason);
  // So many are bad for every job; `notes` names them, up to kMostNoteBytes.
  // After those that are bad for this one, which are named first.
  void AddBadForAll(int64_t count, std::vector<std::string> notes);
  // A sample of more than max_length tokens. Under `truncate` it is kept, and
  // counted. `name` is called for those that are named. `is_file`: it is a
  // whole file of text.
  void AddTooLong(int64_t tokens, bool is_file,
                  const std::function<std::string()>& name);

  // FAILED_PRECONDITION: a sample broke a rule whose setting is `fail`, with
  // the first ones by name; or none is left, with what was left out.
  absl::Status Check(int64_t num_left, const LeftOut& left_out) const;

  int64_t num_bad() const { return num_bad_; }
  int64_t num_too_long() const { return num_too_long_; }
  int64_t num_long_files() const { return num_long_files_; }
  int64_t num_truncated() const { return num_truncated_; }
  // The bad ones: "NAME: reason".
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  absl::Status NoSampleLeft(const LeftOut& left_out) const;
  std::string SplitHint() const;

  const DatasetOptions& options_;
  int64_t num_bad_ = 0;
  size_t note_bytes_ = 0;  // of those that are bad for this job
  int64_t num_too_long_ = 0;
  int64_t num_long_files_ = 0;
  int64_t num_truncated_ = 0;
  std::vector<std::string> notes_;
  std::vector<std::string> too_long_;
};

// ". A file of text is one document: ...", how to make samples of at most
// `max_length` tokens of a large file of text.
std::string HowToSplit(int64_t max_length);

// "d.jsonl:1-8: REASON", "a, b: empty", "and 3 more": notes with the same
// reason as one, for the first kMostNamedSamples reasons. `notes` are the first
// of `count`.
std::vector<std::string> NamedFirst(absl::Span<const std::string> notes,
                                    int64_t count);
// The same in one line, with semicolons.
std::string NameFirst(absl::Span<const std::string> notes, int64_t count);

// "3 hidden entries, 2 links that are not followed"; empty: none.
std::string DescribeLeftOut(const LeftOut& left_out);

// Says in the log what was indexed.
void LogIndexed(const DatasetOptions& options, size_t num_files,
                const DatasetSummary& summary);

// Names the first kMostLoggedSamples bad samples of `dataset` in the log, and
// says how many more there are.
void LogBadSamples(const Dataset& dataset);

}  // namespace evenstep::data

#endif  // EVENSTEP_DATA_SAMPLE_RULES_H_
