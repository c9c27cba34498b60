#ifndef EVENSTEP_COORDINATOR_STORE_SQLITE_DATABASE_H_
#define EVENSTEP_COORDINATOR_STORE_SQLITE_DATABASE_H_

// SQLite with statuses and owners: the only place that speaks its C interface.
// One database is used by one thread. Statements must not outlive their
// database.
//
//   Statement insert = *database.Prepare("INSERT INTO t VALUES (?, ?)");
//   EVENSTEP_RETURN_IF_ERROR(insert.Bind(1, "a").Bind(2, 7).Run());

#include <sqlite3.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace evenstep::coordinator {

class Statement {
 public:
  // Positions count from 1. Errors are kept and returned by Run or Step.
  Statement& Bind(int position, int64_t value);
  Statement& Bind(int position, absl::string_view value);
  // Raw bytes, zeros included.
  Statement& BindBlob(int position, absl::string_view value);

  // Executes a statement without rows and resets it for the next use.
  absl::Status Run();
  // True: a row is there. False: no more.
  absl::StatusOr<bool> Step();

  // Columns count from 0; valid after Step returned true.
  int64_t Int(int column) const;
  std::string Text(int column) const;

 private:
  friend class Database;
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const {
      sqlite3_finalize(statement);
    }
  };
  explicit Statement(sqlite3_stmt* statement) : statement_(statement) {}
  void Keep(int code);

  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
  int bind_code_ = SQLITE_OK;
};

class Database {
 public:
  // A file, made if absent, or ":memory:".
  static absl::StatusOr<Database> Open(const std::string& path);

  absl::Status Execute(const std::string& sql);
  absl::StatusOr<Statement> Prepare(absl::string_view sql);
  // All of `body` or nothing.
  absl::Status InTransaction(const std::function<absl::Status()>& body);
  int64_t last_row_id() const { return sqlite3_last_insert_rowid(handle()); }
  sqlite3* handle() const { return database_.get(); }

 private:
  struct Close {
    void operator()(sqlite3* database) const { sqlite3_close_v2(database); }
  };
  explicit Database(sqlite3* database) : database_(database) {}

  std::unique_ptr<sqlite3, Close> database_;
};

// RESOURCE_EXHAUSTED, DATA_LOSS, ALREADY_EXISTS (constraint) or UNAVAILABLE.
absl::Status SqliteError(sqlite3* database, int code);

// The tables of the store (sqlite_job_store.h) and how a file comes to have
// them. Stateless.

// Version that this program writes. Files of newer versions are refused.
inline constexpr int kStoreVersion = 2;

// Sets the file up, looks whether it is whole, and brings it to kStoreVersion.
// DATA_LOSS: it is damaged. FAILED_PRECONDITION: written by a newer version.
absl::Status PrepareStore(Database& database);

}  // namespace evenstep::coordinator

#endif  // EVENSTEP_COORDINATOR_STORE_SQLITE_DATABASE_H_
