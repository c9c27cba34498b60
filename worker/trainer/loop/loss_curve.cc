#include "worker/trainer/loop/loss_curve.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/atomic_file.h"
#include "nlohmann/json.hpp"

namespace evenstep::trainer {
namespace {

constexpr char kHeader[] =
    "step,loss,trained_tokens,step_seconds,tokens_per_second,learning_rate,"
    "gradient_norm,evaluation_loss\n";

double TokensPerSecond(const LossRow& row) {
  return row.step_seconds > 0 ? row.trained_tokens / row.step_seconds : 0;
}

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
  std::string line = absl::StrFormat("%d,%.17g,%d,%.6f,%.1f,%.9g,%.9g,",
                                     row.step, row.loss, row.trained_tokens,
                                     row.step_seconds, TokensPerSecond(row),
                                     row.learning_rate, row.gradient_norm);
  if (row.evaluation_loss.has_value()) {
    absl::StrAppendFormat(&line, "%.17g", *row.evaluation_loss);
  }
  line += '\n';
  rows_.push_back(row);
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

absl::Status LossCurve::WriteJson(const std::string& path) const {
  using Json = nlohmann::json;
  Json rows = Json::array();
  for (const LossRow& row : rows_) {
    rows.push_back({row.step, row.loss, row.trained_tokens, row.step_seconds,
                    TokensPerSecond(row), row.learning_rate, row.gradient_norm,
                    row.evaluation_loss.has_value() ? Json(*row.evaluation_loss)
                                                    : Json()});
  }
  const std::vector<std::string> columns =
      absl::StrSplit(absl::StripSuffix(kHeader, "\n"), ',');
  const Json json = {{"columns", columns}, {"rows", std::move(rows)}};
  return WriteFileAtomically(path, json.dump() + "\n");
}

absl::Status LossCurve::ErrorHere(const char* what) const {
  return absl::UnavailableError(
      absl::StrCat("cannot ", what, " ", path_, ": ", std::strerror(errno)));
}

}  // namespace evenstep::trainer
