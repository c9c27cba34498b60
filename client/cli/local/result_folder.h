#ifndef EVENSTEP_CLIENT_CLI_LOCAL_RESULT_FOLDER_H_
#define EVENSTEP_CLIENT_CLI_LOCAL_RESULT_FOLDER_H_

// Folders of one local run: the one that the user keeps, and a private one that
// goes away. Touches the disk; one thread.

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/unique_fd.h"
#include "client/cli/show/to_json.h"
#include "evenstep/job.h"

namespace evenstep::cli {

// A new folder that only this user may enter, under TMPDIR or /tmp. Removed
// with all its files by the destructor, unless it is kept.
class PrivateFolder {
 public:
  // In `parent`; empty: the system's place for temporary files. Removes what
  // runs left there that were killed.
  static absl::StatusOr<PrivateFolder> Make(const std::string& parent = "");
  PrivateFolder(PrivateFolder&& other) noexcept;
  PrivateFolder& operator=(PrivateFolder&&) = delete;
  ~PrivateFolder();

  const std::string& path() const { return path_; }
  // The destructor leaves it alone.
  void Keep();

 private:
  explicit PrivateFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;  // empty: moved away
  bool kept_ = false;
  UniqueFd lock_;
};

// Appends what the trainers wrote to LOG_DIR/rank-R.log, attempt after attempt.
// The folder is made if it is gone.
// `folder` holds the agents' working folders, one a node; what their links
// NODE/attempts lead to is removed then.
absl::Status KeepTrainerLogs(const std::string& folder,
                             const std::string& log_dir);

// Makes the folder that the user keeps, with the marker that tells results from
// data (base/output_marker.h). INVALID_ARGUMENT: it holds a file with the name
// of a result that no earlier run wrote.
absl::Status MakeResultFolder(const std::string& folder);

// Moves a run's logs to FOLDER/logs, unless there are logs already. Returns
// where they are.
std::string KeepLogs(const std::string& log_dir, const std::string& folder);

struct LeftResults {
  // Why the weights could not be moved to the results; they are kept.
  absl::Status weights;
  Json summary;  // its "files" names what was written
  // Where the results of an earlier run are now; empty: there were none.
  std::string previous;
};

// Writes summary.json, loss.csv, loss.json and job.yaml into `folder` and moves
// the weights there, if there are any, with the configuration beside them. All
// that an earlier run left there, logs too, is first moved to FOLDER/previous-1
// (-2, ...): files of two runs are not mixed, and none is lost. The job says
// where its weights are now, also after an error.
absl::StatusOr<LeftResults> LeaveResults(
    const std::string& folder, const std::vector<client::StepSummary>& steps,
    client::Job* job);

}  // namespace evenstep::cli

#endif  // EVENSTEP_CLIENT_CLI_LOCAL_RESULT_FOLDER_H_
