#include "coordinator/store/sqlite_job_store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "coordinator/store/sqlite_database.h"

namespace evenstep::coordinator {
namespace {

absl::StatusOr<int> LockFile(const std::string& path) {
  const std::string lock_path = path + ".lock";
  const int fd = open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) {
    return absl::UnavailableError(absl::StrCat("store: cannot open ", lock_path,
                                               ": ", std::strerror(errno)));
  }
  if (flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
  close(fd);
  return absl::FailedPreconditionError(
      absl::StrCat("store: ", path, " is in use by another coordinator"));
}

template <typename Message>
absl::Status Parse(const std::string& bytes, absl::string_view what,
                   Message* message) {
  if (message->ParseFromString(bytes)) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("store: a stored ", what, " cannot be read"));
}

std::string JobBody(const JobRecord& record) {
  v1::Job job = record.job;
  job.clear_recent_steps();
  return job.SerializeAsString();
}

// Rows of one body column after a cursor.
template <typename Message>
absl::StatusOr<std::vector<Message>> ReadRows(Database& database,
                                              absl::string_view sql,
                                              const std::string& job_id,
                                              int64_t after, int limit) {
  EVENSTEP_ASSIGN_OR_RETURN(Statement select, database.Prepare(sql));
  select.Bind(1, job_id).Bind(2, after).Bind(3, limit);
  std::vector<Message> rows;
  while (true) {
    EVENSTEP_ASSIGN_OR_RETURN(const bool found, select.Step());
    if (!found) return rows;
    EVENSTEP_RETURN_IF_ERROR(
        Parse(select.Text(0), "row", &rows.emplace_back()));
  }
}

}  // namespace

SqliteJobStore::SqliteJobStore(Database database, const StoreLimits& limits,
                               int lock_fd)
    : database_(std::move(database)), limits_(limits), lock_fd_(lock_fd) {}

SqliteJobStore::~SqliteJobStore() {
  if (lock_fd_ >= 0) close(lock_fd_);
}

absl::StatusOr<std::unique_ptr<SqliteJobStore>> SqliteJobStore::Open(
    const std::string& path, const StoreLimits& limits) {
  int lock_fd = -1;
  if (path != ":memory:") {
    EVENSTEP_ASSIGN_OR_RETURN(lock_fd, LockFile(path));
  }
  absl::StatusOr<Database> database = Database::Open(path);
  absl::Status status = database.status();
  if (status.ok()) status = PrepareStore(*database);
  if (!status.ok()) {
    if (lock_fd >= 0) close(lock_fd);
    return absl::Status(status.code(),
                        absl::StrCat(path, ": ", status.message()));
  }
  return std::unique_ptr<SqliteJobStore>(
      new SqliteJobStore(*std::move(database), limits, lock_fd));
}

absl::Status SqliteJobStore::InsertJob(JobRecord* record) {
  EVENSTEP_ASSIGN_OR_RETURN(
      Statement insert,
      database_.Prepare("INSERT INTO jobs (id, state, after_stopping, "
                        "last_event, last_log, job) VALUES (?,?,?,?,?,?)"));
  EVENSTEP_RETURN_IF_ERROR(
      insert.Bind(1, record->job.job_id())
          .Bind(2, static_cast<int64_t>(record->status.state))
          .Bind(3, static_cast<int64_t>(record->status.after_stopping))
          .Bind(4, record->last_event)
          .Bind(5, record->last_log)
          .BindBlob(6, JobBody(*record))
          .Run());
  record->arrival = database_.last_row_id();
  return absl::OkStatus();
}

absl::Status SqliteJobStore::UpdateJob(const JobRecord& record) {
  EVENSTEP_ASSIGN_OR_RETURN(
      Statement update,
      database_.Prepare("UPDATE jobs SET state=?, after_stopping=?, "
                        "last_event=?, last_log=?, job=? WHERE id=?"));
  EVENSTEP_RETURN_IF_ERROR(
      update.Bind(1, static_cast<int64_t>(record.status.state))
          .Bind(2, static_cast<int64_t>(record.status.after_stopping))
          .Bind(3, record.last_event)
          .Bind(4, record.last_log)
          .BindBlob(5, JobBody(record))
          .Bind(6, record.job.job_id())
          .Run());
  if (sqlite3_changes(database_.handle()) == 1) return absl::OkStatus();
  return absl::NotFoundError(
      absl::StrCat("store: no job '", record.job.job_id(), "'"));
}

