#include "worker/trainer/link/trainer_mode.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/log.h"
#include "base/signals.h"
#include "worker/trainer/link/failure.h"

namespace evenstep::trainer {

namespace {

void LeaveStatus(const absl::Status& status, const std::string& path) {
  const absl::Status written = WriteFileAtomically(
      path, absl::StrCat(status.raw_code(), "\n", status.message()));
  if (!written.ok()) {
    Log(LogLevel::kError, "status_file_failed", {{"reason", written}});
  }
}

}  // namespace

bool AsksForMode(absl::string_view word, int argc, char** argv) {
  return argc > 1 && word == argv[1];
}

int RunMode(absl::string_view word, ConfigTable* table, int argc, char** argv,
            const std::function<absl::Status()>& work) {
  std::string status_file;
  table->Add("status-file", "EVENSTEP_TRAINER_STATUS_FILE", &status_file,
             "where a failure is written for the program that asked");
  if (const std::optional<int> code = table->Run(argc, argv)) return *code;
  SetUpLogging(LogLevel::kInfo, LogFormat::kText, word);
  IgnoreWriteSignals();
  const absl::Status status = work();
  if (status.ok()) return kExitFinished;
  Log(LogLevel::kError, absl::StrCat(word, "_failed"), {{"reason", status}});
  if (!status_file.empty()) LeaveStatus(status, status_file);
  return kExitStartFailed;
}

}  // namespace evenstep::trainer
