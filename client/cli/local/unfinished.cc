#include "client/cli/local/unfinished.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "base/atomic_file.h"
#include "base/text.h"
#include "data/safetensors.h"
#include "data/weights_file.h"
#include "nlohmann/json.hpp"

namespace evenstep::cli {
namespace {

namespace fs = std::filesystem;

// Rank 0's, or those of the rank that wrote in its place.
bool IsWeightsName(const std::string& name) {
  return name == data::kWeightsName || (absl::StartsWith(name, "model.") &&
                                        absl::EndsWith(name, ".safetensors"));
}

// Nothing: the file is not whole.
std::optional<int64_t> StepsOf(const std::string& path) {
  const auto header = data::ReadSafetensorsHeader(path);
  if (!header.ok()) return std::nullopt;
  int64_t steps = 0;
  const auto said = header->metadata.find("evenstep.steps");
  if (said != header->metadata.end()) {
    (void)absl::SimpleAtoi(said->second, &steps);
  }
  return steps;
}

// The word as a shell takes it.
std::string Quoted(const std::string& path) {
  const auto plain = [](char c) {
    return absl::ascii_isalnum(c) || absl::StrContains("/._-+=:@%,", c);
  };
  if (std::all_of(path.begin(), path.end(), plain)) return path;
  return absl::StrCat("'", absl::StrReplaceAll(path, {{"'", "'\\''"}}), "'");
}

}  // namespace

void FindWeights(const std::string& folder, client::Job* job) {
  std::error_code error;
  int64_t most = -1;
  for (fs::directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    const fs::directory_entry& entry = *at;
    const std::string name = entry.path().filename().string();
    if (!IsWeightsName(name)) continue;
    const std::optional<int64_t> steps = StepsOf(entry.path().string());
    if (!steps || *steps < most) continue;
    if (*steps == most && name != data::kWeightsName) continue;
    most = *steps;
    job->weights_path = entry.path().string();
    job->weights_steps = *steps;
    job->weights_note.clear();
  }
}

std::vector<UnfinishedWeights> FindUnfinished(const std::string& folder) {
  std::vector<UnfinishedWeights> found;
  const auto add = [&](const std::string& place) {
    client::Job job;
    FindWeights(place, &job);
    if (job.weights_steps == 0) return;
    found.push_back({job.weights_path, job.weights_steps});
  };
  add(folder);
  if (!found.empty() &&
      fs::path(found[0].path).filename().string() == data::kWeightsName) {
    found.clear();
  }
  std::error_code error;
  for (fs::directory_iterator at(fs::path(folder) / kUnfinishedName, error),
       end;
       !error && at != end; at.increment(error)) {
    add(at->path().string());
  }
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.path < b.path; });
  return found;
}

std::string DescribeUnfinished(const std::vector<UnfinishedWeights>& found) {
  return absl::StrJoin(
      found, "\n", [](std::string* text, const UnfinishedWeights& weights) {
        absl::StrAppend(text, "A run that did not end left weights after ",
                        Counted(weights.steps, "step"),
                        "; to use them: evenstep generate ",
                        Quoted(weights.path));
      });
}

namespace {

constexpr int64_t kMaxSummaryBytes = int64_t{1} << 30;

// The weights of the latest earlier run that has some.
std::string DescribePrevious(const std::string& folder) {
  std::string path;
  for (int number = 1;; ++number) {
    const fs::path previous =
        fs::path(folder) / absl::StrCat(kPreviousPrefix, number);
    std::error_code error;
    if (!fs::is_directory(previous, error)) break;
    if (fs::exists(previous / data::kWeightsName, error)) {
      path = previous.string();
    }
  }
  if (path.empty()) return "";
  return absl::StrCat("An earlier run left weights; to use them: evenstep ",
                      "generate ", Quoted(path));
}

// What summary.json says of weights that were not written.
std::string DescribeLastRun(const std::string& folder) {
  const auto text = ReadWholeFile(folder + "/summary.json", kMaxSummaryBytes);
  if (!text.ok()) return "";
  const auto summary =
      nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!summary.is_object() || !summary.contains("weights_note") ||
      !summary["weights_note"].is_string()) {
    return "";
  }
  const std::string note = summary["weights_note"].get<std::string>();
  if (note.empty()) return "";
  const auto files = summary.find("files");
  if (files != summary.end() && files->is_object() &&
      files->contains("weights") && (*files)["weights"].is_string()) {
    return absl::StrCat("The last run's weights are elsewhere: ", note);
  }
  return absl::StrCat("The last run left no weights: ", note);
}

}  // namespace

std::string DescribeNoWeights(const std::string& folder) {
  std::vector<std::string> lines = {DescribeLastRun(folder),
                                    DescribeUnfinished(FindUnfinished(folder)),
                                    DescribePrevious(folder)};
  lines.erase(std::remove(lines.begin(), lines.end(), ""), lines.end());
  return absl::StrJoin(lines, "\n");
}

std::string DescribeContinuation(const std::string& weights) {
  return absl::StrCat("--set ", Quoted("model.weights=" + weights));
}

}  // namespace evenstep::cli
