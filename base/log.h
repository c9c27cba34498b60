#ifndef EVENSTEP_BASE_LOG_H_
#define EVENSTEP_BASE_LOG_H_

// Structured logging to stderr: an event name first, then ids and numbers as
// fields. One JSON line or one line of text per event. Thread-safe. The back
// end is spdlog, hidden here because torch brings another fmt of its own.
//
//   Log(LogLevel::kInfo, "job_started", {{"job", id}, {"ranks", 4}});

#include <cstdint>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace evenstep {

enum class LogLevel { kDebug, kInfo, kWarning, kError };
enum class LogFormat { kText, kJson };

struct LogField {
  // Numbers stay numbers in JSON; everything else is a string.
  LogField(absl::string_view key, absl::string_view value)
      : key(key), value(value) {}
  LogField(absl::string_view key, const char* value) : key(key), value(value) {}
  LogField(absl::string_view key, const std::string& value)
      : key(key), value(value) {}
  LogField(absl::string_view key, const absl::Status& status)
      : key(key), value(status.ToString()) {}
  template <typename Number>
  requires std::is_arithmetic_v<Number> LogField(absl::string_view key,
                                                 Number number)
      : key(key), value(absl::StrCat(number)), is_number(true) {}

  std::string key;
  std::string value;
  bool is_number = false;
};

void Log(LogLevel level, absl::string_view event,
         std::initializer_list<LogField> fields = {});
// The same for a list that is made at run time.
void LogFields(LogLevel level, absl::string_view event,
               const std::vector<LogField>& fields);

// `role` (for example "coordinator" or "trainer rank=3") stands on every line.
void SetUpLogging(LogLevel level, LogFormat format, absl::string_view role);
void SetLogLevel(LogLevel level);

// "debug", "info", "warning" or "error".
absl::string_view LogLevelName(LogLevel level);
// A name of LogLevelName; INVALID_ARGUMENT otherwise.
absl::Status ParseLogLevel(absl::string_view text, LogLevel* level);
// "text" or "json"; INVALID_ARGUMENT otherwise.
absl::Status ParseLogFormat(absl::string_view text, LogFormat* format);

// The line that Log writes, without the time stamp; for tests.
std::string FormatLogLine(LogFormat format, LogLevel level,
                          absl::string_view role, absl::string_view event,
                          const std::vector<LogField>& fields);

}  // namespace evenstep

#endif  // EVENSTEP_BASE_LOG_H_
