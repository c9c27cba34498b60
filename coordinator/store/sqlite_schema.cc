#include "coordinator/store/sqlite_schema.h"

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace evenstep::coordinator {
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
