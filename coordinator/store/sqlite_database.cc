#include "coordinator/store/sqlite_database.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace evenstep::coordinator {
namespace {

absl::StatusCode CodeOf(int sqlite_code) {
  switch (sqlite_code & 0xff) {
    case SQLITE_FULL:
      return absl::StatusCode::kResourceExhausted;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return absl::StatusCode::kDataLoss;
    case SQLITE_CONSTRAINT:
      return absl::StatusCode::kAlreadyExists;
    case SQLITE_MISUSE:
      return absl::StatusCode::kInternal;
    default:
      return absl::StatusCode::kUnavailable;
  }
}

}  // namespace

absl::Status SqliteError(sqlite3* database, int code) {
  return absl::Status(CodeOf(code),
                      absl::StrCat("store: ", sqlite3_errmsg(database),
                                   " (sqlite code ", code, ")"));
}

void Statement::Keep(int code) {
  if (bind_code_ == SQLITE_OK) bind_code_ = code;
}

Statement& Statement::Bind(int position, int64_t value) {
  Keep(sqlite3_bind_int64(statement_.get(), position, value));
  return *this;
}

Statement& Statement::Bind(int position, absl::string_view value) {
  Keep(sqlite3_bind_text64(statement_.get(), position, value.data(),
                           value.size(), SQLITE_TRANSIENT, SQLITE_UTF8));
  return *this;
}

Statement& Statement::BindBlob(int position, absl::string_view value) {
  Keep(sqlite3_bind_blob64(statement_.get(), position, value.data(),
                           value.size(), SQLITE_TRANSIENT));
  return *this;
}

absl::Status Statement::Run() {
  auto row = Step();
  sqlite3_reset(statement_.get());
  return row.ok() ? absl::OkStatus() : row.status();
}

absl::StatusOr<bool> Statement::Step() {
  sqlite3* const database = sqlite3_db_handle(statement_.get());
  if (bind_code_ != SQLITE_OK) return SqliteError(database, bind_code_);
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return SqliteError(database, code);
}

int64_t Statement::Int(int column) const {
  return sqlite3_column_int64(statement_.get(), column);
}

std::string Statement::Text(int column) const {
  const void* const bytes = sqlite3_column_blob(statement_.get(), column);
  const int size = sqlite3_column_bytes(statement_.get(), column);
  return std::string(static_cast<const char*>(bytes), bytes ? size : 0);
}

absl::StatusOr<Database> Database::Open(const std::string& path) {
  sqlite3* raw = nullptr;
  const int code = sqlite3_open_v2(
      path.c_str(), &raw, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr);
  Database database(raw);
  if (code != SQLITE_OK) return SqliteError(raw, code);
  sqlite3_busy_timeout(raw, 1000);
  return database;
}

absl::Status Database::Execute(const std::string& sql) {
  const int code =
      sqlite3_exec(handle(), sql.c_str(), nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? absl::OkStatus() : SqliteError(handle(), code);
}

absl::StatusOr<Statement> Database::Prepare(absl::string_view sql) {
  sqlite3_stmt* raw = nullptr;
  const int code =
      sqlite3_prepare_v2(handle(), sql.data(), sql.size(), &raw, nullptr);
  if (code != SQLITE_OK) return SqliteError(handle(), code);
  return Statement(raw);
}

absl::Status Database::InTransaction(
    const std::function<absl::Status()>& body) {
  EVENSTEP_RETURN_IF_ERROR(Execute("BEGIN IMMEDIATE"));
  absl::Status status = body();
  if (status.ok()) status = Execute("COMMIT");
  // SQLite may have rolled back by itself; then this is a refused no-op.
  if (!status.ok()) (void)Execute("ROLLBACK");
  return status;
}

}  // namespace evenstep::coordinator