absl::Status SqliteJobStore::InsertEvent(const std::string& job_id,
                                         const v1::JobEvent& event) {
  EVENSTEP_ASSIGN_OR_RETURN(
      Statement insert,
      database_.Prepare("INSERT INTO events VALUES (?,?,?,?,?)"));
  return insert.Bind(1, job_id)
      .Bind(2, event.sequence())
      .Bind(3, static_cast<int64_t>(event.state()))
      .Bind(4, event.reason())
      .BindBlob(5, event.SerializeAsString())
      .Run();
}

absl::Status SqliteJobStore::InsertAttempt(const JobRecord& record) {
  const std::string& job_id = record.job.job_id();
  EVENSTEP_ASSIGN_OR_RETURN(
      Statement forget, database_.Prepare("DELETE FROM steps WHERE job_id=?"));
  EVENSTEP_RETURN_IF_ERROR(forget.Bind(1, job_id).Run());
  for (const v1::Placement& placement : record.job.placements()) {
    EVENSTEP_ASSIGN_OR_RETURN(
        Statement insert,
        database_.Prepare("INSERT INTO attempts VALUES (?,?,?,?,?,?)"));
    EVENSTEP_RETURN_IF_ERROR(insert.Bind(1, job_id)
                                 .Bind(2, record.job.attempt())
                                 .Bind(3, record.job.generation())
                                 .Bind(4, placement.node())
                                 .Bind(5, placement.first_rank())
                                 .Bind(6, placement.num_ranks())
                                 .Run());
  }
  return absl::OkStatus();
}

absl::Status SqliteJobStore::GoOnFromForgotten(v1::Job* job) {
  EVENSTEP_ASSIGN_OR_RETURN(
      Statement select,
      database_.Prepare("SELECT attempt, generation FROM forgotten "
                        "WHERE id=?"));
  select.Bind(1, job->job_id());
  EVENSTEP_ASSIGN_OR_RETURN(const bool found, select.Step());
  if (!found) return absl::OkStatus();
  job->set_attempt(static_cast<int>(select.Int(0)));
  job->set_generation(select.Int(1));
  return absl::OkStatus();
}

absl::Status SqliteJobStore::Create(JobRecord* record,
                                    const v1::JobEvent& event) {
  return database_.InTransaction([&]() -> absl::Status {
    EVENSTEP_RETURN_IF_ERROR(GoOnFromForgotten(&record->job));
    EVENSTEP_RETURN_IF_ERROR(InsertJob(record));
    return InsertEvent(record->job.job_id(), event);
  });
}

absl::Status SqliteJobStore::RecordMove(const JobRecord& record,
                                        const v1::JobEvent& event,
                                        const Progress& before) {
  return database_.InTransaction([&]() -> absl::Status {
    EVENSTEP_RETURN_IF_ERROR(WriteProgress(before));
    EVENSTEP_RETURN_IF_ERROR(UpdateJob(record));
    if (record.status.state == JobState::kStarting) {
      EVENSTEP_RETURN_IF_ERROR(InsertAttempt(record));
    }
    return InsertEvent(record.job.job_id(), event);
  });
}

absl::Status SqliteJobStore::InsertStep(const StoredStep& stored) {
  EVENSTEP_ASSIGN_OR_RETURN(
      Statement insert,
      database_.Prepare("INSERT OR REPLACE INTO steps VALUES (?,?,?)"));
  return insert.Bind(1, stored.job_id)
      .Bind(2, stored.step.step())
      .BindBlob(3, stored.step.SerializeAsString())
      .Run();
}

absl::Status SqliteJobStore::InsertLine(const StoredLogLine& stored) {
  EVENSTEP_ASSIGN_OR_RETURN(
      Statement insert,
      database_.Prepare("INSERT INTO log_lines VALUES (?,?,?)"));
  return insert.Bind(1, stored.job_id)
      .Bind(2, stored.line.sequence())
      .BindBlob(3, stored.line.SerializeAsString())
      .Run();
}

absl::Status SqliteJobStore::Trim(const Progress& progress) {
  std::map<std::string, int64_t> last_step, last_line;
  for (const StoredStep& stored : progress.steps) {
    last_step[stored.job_id] = stored.step.step();
  }
  for (const StoredLogLine& stored : progress.lines) {
    last_line[stored.job_id] = stored.line.sequence();
  }
  const auto trim = [&](absl::string_view sql, const auto& last,
                        int64_t limit) -> absl::Status {
    for (const auto& [job_id, newest] : last) {
      EVENSTEP_ASSIGN_OR_RETURN(Statement remove, database_.Prepare(sql));
      EVENSTEP_RETURN_IF_ERROR(
          remove.Bind(1, job_id).Bind(2, newest - limit).Run());
    }
    return absl::OkStatus();
  };
  EVENSTEP_RETURN_IF_ERROR(trim("DELETE FROM steps WHERE job_id=? AND step<=?",
                                last_step, limits_.steps_per_job));
  return trim("DELETE FROM log_lines WHERE job_id=? AND sequence<=?", last_line,
              limits_.log_lines_per_job);
}

