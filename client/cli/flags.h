#ifndef EVENSTEP_CLIENT_CLI_FLAGS_H_
#define EVENSTEP_CLIENT_CLI_FLAGS_H_

// Flags that several commands have, and checks of what is typed. Targets
// outlive the app. Used where commands declare their flags; no state.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/cli/show/output.h"

namespace CLI {
class App;
}

namespace evenstep::cli {

// Those of all commands.
void AddGlobalFlags(CLI::App* app, GlobalOptions* global);

// The id of a job, which has to be there.
void AddJobId(CLI::App* app, std::string* job_id);
// A job file, by its place on the line.
void AddJobFile(CLI::App* app, std::string* file);
void AddPreset(CLI::App* app, std::string* preset);
void AddSet(CLI::App* app, std::vector<std::string>* overrides);
// Text in UTF-8; `type` stands for it in the help.
void AddText(CLI::App* app, const std::string& name, std::string* target,
             const std::string& type, const std::string& help);
void AddDuration(CLI::App* app, const std::string& name, absl::Duration* target,
                 const std::string& help);
// Of 64 bits: CLI11 itself would clamp a larger one.
void AddSeed(CLI::App* app, uint64_t* seed, const std::string& help);

}  // namespace evenstep::cli

#endif  // EVENSTEP_CLIENT_CLI_FLAGS_H_
