#ifndef EVENSTEP_CLIENT_CLI_LOCAL_CHILD_PROCESS_H_
#define EVENSTEP_CLIENT_CLI_LOCAL_CHILD_PROCESS_H_

// One child of `evenstep local`. It never outlives the program: the destructor
// ends it, and the kernel sends it SIGTERM when the program dies in any other
// way (PR_SET_PDEATHSIG, set by ExecChild in the child before it becomes the
// program). Start and use it on the main thread: the kernel watches the thread
// that started the child. Ended by its id only.

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace evenstep::cli {

struct ChildOptions {
  std::string launcher;  // the `evenstep` binary, for ExecChild
  std::string program;   // path of the binary to run
  std::vector<std::string> arguments;
  std::string log_path;  // stdout and stderr go there
};

class ChildProcess {
 public:
  static absl::StatusOr<ChildProcess> Start(const ChildOptions& options);

  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;
  ~ChildProcess();

  pid_t pid() const { return pid_; }
  const std::string& program() const { return options_.program; }
  // "ended with exit status 3" once it has ended.
  std::optional<std::string> Ended();
  // Asks it to end.
  void Terminate();
  // Waits until it has ended; after `grace` it is killed with its group.
  void WaitOrKill(absl::Duration grace);
  // The last lines that it wrote.
  std::string LogTail() const;

 private:
  ChildProcess(const ChildOptions& options, pid_t pid)
      : options_(options), pid_(pid) {}

  ChildOptions options_;
  pid_t pid_ = -1;  // -1: moved away
  std::optional<std::string> ended_;
};

// First word of the hidden command line that the launcher is started with.
inline constexpr char kExecChildWord[] = "exec-child";

// Becomes the program argv[3] with the words after it, tied to the life of the
// process argv[2]. Returns an exit code only when that fails.
int ExecChild(int argc, char** argv);

}  // namespace evenstep::cli

#endif  // EVENSTEP_CLIENT_CLI_LOCAL_CHILD_PROCESS_H_
