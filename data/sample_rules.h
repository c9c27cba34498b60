#ifndef EVENSTEP_DATA_SAMPLE_RULES_H_
#define EVENSTEP_DATA_SAMPLE_RULES_H_

// What a job does about samples that are bad or too long, when its data is
// opened: counts them, names the first ones, and says in the end whether the
// job may run. Used by data/index/selection.h. Not thread-safe.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "data/dataset.h"

namespace evenstep::data {

// So many are named of the samples that are bad for every job, of those that
// are bad for this one, and of those that are too long; the rest are counted.
inline constexpr size_t kMostNamedSamples = 5;

class SampleRules {
 public:
  // `options` outlives the rules. `num_bad` were bad before, of which `notes`
  // names the first ones.
  SampleRules(const DatasetOptions& options, int64_t num_bad,
              std::vector<std::string> notes)
      : options_(options),
        num_bad_(num_bad),
        most_notes_(notes.size() + kMostNamedSamples),
        notes_(std::move(notes)) {}

  void AddBad(const std::string& name, const std::string& reason);
  // A sample of more than max_length tokens. Under `truncate` it is kept, and
  // counted. `name` is called for those that are named.
  void AddTooLong(int64_t tokens, const std::function<std::string()>& name);

  // FAILED_PRECONDITION: a sample broke a rule whose setting is `fail`, with
  // the first ones by name; or none is left.
  absl::Status Check(int64_t num_left) const;

  int64_t num_bad() const { return num_bad_; }
  int64_t num_too_long() const { return num_too_long_; }
  int64_t num_truncated() const { return num_truncated_; }
  // The first bad ones: "NAME: reason".
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  const DatasetOptions& options_;
  int64_t num_bad_;
  const size_t most_notes_;
  int64_t num_too_long_ = 0;
  int64_t num_truncated_ = 0;
  std::vector<std::string> notes_;
  std::vector<std::string> too_long_;
};

// "3 hidden entries, 2 links that are not followed"; empty: none.
std::string DescribeLeftOut(const LeftOut& left_out);

// Says in the log what was indexed, and each bad sample that is noted.
void LogIndexed(const DatasetOptions& options, size_t num_files,
                const LeftOut& left_out, const DatasetSummary& summary,
                const std::vector<std::string>& notes);

}  // namespace evenstep::data

#endif  // EVENSTEP_DATA_SAMPLE_RULES_H_
