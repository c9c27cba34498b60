#include "data/text/file_list.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/atomic_file.h"
#include "data/text/folder_rules.h"

namespace evenstep::data {
namespace {

namespace fs = std::filesystem;

struct CloseFolder {
  void operator()(DIR* folder) const { closedir(folder); }
};
using OpenFolder = std::unique_ptr<DIR, CloseFolder>;

std::string JoinPath(absl::string_view folder, absl::string_view name) {
  if (folder.empty()) return std::string(name);
  return absl::StrCat(folder, absl::EndsWith(folder, "/") ? "" : "/", name);
}

int64_t MtimeNs(const struct stat& info) {
  return int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec;
}

ListedFile Describe(std::string name, int folder_fd, const char* entry,
                    const struct stat& info) {
  ListedFile file;
  file.name = std::move(name);
  file.bytes = info.st_size;
  file.mtime_ns = MtimeNs(info);
  if (!S_ISREG(info.st_mode)) {
    file.bytes = 0;
    file.problem = "not a regular file";
  } else if (faccessat(folder_fd, entry, R_OK, AT_EACCESS) != 0) {
    file.problem = strerror(errno);
  }
  return file;
}

// Where links below `root` may lead: its own tree, and, of a snapshot in the
// Hugging Face cache, the blobs of its repository. Canonical.
std::vector<std::string> LinkTargets(const std::string& root) {
  std::error_code error;
  const fs::path canonical = fs::canonical(root, error);
  if (error) return {};
  std::vector<std::string> folders = {canonical.string()};
  for (fs::path at = canonical; at.has_relative_path(); at = at.parent_path()) {
    if (at.filename() != "snapshots") continue;
    folders.push_back((at.parent_path() / "blobs").string());
    break;
  }
  return folders;
}

bool IsBelow(absl::string_view path, absl::string_view folder) {
  return absl::ConsumePrefix(&path, folder) &&
         (absl::EndsWith(folder, "/") || absl::StartsWith(path, "/"));
}

// Walks a folder with the parts of a pattern. A state is the number of parts
// already matched; a folder may be in several at once because of `**`.
class Walker {
 public:
  Walker(std::string root, std::vector<std::string> parts)
      : parts_(std::move(parts)) {
    list_.root = std::move(root);
    list_.pattern = absl::StrJoin(parts_, "/");
  }

  FileList Walk() {
    pending_.push_back({"", Closure({0})});
    while (!pending_.empty()) {
      const Folder folder = std::move(pending_.back());
      pending_.pop_back();
      VisitFolder(folder);
    }
    TakeLinks();
    std::sort(list_.files.begin(), list_.files.end(),
              [](const ListedFile& a, const ListedFile& b) {
                return a.name < b.name;
              });
    return std::move(list_);
  }

 private:
  using States = std::vector<size_t>;
  struct Folder {
    std::string name;  // relative
    States states;
    bool is_named = false;  // by a part of the pattern, without wildcards
  };

  // Adds the states that `**` reaches by matching no folder.
  States Closure(States states) const {
    for (size_t i = 0; i < states.size(); ++i) {
      const size_t next = states[i] + 1;
      if (states[i] < parts_.size() && parts_[states[i]] == "**" &&
          std::find(states.begin(), states.end(), next) == states.end()) {
        states.push_back(next);
      }
    }
    return states;
  }

  States After(const States& states, absl::string_view name) const {
    States next;
    for (const size_t state : states) {
      if (state == parts_.size()) continue;
      if (parts_[state] == "**") {
        next.push_back(state);
      } else if (MatchesPart(parts_[state], name)) {
        next.push_back(state + 1);
      }
    }
    return Closure(std::move(next));
  }

  // Of the states that an entry leads to from `states`, those whose part of the
  // pattern names what is left out otherwise.
  States AfterNamed(const States& states, absl::string_view name) const {
    States naming;
    for (const size_t state : states) {
      if (state == parts_.size()) continue;
      const std::string& part = parts_[state];
      if (part == name || (name[0] == '.' && part[0] == '.') ||
          (IsBackupName(name) && IsBackupName(part))) {
        naming.push_back(state);
      }
    }
    return After(naming, name);
  }

