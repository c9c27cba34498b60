#include "data/weights_file.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"

namespace evenstep::data {
namespace {

constexpr absl::string_view kSuffix = ".safetensors";
constexpr char kAsOne[] =
    "save them as one, as save_pretrained(FOLDER, max_shard_size=\"1TB\") does";

absl::Status Several(absl::string_view index) {
  return absl::FailedPreconditionError(
      absl::StrCat(index, ": the weights are in several files; ", kAsOne));
}

// "model-00001-of-00002.safetensors": a part of what Hugging Face has split.
absl::Status CheckNoShard(const std::string& path) {
  if (absl::EndsWith(path, ".safetensors.index.json")) return Several(path);
  const std::string file = std::filesystem::path(path).filename().string();
  absl::string_view name = file;
  const size_t of = name.rfind("-of-");
  if (of == absl::string_view::npos || !absl::ConsumeSuffix(&name, kSuffix)) {
    return absl::OkStatus();
  }
  const size_t dash = name.substr(0, of).rfind('-');
  int part = 0;
  int parts = 0;
  if (dash == absl::string_view::npos ||
      !absl::SimpleAtoi(name.substr(dash + 1, of - dash - 1), &part) ||
      !absl::SimpleAtoi(name.substr(of + 4), &parts) || parts < 2) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat(path, ": it is part ", part, " of the ", parts,
                   " files of these weights; ", kAsOne));
}

// What the folder has instead of a model.safetensors.
absl::Status NoWeightsIn(const std::string& folder) {
  std::vector<std::string> others;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end;
       !error && it != end; it.increment(error)) {
    // Evenstep's own, such as an index, is hidden.
    if (absl::StartsWith(it->path().filename().string(), ".")) continue;
    const std::string extension = it->path().extension();
    for (const char* const known : {".safetensors", ".bin", ".pt", ".pth",
                                    ".ckpt", ".gguf", ".msgpack", ".h5"}) {
      if (extension == known) others.push_back(it->path().filename().string());
    }
  }
  std::sort(others.begin(), others.end());
  if (others.empty()) {
    return absl::NotFoundError(absl::StrCat(folder, ": there is no ",
                                            kWeightsName, " in this folder"));
  }
  const bool named = absl::EndsWith(others.front(), ".safetensors");
  return absl::NotFoundError(absl::StrCat(
      folder, ": there is no ", kWeightsName, " in this folder but ",
      others.front(),
      named ? "; name that file if it is meant"
            : "; weights are read from safetensors alone, as "
              "save_pretrained(FOLDER, safe_serialization=True) writes them"));
}

}  // namespace

absl::StatusOr<std::string> SafetensorsFileOf(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) {
    EVENSTEP_RETURN_IF_ERROR(CheckNoShard(path));
    return path;
  }
  std::string file = absl::StrCat(path, "/", kWeightsName);
  if (std::filesystem::exists(file, error)) return file;
  const std::string index = absl::StrCat(file, ".index.json");
  if (std::filesystem::exists(index, error)) return Several(index);
  return NoWeightsIn(path);
}

}  // namespace evenstep::data
