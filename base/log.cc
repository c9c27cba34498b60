#include "base/log.h"

#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "spdlog/sinks/stdout_sinks.h"
#include "spdlog/spdlog.h"

namespace evenstep {
namespace {

struct LogSetting {
  LogFormat format = LogFormat::kText;
  std::string role;
};

absl::Mutex setting_mutex(absl::kConstInit);

LogSetting& Setting() ABSL_EXCLUSIVE_LOCKS_REQUIRED(setting_mutex) {
  static LogSetting* const setting = new LogSetting;
  return *setting;
}

// Text lines get the time in front; a JSON line has it as a field.
constexpr char kTextPattern[] = "%Y-%m-%dT%H:%M:%S.%e %v";
constexpr char kJsonPattern[] = "%v";

spdlog::logger& Logger() {
  static const std::shared_ptr<spdlog::logger> logger = [] {
    auto made = std::make_shared<spdlog::logger>(
        "evenstep", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern(kTextPattern);
    made->flush_on(spdlog::level::debug);
    return made;
  }();
  return *logger;
}

LogSetting CopySetting() {
  absl::MutexLock lock(&setting_mutex);
  return Setting();
}

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

// JSON strings: the C escapes of absl are not all legal there.
std::string JsonString(absl::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      absl::StrAppend(&out, "\\", absl::string_view(&c, 1));
    } else if (c == '\n') {
      out += "\\n";
    } else if (byte < 0x20) {
      absl::StrAppend(&out, "\\u00", absl::Hex(byte, absl::kZeroPad2));
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string JsonValue(const LogField& field) {
  const bool finite = field.value.find_first_of("in") == std::string::npos;
  return field.is_number && finite ? field.value : JsonString(field.value);
}

std::string TextValue(const LogField& field) {
  const bool plain = !field.value.empty() &&
                     field.value.find_first_of(" \t\n\"=") == std::string::npos;
  return plain ? field.value : JsonString(field.value);
}

std::string WithTime(const std::string& json_line) {
  return absl::StrCat("{\"time\":\"",
                      absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::Now(),
                                       absl::UTCTimeZone()),
                      "\",", absl::string_view(json_line).substr(1));
}

}  // namespace

absl::string_view LogLevelName(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "debug";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kError:
      return "error";
  }
  return "info";
}

std::string FormatLogLine(LogFormat format, LogLevel level,
                          absl::string_view role, absl::string_view event,
                          const std::vector<LogField>& fields) {
  std::string line;
  if (format == LogFormat::kJson) {
    absl::StrAppend(&line, "{\"event\":", JsonString(event), ",\"level\":\"",
                    LogLevelName(level), "\",\"role\":", JsonString(role));
    for (const LogField& field : fields) {
      absl::StrAppend(&line, ",", JsonString(field.key), ":", JsonValue(field));
    }
    return line + "}";
  }
  absl::StrAppend(&line, LogLevelName(level), " ", role,
                  role.empty() ? "" : " ", event);
  for (const LogField& field : fields) {
    absl::StrAppend(&line, " ", field.key, "=", TextValue(field));
  }
  return line;
}

void Log(LogLevel level, absl::string_view event,
         std::initializer_list<LogField> fields) {
  LogFields(level, event, fields);
}

void LogFields(LogLevel level, absl::string_view event,
               const std::vector<LogField>& fields) {
  spdlog::logger& logger = Logger();
  const auto spdlog_level = ToSpdlog(level);
  if (!logger.should_log(spdlog_level)) return;
  const LogSetting setting = CopySetting();
  std::string line =
      FormatLogLine(setting.format, level, setting.role, event, fields);
  if (setting.format == LogFormat::kJson) line = WithTime(line);
  logger.log(spdlog_level, "{}", line);
}

void SetUpLogging(LogLevel level, LogFormat format, absl::string_view role) {
  {
    absl::MutexLock lock(&setting_mutex);
    Setting() = {format, std::string(role)};
  }
  Logger().set_pattern(format == LogFormat::kJson ? kJsonPattern
                                                  : kTextPattern);
  SetLogLevel(level);
}

void SetLogLevel(LogLevel level) { Logger().set_level(ToSpdlog(level)); }

absl::Status ParseLogLevel(absl::string_view text, LogLevel* level) {
  for (LogLevel candidate : {LogLevel::kDebug, LogLevel::kInfo,
                             LogLevel::kWarning, LogLevel::kError}) {
    if (text == LogLevelName(candidate)) {
      *level = candidate;
      return absl::OkStatus();
    }
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "log level '", text, "' is not one of debug, info, warning, error"));
}

absl::Status ParseLogFormat(absl::string_view text, LogFormat* format) {
  if (text == "text") {
    *format = LogFormat::kText;
  } else if (text == "json") {
    *format = LogFormat::kJson;
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat("log format '", text, "' is not text or json"));
  }
  return absl::OkStatus();
}

}  // namespace evenstep