  bool IsMatch(const States& states) const {
    return std::find(states.begin(), states.end(), parts_.size()) !=
           states.end();
  }

  void AddUnreadableFolder(const Folder& folder, int error) {
    ListedFile file;
    file.name = folder.name.empty() ? "." : folder.name;
    file.problem = absl::StrCat(kUnlistedFolder, ": ", strerror(error));
    list_.files.push_back(std::move(file));
  }

  void VisitFolder(const Folder& folder) {
    const std::string path = JoinPath(list_.root, folder.name);
    // The root may be a link; folders below it are entered by their entries.
    const int no_follow = folder.name.empty() ? 0 : O_NOFOLLOW;
    const int fd =
        open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | no_follow);
    if (fd < 0) return AddUnreadableFolder(folder, errno);
    const OpenFolder open_folder(fdopendir(fd));
    if (open_folder == nullptr) {
      AddUnreadableFolder(folder, errno);
      close(fd);
      return;
    }
    std::vector<std::string> names;
    errno = 0;
    while (const dirent* entry = readdir(open_folder.get())) {
      const absl::string_view name = entry->d_name;
      if (name != "." && name != "..") names.emplace_back(name);
      errno = 0;
    }
    if (errno != 0) AddUnreadableFolder(folder, errno);
    const FolderRules rules(path, names);
    if (rules.IsToolFolder() && !folder.name.empty() && !folder.is_named) {
      ++list_.left_out.tools;
      return;
    }
    for (const std::string& name : names) {
      VisitEntry(folder, dirfd(open_folder.get()), name.c_str(),
                 rules.Judge(name));
    }
  }

  void VisitEntry(const Folder& folder, int folder_fd, const char* entry,
                  EntryRule rule) {
    if (rule == EntryRule::kBookkeeping) return;
    States states = After(folder.states, entry);
    if (states.empty()) return;
    struct stat info;
    if (fstatat(folder_fd, entry, &info, AT_SYMLINK_NOFOLLOW) != 0) {
      if (errno == ENOENT) return;  // removed meanwhile
      std::memset(&info, 0, sizeof(info));
    }
    if (!S_ISDIR(info.st_mode) && !IsMatch(states)) return;
    std::string name = JoinPath(folder.name, entry);
    States named = AfterNamed(folder.states, entry);
    const bool is_named = !named.empty();
    if (rule != EntryRule::kData) {
      if (!is_named) return LeaveOut(std::move(name), rule);
      states = std::move(named);
    }
    if (S_ISDIR(info.st_mode)) {
      pending_.push_back({std::move(name), std::move(states), is_named});
    } else if (!IsMatch(states)) {
      return;
    } else if (S_ISLNK(info.st_mode)) {
      links_.push_back(std::move(name));
    } else {
      listed_.insert({info.st_dev, info.st_ino});
      list_.files.push_back(Describe(std::move(name), folder_fd, entry, info));
    }
  }

  void LeaveOut(std::string name, EntryRule rule) {
    if (rule == EntryRule::kHidden) ++list_.left_out.hidden;
    if (rule == EntryRule::kTools) ++list_.left_out.tools;
    if (rule != EntryRule::kOwn) return;
    ++list_.left_out.own;
    own_.push_back(std::move(name));
  }

  // After all else is known, so that a file is listed under its own name where
  // it has one below the root.
  void TakeLinks() {
    if (links_.empty()) return;
    std::sort(links_.begin(), links_.end());
    const std::vector<std::string> folders = LinkTargets(list_.root);
    for (std::string& name : links_) {
      if (!TakeLink(name, folders)) ++list_.left_out.links;
    }
  }

