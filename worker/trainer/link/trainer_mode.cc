#include "worker/trainer/link/trainer_mode.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "worker/trainer/link/failure.h"

namespace evenstep::trainer {

bool AsksForMode(absl::string_view word, int argc, char** argv) {
  return argc > 1 && word == argv[1];
}

int RunMode(absl::string_view word, ConfigTable* table, int argc, char** argv,
            const std::function<absl::Status()>& work) {
  if (const std::optional<int> code = table->Run(argc, argv)) return *code;
  SetUpLogging(LogLevel::kInfo, LogFormat::kText, word);
  const absl::Status status = work();
  if (status.ok()) return kExitFinished;
  Log(LogLevel::kError, absl::StrCat(word, "_failed"), {{"reason", status}});
  return kExitStartFailed;
}

}  // namespace evenstep::trainer
