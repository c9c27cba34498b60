#include "coordinator/store/sqlite_database.h"

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
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

namespace {

// kMigrations[v] brings a file from version v to v + 1.
constexpr const char* kMigrations[kStoreVersion] = {
    R"sql(
CREATE TABLE jobs (
  arrival INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  state INTEGER NOT NULL,
  after_stopping INTEGER NOT NULL,
  last_event INTEGER NOT NULL,
  last_log INTEGER NOT NULL,
  job BLOB NOT NULL);
CREATE TABLE events (
  job_id TEXT NOT NULL,
  sequence INTEGER NOT NULL,
  state INTEGER NOT NULL,
  reason TEXT NOT NULL,
  event BLOB NOT NULL,
  PRIMARY KEY (job_id, sequence)) WITHOUT ROWID;
CREATE TABLE attempts (
  job_id TEXT NOT NULL,
  attempt INTEGER NOT NULL,
  generation INTEGER NOT NULL,
  node TEXT NOT NULL,
  first_rank INTEGER NOT NULL,
  num_ranks INTEGER NOT NULL,
  PRIMARY KEY (job_id, attempt, first_rank)) WITHOUT ROWID;
CREATE TABLE steps (
  job_id TEXT NOT NULL,
  step INTEGER NOT NULL,
  summary BLOB NOT NULL,
  PRIMARY KEY (job_id, step)) WITHOUT ROWID;
CREATE TABLE log_lines (
  job_id TEXT NOT NULL,
  sequence INTEGER NOT NULL,
  line BLOB NOT NULL,
  PRIMARY KEY (job_id, sequence)) WITHOUT ROWID;
)sql",
    R"sql(
CREATE TABLE forgotten (
  place INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  attempt INTEGER NOT NULL,
  generation INTEGER NOT NULL);
)sql",
};

absl::StatusOr<int64_t> ReadNumber(Database& database, absl::string_view sql) {
  EVENSTEP_ASSIGN_OR_RETURN(Statement statement, database.Prepare(sql));
  EVENSTEP_ASSIGN_OR_RETURN(const bool found, statement.Step());
  if (!found) return absl::DataLossError("store: a pragma gave no answer");
  return statement.Int(0);
}

absl::Status CheckIntegrity(Database& database) {
  EVENSTEP_ASSIGN_OR_RETURN(Statement statement,
                            database.Prepare("PRAGMA quick_check(1)"));
  EVENSTEP_ASSIGN_OR_RETURN(const bool found, statement.Step());
  if (found && statement.Text(0) == "ok") return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(
      "store: the file is damaged: ",
      found ? statement.Text(0) : std::string("quick_check gave no answer")));
}

absl::Status Migrate(Database& database) {
  EVENSTEP_ASSIGN_OR_RETURN(int64_t version,
                            ReadNumber(database, "PRAGMA user_version"));
  if (version > kStoreVersion) {
    return absl::FailedPreconditionError(absl::StrCat(
        "store: the file has schema version ", version,
        ", this program knows up to ", kStoreVersion, "; use a newer one"));
  }
  for (; version < kStoreVersion; ++version) {
    EVENSTEP_RETURN_IF_ERROR(database.InTransaction([&] {
      return database.Execute(absl::StrCat(
          kMigrations[version], "PRAGMA user_version = ", version + 1));
    }));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status PrepareStore(Database& database) {
  EVENSTEP_RETURN_IF_ERROR(database.Execute(
      "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"));
  EVENSTEP_RETURN_IF_ERROR(CheckIntegrity(database));
  return Migrate(database);
}

}  // namespace evenstep::coordinator
