// `evenstep`: the command line.

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <filesystem>
#include <iostream>

#include "base/signals.h"
#include "client/cli/app.h"
#include "client/cli/exit_code.h"
#include "client/cli/local/child_process.h"

namespace {

constexpr int kDefaultColumns = 80;

int TerminalColumns() {
  winsize size = {};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) {
    return kDefaultColumns;
  }
  return size.ws_col;
}

bool ColourAllowed() {
  const char* no_color = getenv("NO_COLOR");
  const char* term = getenv("TERM");
  return (no_color == nullptr || *no_color == '\0') && term != nullptr &&
         strcmp(term, "dumb") != 0;
}

std::string OwnFolder() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error)
      .parent_path()
      .string();
}

}  // namespace

int main(int argc, char** argv) {
  using evenstep::cli::Environment;
  using evenstep::cli::kExitInterrupted;
  if (argc > 1 && strcmp(argv[1], evenstep::cli::kExecChildWord) == 0) {
    return evenstep::cli::ExecChild(argc, argv);
  }
  // The CLI says in its own words what gRPC would log.
  setenv("GRPC_VERBOSITY", "NONE", /*overwrite=*/0);
  evenstep::BlockSignals();
  std::stop_source once;
  std::stop_source twice;
  Environment environment(std::cout, std::cerr);
  evenstep::SignalWaiter signals({.on_stop =
                                      [&] {
                                        if (environment.ends_at_once)
                                          _exit(kExitInterrupted);
                                        if (!once.request_stop())
                                          twice.request_stop();
                                      },
                                  .on_reload = {}});
  environment.in = &std::cin;
  environment.in_is_terminal = isatty(STDIN_FILENO) == 1;
  environment.out_is_terminal = isatty(STDOUT_FILENO) == 1;
  environment.err_is_terminal = isatty(STDERR_FILENO) == 1;
  environment.colour = ColourAllowed();
  environment.columns = TerminalColumns;
  environment.connect = evenstep::client::Connect;
  environment.interrupted = once.get_token();
  environment.interrupted_twice = twice.get_token();
  environment.bin_dir = OwnFolder();
  return evenstep::cli::RunCli(std::vector<std::string>(argv + 1, argv + argc),
                               environment);
}