absl::Status SqliteJobStore::WriteProgress(const Progress& progress) {
  for (const JobRecord& record : progress.jobs) {
    EVENSTEP_RETURN_IF_ERROR(UpdateJob(record));
  }
  for (const StoredStep& stored : progress.steps) {
    EVENSTEP_RETURN_IF_ERROR(InsertStep(stored));
  }
  for (const StoredLogLine& stored : progress.lines) {
    EVENSTEP_RETURN_IF_ERROR(InsertLine(stored));
  }
  return Trim(progress);
}

absl::Status SqliteJobStore::AppendProgress(const Progress& progress) {
  return database_.InTransaction([&] { return WriteProgress(progress); });
}

absl::Status SqliteJobStore::TrimForgotten() {
  EVENSTEP_ASSIGN_OR_RETURN(
      Statement remove,
      database_.Prepare("DELETE FROM forgotten WHERE place <= "
                        "(SELECT MAX(place) FROM forgotten) - ?"));
  return remove.Bind(1, limits_.forgotten_jobs).Run();
}

absl::Status SqliteJobStore::Remove(const std::string& job_id) {
  return database_.InTransaction([&]() -> absl::Status {
    // A job without attempts leaves what an earlier one of its id has left.
    for (const char* sql :
         {("INSERT OR REPLACE INTO forgotten (id, attempt, generation) "
           "SELECT job_id, MAX(attempt), MAX(generation) FROM attempts "
           "WHERE job_id=? GROUP BY job_id"),
          "DELETE FROM log_lines WHERE job_id=?",
          "DELETE FROM steps WHERE job_id=?",
          "DELETE FROM attempts WHERE job_id=?",
          "DELETE FROM events WHERE job_id=?", "DELETE FROM jobs WHERE id=?"}) {
      EVENSTEP_ASSIGN_OR_RETURN(Statement statement, database_.Prepare(sql));
      EVENSTEP_RETURN_IF_ERROR(statement.Bind(1, job_id).Run());
    }
    return TrimForgotten();
  });
}

absl::StatusOr<std::vector<JobRecord>> SqliteJobStore::LoadJobs() {
  EVENSTEP_ASSIGN_OR_RETURN(
      Statement select,
      database_.Prepare("SELECT arrival, state, after_stopping, last_event, "
                        "last_log, job FROM jobs ORDER BY arrival"));
  std::vector<JobRecord> records;
  while (true) {
    EVENSTEP_ASSIGN_OR_RETURN(const bool found, select.Step());
    if (!found) return records;
    JobRecord& record = records.emplace_back();
    record.arrival = select.Int(0);
    record.status.state = static_cast<JobState>(select.Int(1));
    record.status.after_stopping = static_cast<JobState>(select.Int(2));
    record.last_event = select.Int(3);
    record.last_log = select.Int(4);
    EVENSTEP_RETURN_IF_ERROR(Parse(select.Text(5), "job", &record.job));
  }
}

absl::StatusOr<std::vector<v1::JobEvent>> SqliteJobStore::ReadEvents(
    const std::string& job_id, int64_t after_sequence, int limit) {
  return ReadRows<v1::JobEvent>(
      database_,
      "SELECT event FROM events WHERE job_id=? AND sequence>? "
      "ORDER BY sequence LIMIT ?",
      job_id, after_sequence, limit);
}

absl::StatusOr<std::vector<v1::StepSummary>> SqliteJobStore::ReadSteps(
    const std::string& job_id, int64_t after_step, int limit) {
  return ReadRows<v1::StepSummary>(
      database_,
      "SELECT summary FROM steps WHERE job_id=? AND step>? "
      "ORDER BY step LIMIT ?",
      job_id, after_step, limit);
}

absl::StatusOr<LogPage> SqliteJobStore::ReadLog(const std::string& job_id,
                                                int64_t after_sequence,
                                                int limit) {
  LogPage page;
  EVENSTEP_ASSIGN_OR_RETURN(
      page.lines,
      ReadRows<v1::LogLine>(database_,
                            "SELECT line FROM log_lines WHERE job_id=? AND "
                            "sequence>? ORDER BY sequence LIMIT ?",
                            job_id, after_sequence, limit));
  if (!page.lines.empty()) {
    page.num_dropped = page.lines.front().sequence() - after_sequence - 1;
  }
  return page;
}

}  // namespace evenstep::coordinator
