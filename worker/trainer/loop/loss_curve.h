#ifndef EVENSTEP_WORKER_TRAINER_LOOP_LOSS_CURVE_H_
#define EVENSTEP_WORKER_TRAINER_LOOP_LOSS_CURVE_H_

// The loss curve that a job leaves behind: a CSV file with a header and one
// line per committed step, readable while the job runs, and the same as JSON
// when it has ended. Rank 0 writes it. Not thread-safe.

#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace evenstep::trainer {

struct LossRow {
  int64_t step = 0;
  double loss = 0;  // mean over trained tokens
  int64_t trained_tokens = 0;
  double step_seconds = 0;  // gate exit to gate exit
  double learning_rate = 0;
  double gradient_norm = 0;
  // Of the evaluation that followed the step, if one did.
  std::optional<double> evaluation_loss = std::nullopt;
};

class LossCurve {
 public:
  // Replaces a file of an earlier attempt. UNAVAILABLE with the path.
  static absl::StatusOr<LossCurve> Create(const std::string& path);

  // The line is in the file when this returns. Losses keep all their digits.
  absl::Status Append(const LossRow& row);
  // Makes all lines durable.
  absl::Status Sync();
  // {"columns": [...], "rows": [[...], ...]} of all lines so far; null where
  // there was no evaluation. Whole or absent.
  absl::Status WriteJson(const std::string& path) const;

 private:
  struct CloseFile {
    void operator()(FILE* file) const { std::fclose(file); }
  };
  LossCurve(const std::string& path, FILE* file) : path_(path), file_(file) {}
  absl::Status ErrorHere(const char* what) const;

  std::string path_;
  std::unique_ptr<FILE, CloseFile> file_;
  std::vector<LossRow> rows_;
};

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_LOOP_LOSS_CURVE_H_
