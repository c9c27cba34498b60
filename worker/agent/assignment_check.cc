#include "worker/agent/assignment_check.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/ids.h"
#include "base/status_macros.h"
#include "data/source_kind.h"

namespace evenstep::agent {
namespace {

std::string PathOf(absl::string_view source) {
  const size_t colon = source.find(':');
  return std::string(
      colon == absl::string_view::npos ? source : source.substr(colon + 1));
}

// The files or folders that a source stands for; none if it is made up.
std::vector<std::string> PathsOf(absl::string_view source) {
  const std::string path = PathOf(source);
  const data::SourceKind* const kind = data::FindSourceKind(source);
  if (kind != nullptr && !kind->is_path(path)) return {};
  if (kind != nullptr && kind->prefix == "megatron:") {
    return {path + ".idx", path + ".bin"};
  }
  return {path};
}

// The part of a path before the first wildcard's component: a glob stays below
// the folder that it begins with.
std::string BeforeWildcard(const std::string& path) {
  const size_t wildcard = path.find_first_of("*?[");
  if (wildcard == std::string::npos) return path;
  return path.substr(0, path.rfind('/', wildcard) + 1);
}

bool IsBelow(const std::filesystem::path& path,
             const std::filesystem::path& root) {
  const auto end =
      std::mismatch(root.begin(), root.end(), path.begin(), path.end());
  return end.first == root.end();
}

// All that a job reads from this node's disks, as "KIND:PATH".
std::vector<std::string> SourcesOf(const v1::JobSpec& spec) {
  std::vector<std::string> sources = {spec.data().source()};
  if (!spec.data().tokenizer().empty()) {
    sources.push_back("tokenizer:" + spec.data().tokenizer());
  }
  if (!spec.evaluation().source().empty()) {
    sources.push_back(spec.evaluation().source());
  }
  if (!spec.model().weights().empty()) {
    sources.push_back("weights:" + spec.model().weights());
  }
  return sources;
}

}  // namespace

absl::Status CheckDataPath(absl::string_view source,
                           const std::string& data_root) {
  for (const std::string& path : PathsOf(source)) {
    if (path.empty() || path[0] != '/') {
      return absl::InvalidArgumentError(
          absl::StrCat("data source '", source, "' has no absolute path"));
    }
    std::error_code error;
    const auto real =
        std::filesystem::weakly_canonical(BeforeWildcard(path), error);
    const auto root = std::filesystem::weakly_canonical(data_root, error);
    if (error || !IsBelow(real, root) ||
        path.find("/../") != std::string::npos) {
      return absl::PermissionDeniedError(
          absl::StrCat("data source '", source,
                       "' is not below this node's --data-root=", data_root));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckDataIsThere(absl::string_view source) {
  for (const std::string& path : PathsOf(source)) {
    const std::string begin = BeforeWildcard(path);
    std::error_code error;
    if (!std::filesystem::exists(path, error) &&
        !std::filesystem::exists(begin, error)) {
      return absl::NotFoundError(absl::StrCat(
          "data source '", source, "': there is no ", begin, " on this node"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckAssignment(const v1::Assignment& assignment,
                             const std::string& data_root) {
  const v1::AttemptId& id = assignment.attempt();
  if (!IsLegalJobId(id.job_id()) || id.attempt() < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("assignment of job '", id.job_id(), "', attempt ",
                     id.attempt(), ": not a legal id"));
  }
  const int first = assignment.first_rank();
  const int count = assignment.num_ranks();
  int next = 0;
  bool found = false;
  for (const v1::Placement& placement : assignment.placements()) {
    if (placement.first_rank() != next || placement.num_ranks() < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("assignment of ", id.job_id(), ": node ",
                       placement.node(), " has ranks from ",
                       placement.first_rank(), ", and ", next, " comes next"));
    }
    found = found || (first == next && count == placement.num_ranks());
    next += placement.num_ranks();
  }
  if (!found) {
    return absl::InvalidArgumentError(
        absl::StrCat("assignment of ", id.job_id(), ": no node has the ", count,
                     " ranks from ", first));
  }
  for (const std::string& source : SourcesOf(assignment.spec())) {
    EVENSTEP_RETURN_IF_ERROR(CheckDataPath(source, data_root));
    EVENSTEP_RETURN_IF_ERROR(CheckDataIsThere(source));
  }
  return absl::OkStatus();
}

}  // namespace evenstep::agent
