#ifndef EVENSTEP_DATA_SAMPLE_RULES_H_
#define EVENSTEP_DATA_SAMPLE_RULES_H_

// What a job does about samples that are bad or too long, while its data is
// indexed: counts them, names the first ones, and says in the end whether the
// job may go on. Used by whoever builds an index. Not thread-safe.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "data/dataset.h"

namespace evenstep::data {

class SampleRules {
 public:
  // `options` outlives the rules.
  explicit SampleRules(const DatasetOptions& options) : options_(options) {}

  void AddBad(const std::string& name, const std::string& reason);
  // Of more than max_length tokens. Under `truncate` it is kept, and counted.
  void AddTooLong(const std::string& name, int64_t tokens);

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
  int64_t num_bad_ = 0;
  int64_t num_too_long_ = 0;
  int64_t num_truncated_ = 0;
  std::vector<std::string> notes_;
  std::vector<std::string> too_long_;
};

// FAILED_PRECONDITION: no sample of a source is left; names the first of those
// that are bad.
absl::Status NoSampleLeft(const DatasetOptions& options, int64_t num_bad,
                          int64_t num_too_long,
                          const std::vector<std::string>& notes);

// Says in the log what was indexed, and each bad sample that is noted.
// `num_links` were left out.
void LogIndexed(const DatasetOptions& options, size_t num_files,
                int64_t num_links, const DatasetSummary& summary,
                const std::vector<std::string>& notes);

}  // namespace evenstep::data

#endif  // EVENSTEP_DATA_SAMPLE_RULES_H_
