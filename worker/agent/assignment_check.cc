#include "worker/agent/assignment_check.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "data/source_kind.h"
#include "jobspec/input_check.h"
#include "wire/job_spec_proto.h"
#include "wire/message_bounds.h"

namespace evenstep::agent {
namespace {

std::string PathOf(absl::string_view source) {
  const size_t colon = source.find(':');
  return std::string(
      colon == absl::string_view::npos ? source : source.substr(colon + 1));
}

// What a source stands for on this node's disks.
struct SourcePaths {
  std::vector<std::string> paths;  // none: it is made up
  bool may_be_pattern = false;     // as data/text/file_list.h has them
  bool may_link = false;           // a folder whose entries are followed
};

SourcePaths PathsOf(absl::string_view source) {
  const std::string path = PathOf(source);
  const data::SourceKind* const kind = data::FindSourceKind(source);
  if (kind == nullptr) return {.paths = {path}, .may_link = true};
  if (!kind->is_path(path)) return {};
  if (kind->prefix == "megatron:") return {{path + ".idx", path + ".bin"}};
  const bool lists = kind->prefix == "text:" || kind->prefix == "latents:";
  return {.paths = {path}, .may_be_pattern = lists};
}

// The part of a path that may be read as it stands: data that exist literally
// are no pattern. At least what comes before the first component with a
// wildcard, and further components as far as they exist.
std::string LiteralPart(const std::string& path, bool may_be_pattern) {
  const size_t wildcard = path.find_first_of("*?[");
  if (!may_be_pattern || wildcard == std::string::npos) return path;
  std::error_code error;
  for (size_t end = path.size(); end != std::string::npos && end > wildcard;
       end = path.rfind('/', end - 1)) {
    std::string prefix = path.substr(0, end);
    const auto found = std::filesystem::symlink_status(prefix, error);
    if (std::filesystem::exists(found)) return prefix;
  }
  return path.substr(0, path.rfind('/', wildcard) + 1);
}

bool IsBelow(const std::filesystem::path& path,
             const std::filesystem::path& root) {
  const auto end =
      std::mismatch(root.begin(), root.end(), path.begin(), path.end());
  return end.first == root.end();
}

// A link to nothing can become one to anything.
bool HasDanglingLink(const std::filesystem::path& canonical) {
  std::filesystem::path prefix;
  std::error_code error;
  return std::any_of(canonical.begin(), canonical.end(), [&](const auto& part) {
    prefix /= part;
    return std::filesystem::is_symlink(
        std::filesystem::symlink_status(prefix, error));
  });
}

bool StaysBelow(const std::filesystem::path& path,
                const std::filesystem::path& root) {
  std::error_code error;
  const auto real = std::filesystem::weakly_canonical(path, error);
  return !error && IsBelow(real, root) && !HasDanglingLink(real);
}

bool HasDotDot(const std::filesystem::path& path) {
  return std::find(path.begin(), path.end(), "..") != path.end();
}

// Whether what the folder's own entries link to is below the root: of weights,
// a snapshot's files are links.
bool LinksStayBelow(const std::string& folder,
                    const std::filesystem::path& root) {
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) return true;
  for (std::filesystem::directory_iterator entry(folder, error), end;
       !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    if (entry->is_symlink(ignored) && !StaysBelow(entry->path(), root)) {
      return false;
    }
  }
  return !error;
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
  const SourcePaths source_paths = PathsOf(source);
  std::error_code error;
  const auto root = std::filesystem::weakly_canonical(data_root, error);
  for (const std::string& path : source_paths.paths) {
    if (path.empty() || path[0] != '/') {
      return absl::InvalidArgumentError(
          absl::StrCat("data source '", source, "' has no absolute path"));
    }
    const std::string literal = LiteralPart(path, source_paths.may_be_pattern);
    if (error || HasDotDot(path) || !StaysBelow(literal, root) ||
        (source_paths.may_link && !LinksStayBelow(path, root))) {
      return absl::PermissionDeniedError(absl::StrCat(
          "data source '", source, "' is not below this node's --data-root=",
          data_root, ", links followed"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckDataIsThere(absl::string_view source) {
  const SourcePaths source_paths = PathsOf(source);
  for (const std::string& path : source_paths.paths) {
    const std::string literal = LiteralPart(path, source_paths.may_be_pattern);
    std::error_code error;
    if (!std::filesystem::exists(literal, error)) {
      return absl::NotFoundError(absl::StrCat("data source '", source,
                                              "': there is no ", literal,
                                              " on this node"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckAssignedInputs(const v1::Assignment& assignment) {
  const auto spec = wire::FromProto(assignment.spec());
  if (!spec.ok()) return absl::OkStatus();
  return jobspec::CheckInputs(
      *spec, {jobspec::InputDepth::kHeaders, jobspec::InputPlace::kMustBeHere});
}

absl::Status CheckAssignment(const v1::Assignment& assignment,
                             const std::string& data_root) {
  const v1::AttemptId& id = assignment.attempt();
  if (!wire::IsLegalJobId(id.job_id()) || id.attempt() < 1) {
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
