#ifndef EVENSTEP_CLIENT_CLI_ENVIRONMENT_H_
#define EVENSTEP_CLIENT_CLI_ENVIRONMENT_H_

// What the command line sees of the world, so that every command runs in a unit
// test: two streams, a terminal or none, the coordinator, Ctrl-C. Made by main;
// outlives every command. Commands run on one thread.

#include <atomic>
#include <functional>
#include <istream>
#include <memory>
#include <ostream>
#include <stop_token>
#include <string>

#include "base/clock.h"
#include "evenstep/client.h"

namespace evenstep::cli {

struct Environment {
  Environment(std::ostream& out, std::ostream& err) : out(out), err(err) {}

  std::ostream& out;           // answers: what was asked for
  std::ostream& err;           // messages: progress, warnings, errors
  std::istream* in = nullptr;  // what "-" reads; none in most tests
  int out_errno = 0;           // of the first answer that could not be written
  bool in_is_terminal = false;
  bool out_is_terminal = false;
  bool err_is_terminal = false;
  bool colour = false;           // NO_COLOR and TERM allow it
  std::function<int()> columns;  // width of the terminal now
  std::function<std::unique_ptr<client::Client>(const client::ClientOptions&)>
      connect;
  std::stop_token interrupted;        // Ctrl-C or SIGTERM
  std::stop_token interrupted_twice;  // again
  // Set by a command that holds nothing and does not look at `interrupted`:
  // Ctrl-C ends the process.
  std::atomic<bool> ends_at_once{false};
  std::string bin_dir;  // folder of this binary and of its sisters
  const Clock* clock = &RealClock();
};

}  // namespace evenstep::cli

#endif  // EVENSTEP_CLIENT_CLI_ENVIRONMENT_H_
