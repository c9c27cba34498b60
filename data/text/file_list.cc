#include "data/text/file_list.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/atomic_file.h"

namespace evenstep::data {
namespace {

struct CloseFolder {
  void operator()(DIR* folder) const { closedir(folder); }
};
using OpenFolder = std::unique_ptr<DIR, CloseFolder>;

std::string JoinPath(absl::string_view folder, absl::string_view name) {
  if (folder.empty()) return std::string(name);
  return absl::StrCat(folder, absl::EndsWith(folder, "/") ? "" : "/", name);
}

bool IsPattern(absl::string_view text) {
  return text.find_first_of("*?[") != absl::string_view::npos;
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

// Length of the set with which the pattern begins, brackets included; 0: there
// is no end to it, and the bracket means itself.
size_t SetLength(absl::string_view pattern) {
  size_t first = 1;
  if (pattern.size() > 1 && pattern[1] == '!') ++first;
  // A bracket that comes first is a member.
  const size_t end = pattern.find(']', first + 1);
  return end == absl::string_view::npos ? 0 : end + 1;
}

bool IsInSet(absl::string_view members, char byte) {
  const auto value = static_cast<unsigned char>(byte);
  for (size_t i = 0; i < members.size(); ++i) {
    const auto low = static_cast<unsigned char>(members[i]);
    auto high = low;
    if (i + 2 < members.size() && members[i + 1] == '-') {
      high = static_cast<unsigned char>(members[i + 2]);
      i += 2;
    }
    if (low <= value && value <= high) return true;
  }
  return false;
}

// How much of the pattern matches one byte; 0: it does not.
size_t MatchOne(absl::string_view pattern, char byte) {
  if (pattern.empty()) return 0;
  if (pattern[0] == '[') {
    if (const size_t length = SetLength(pattern)) {
      absl::string_view members = pattern.substr(1, length - 2);
      const bool negated = absl::ConsumePrefix(&members, "!");
      return IsInSet(members, byte) != negated ? length : 0;
    }
  }
  return pattern[0] == '?' || pattern[0] == byte ? 1 : 0;
}

// Walks a folder with the parts of a pattern. A state is the number of parts
// already matched; a folder may be in several at once because of `**`.
class Walker {
 public:
  Walker(std::string root, std::vector<std::string> parts)
      : parts_(std::move(parts)) {
    list_.root = std::move(root);
  }

  FileList Walk() {
    pending_.push_back({"", Closure({0})});
    while (!pending_.empty()) {
      const Folder folder = std::move(pending_.back());
      pending_.pop_back();
      VisitFolder(folder);
    }
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

  bool IsMatch(const States& states) const {
    return std::find(states.begin(), states.end(), parts_.size()) !=
           states.end();
  }

  void AddUnreadableFolder(const Folder& folder, int error) {
    ListedFile file;
    file.name = folder.name.empty() ? "." : folder.name;
    file.problem = absl::StrCat("folder cannot be listed: ", strerror(error));
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
    errno = 0;
    while (const dirent* entry = readdir(open_folder.get())) {
      const absl::string_view name = entry->d_name;
      if (name == "." || name == ".." ||
          absl::StartsWith(name, kIndexFilePrefix)) {
        continue;
      }
      VisitEntry(folder, dirfd(open_folder.get()), entry->d_name);
      errno = 0;
    }
    if (errno != 0) AddUnreadableFolder(folder, errno);
  }

  void VisitEntry(const Folder& folder, int folder_fd, const char* entry) {
    States states = After(folder.states, entry);
    if (states.empty()) return;
    struct stat info;
    if (fstatat(folder_fd, entry, &info, AT_SYMLINK_NOFOLLOW) != 0) {
      if (errno == ENOENT) return;  // removed meanwhile
      std::memset(&info, 0, sizeof(info));
    }
    std::string name = JoinPath(folder.name, entry);
    if (S_ISDIR(info.st_mode)) {
      pending_.push_back({std::move(name), std::move(states)});
    } else if (!IsMatch(states)) {
      return;
    } else if (S_ISLNK(info.st_mode)) {
      ++list_.num_links;
    } else {
      list_.files.push_back(Describe(std::move(name), folder_fd, entry, info));
    }
  }

  const std::vector<std::string> parts_;
  std::vector<Folder> pending_;
  FileList list_;
};

// By value: gcc 12 warns wrongly (-Wrestrict) where a string takes a literal.
std::string RootOrHere(bool is_absolute) {
  return std::string(is_absolute ? "/" : ".");
}

absl::StatusOr<FileList> ListPattern(absl::string_view path) {
  std::vector<std::string> parts = absl::StrSplit(path, '/');
  const auto first = std::find_if(parts.begin(), parts.end(), IsPattern);
  std::string root = absl::StrJoin(parts.begin(), first, "/");
  if (root.empty()) root = RootOrHere(absl::StartsWith(path, "/"));
  struct stat info;
  if (stat(root.c_str(), &info) != 0) {
    return ErrnoStatus(errno, "no data:", root);
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
  list.files.push_back(Describe(parts.back(), AT_FDCWD, path.c_str(), info));
  return list;
}

}  // namespace

bool MatchesPart(absl::string_view pattern, absl::string_view name) {
  size_t p = 0;
  size_t n = 0;
  size_t star = absl::string_view::npos;  // where the last `*` stands
  size_t retry = 0;                       // where its match may end next
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      retry = n;
    } else if (const size_t length = MatchOne(pattern.substr(p), name[n])) {
      p += length;
      ++n;
    } else if (star != absl::string_view::npos) {
      p = star + 1;
      n = ++retry;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

absl::StatusOr<FileList> ListFiles(absl::string_view path) {
  if (path.empty() || absl::StrContains(path, absl::string_view("\0", 1))) {
    return absl::InvalidArgumentError("data path is empty or holds a NUL");
  }
  const std::string text(path);
  struct stat info;
  if (stat(text.c_str(), &info) != 0) {
    if (IsPattern(path)) return ListPattern(path);
    return ErrnoStatus(errno, "no data:", path);
  }
  if (S_ISDIR(info.st_mode)) return Walker(text, {"**", "*"}).Walk();
  return ListOneFile(text, info);
}

}  // namespace evenstep::data
