#include "worker/trainer/loop/loss_curve.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace evenstep::trainer {
namespace {

constexpr char kHeader[] =
    "step,loss,trained_tokens,step_seconds,tokens_per_second,learning_rate,"
    "gradient_norm\n";

}  // namespace

absl::StatusOr<LossCurve> LossCurve::Create(const std::string& path) {
  FILE* const file = std::fopen(path.c_str(), "we");
  if (file == nullptr) {
    return absl::UnavailableError(
        absl::StrCat("cannot create ", path, ": ", std::strerror(errno)));
  }
  LossCurve curve(path, file);
  if (std::fputs(kHeader, file) < 0 || std::fflush(file) != 0) {
    return curve.ErrorHere("write");
  }
  return curve;
}

absl::Status LossCurve::Append(const LossRow& row) {
  const double tokens_per_second =
      row.step_seconds > 0 ? row.trained_tokens / row.step_seconds : 0;
  const std::string line =
      absl::StrFormat("%d,%.17g,%d,%.6f,%.1f,%.9g,%.9g\n", row.step, row.loss,
                      row.trained_tokens, row.step_seconds, tokens_per_second,
                      row.learning_rate, row.gradient_norm);
  if (std::fputs(line.c_str(), file_.get()) < 0 ||
      std::fflush(file_.get()) != 0) {
    return ErrorHere("write");
  }
  return absl::OkStatus();
}

absl::Status LossCurve::Sync() {
  if (::fsync(::fileno(file_.get())) != 0) return ErrorHere("fsync");
  return absl::OkStatus();
}

absl::Status LossCurve::ErrorHere(const char* what) const {
  return absl::UnavailableError(
      absl::StrCat("cannot ", what, " ", path_, ": ", std::strerror(errno)));
}

}  // namespace evenstep::trainer