  bool TakeLink(const std::string& name,
                const std::vector<std::string>& folders) {
    std::error_code error;
    const std::string target =
        fs::canonical(JoinPath(list_.root, name), error).string();
    struct stat info;
    if (error || lstat(target.c_str(), &info) != 0 || !S_ISREG(info.st_mode) ||
        std::none_of(folders.begin(), folders.end(),
                     [&](const std::string& folder) {
                       return IsBelow(target, folder);
                     }) ||
        IsOwn(target, folders[0]) ||
        !listed_.insert({info.st_dev, info.st_ino}).second) {
      return false;
    }
    list_.files.push_back(Describe(name, AT_FDCWD, target.c_str(), info));
    return true;
  }

  // Whether a link's target is a result that was left out, or is within one.
  bool IsOwn(absl::string_view target, const std::string& root) const {
    if (!absl::ConsumePrefix(&target, JoinPath(root, ""))) return false;
    return std::any_of(own_.begin(), own_.end(), [&](const std::string& name) {
      return target == name || IsBelow(target, name);
    });
  }

  const std::vector<std::string> parts_;
  std::vector<Folder> pending_;
  std::vector<std::string> links_;  // that match
  std::vector<std::string> own_;    // left out
  std::set<std::pair<dev_t, ino_t>> listed_;
  FileList list_;
};

// By value: gcc 12 warns wrongly (-Wrestrict) where a string takes a literal.
std::string RootOrHere(bool is_absolute) {
  return std::string(is_absolute ? "/" : ".");
}

// NOT_FOUND with what to write for a `~` that no shell has expanded.
absl::Status NoPath(int error, absl::string_view path) {
  absl::Status none = ErrnoStatus(error, "no data:", path);
  const size_t tilde = path.find("~/");
  const bool is_part = tilde == 0 || (tilde != absl::string_view::npos &&
                                      path[tilde - 1] == '/');
  if (!is_part) return none;
  const char* const home = getenv("HOME");
  return absl::Status(
      none.code(),
      absl::StrCat(none.message(), "; ~ is not expanded here: write ",
                   home == nullptr ? "HOME" : home, path.substr(tilde + 1)));
}

absl::StatusOr<FileList> ListPattern(absl::string_view path) {
  std::vector<std::string> parts = absl::StrSplit(path, '/');
  const auto first = std::find_if(parts.begin(), parts.end(), IsPattern);
  std::string root = absl::StrJoin(parts.begin(), first, "/");
  if (root.empty()) root = RootOrHere(absl::StartsWith(path, "/"));
  struct stat info;
  if (stat(root.c_str(), &info) != 0) {
    return NoPath(errno, root);
  }
  std::vector<std::string> pattern;
  for (auto part = first; part != parts.end(); ++part) {
    if (!part->empty()) pattern.push_back(std::move(*part));
  }
  return Walker(std::move(root), std::move(pattern)).Walk();
}

FileList ListOneFile(const std::string& path, const struct stat& info) {
  const std::vector<std::string> parts = absl::StrSplit(path, '/');
  FileList list;
  list.root = absl::StrJoin(parts.begin(), parts.end() - 1, "/");
  if (list.root.empty()) list.root = RootOrHere(parts.size() > 1);
  list.pattern = parts.back();
  list.is_one_file = true;
  list.files.push_back(Describe(parts.back(), AT_FDCWD, path.c_str(), info));
  return list;
}

}  // namespace

absl::StatusOr<FileList> ListFiles(absl::string_view path) {
  if (path.empty() || absl::StrContains(path, absl::string_view("\0", 1))) {
    return absl::InvalidArgumentError("data path is empty or holds a NUL");
  }
  const std::string text(path);
  struct stat info;
  if (stat(text.c_str(), &info) != 0) {
    if (IsPattern(path)) return ListPattern(path);
    return NoPath(errno, path);
  }
  if (S_ISDIR(info.st_mode)) return Walker(text, {"**", "*"}).Walk();
  return ListOneFile(text, info);
}

}  // namespace evenstep::data
