#include "data/index/index_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/atomic_file.h"
#include "base/fnv1a.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "data/index/index_lock.h"
#include "data/sample_rules.h"

namespace evenstep::data {
namespace {

// Between two looks at whether another process is done.
constexpr absl::Duration kWaitInterval = absl::Milliseconds(50);

using Scan = std::function<absl::Status(IndexBuilder&)>;

// One file per source and tokenizer.
std::string CacheFileName(const FileList& list, const DatasetOptions& options) {
  std::error_code ignored;
  const std::filesystem::path root =
      std::filesystem::absolute(list.root, ignored).lexically_normal();
  Fnv1a64 hash;
  hash.AddString(root.string());
  hash.AddString(options.source);
  hash.AddString(options.tokenizer);
  return absl::StrCat(kIndexFilePrefix,
                      absl::Hex(hash.value(), absl::kZeroPad16), ".bin");
}

std::string HomeCacheFolder() {
  const char* const xdg = std::getenv("XDG_CACHE_HOME");
  if (xdg != nullptr && xdg[0] == '/') {
    return absl::StrCat(xdg, "/evenstep/index");
  }
  const char* const home = std::getenv("HOME");
  if (home != nullptr && home[0] == '/') {
    return absl::StrCat(home, "/.cache/evenstep/index");
  }
  return "";
}

// An index is looked for, and made, under one name in several folders.
class Cache {
 public:
  Cache(const FileList& list, const DatasetOptions& options,
        uint64_t tokenizer_key)
      : options_(options),
        tokenizer_key_(tokenizer_key),
        listing_key_(ListingKey(list, tokenizer_key)),
        name_(CacheFileName(list, options)) {
    const std::string home = HomeCacheFolder();
    if (!options.cache_dir.empty()) {
      sources_ = targets_ = {options.cache_dir};
      return;
    }
    sources_ = {list.root};
    if (MayKeepIndexIn(list.root)) targets_.push_back(list.root);
    if (home.empty()) return;
    sources_.push_back(home);
    targets_.push_back(home);
  }

  absl::StatusOr<LengthIndex> LoadOrBuild(const Scan& scan) const {
    std::optional<LengthIndex> found = Load(LogLevel::kWarning);
    if (found.has_value()) return *std::move(found);
    const std::string folder = FolderForLock();
    if (folder.empty()) return Build(scan);
    const std::string lock_path = absl::StrCat(folder, "/", name_, ".lock");
    while (true) {
      const std::optional<IndexLock> lock = IndexLock::Try(lock_path);
      // It may just have been made.
      found = Load(LogLevel::kDebug);
      if (found.has_value()) return *std::move(found);
      if (lock.has_value()) return Build(scan);
      IndexProgress waiting;
      waiting.waiting = true;
      if (options_.progress) {
        EVENSTEP_RETURN_IF_ERROR(options_.progress(waiting));
      }
      absl::SleepFor(kWaitInterval);
    }
  }

 private:
  // Says at `level` what is there and cannot be used.
  std::optional<LengthIndex> Load(LogLevel level) const {
    for (const std::string& folder : sources_) {
      std::optional<LengthIndex> index =
          LoadFile(absl::StrCat(folder, "/", name_), level);
      if (index.has_value()) return index;
    }
    return std::nullopt;
  }

  std::optional<LengthIndex> LoadFile(const std::string& path,
                                      LogLevel level) const {
    absl::StatusOr<LengthIndex> index = LengthIndex::Read(path);
    if (!index.ok()) {
      if (absl::IsDataLoss(index.status())) {
        Log(level, "length_index_refused",
            {{"path", path}, {"reason", index.status()}});
      }
      return std::nullopt;
    }
    // Other files are no fault; the index is just made again.
    if (index->header().listing_key != listing_key_) return std::nullopt;
    return *std::move(index);
  }

  // The first that can be written; empty: none.
  std::string FolderForLock() const {
    for (const std::string& folder : targets_) {
      if (MakeFolders(folder).ok() &&
          faccessat(AT_FDCWD, folder.c_str(), W_OK, AT_EACCESS) == 0) {
        return folder;
      }
    }
    return "";
  }

  absl::StatusOr<LengthIndex> Build(const Scan& scan) const {
    IndexBuilder builder(tokenizer_key_, options_.progress);
    EVENSTEP_RETURN_IF_ERROR(scan(builder));
    EVENSTEP_ASSIGN_OR_RETURN(std::string bytes,
                              std::move(builder).Finish(listing_key_));
    Store(bytes);
    return LengthIndex::FromBytes(std::move(bytes));
  }

  void Store(const std::string& bytes) const {
    absl::Status status = absl::NotFoundError("no folder for it");
    for (const std::string& folder : targets_) {
      status = MakeFolders(folder);
      if (status.ok()) {
        status = WriteFileAtomically(absl::StrCat(folder, "/", name_), bytes);
      }
      if (status.ok()) return;
    }
    Log(LogLevel::kWarning, "length_index_not_cached", {{"reason", status}});
  }

  const DatasetOptions& options_;
  const uint64_t tokenizer_key_;
  const uint64_t listing_key_;
  const std::string name_;
  std::vector<std::string> sources_;  // where it may be, best first
  std::vector<std::string> targets_;  // where it may be written
};

}  // namespace

bool MayKeepIndexIn(const std::string& folder) {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::canonical(folder, error);
  if (error) return false;
  const std::filesystem::path below_root = path.relative_path();
  if (below_root.empty()) return false;
  const std::string first = below_root.begin()->string();
  if (std::find(std::begin(kSystemFolders), std::end(kSystemFolders), first) !=
      std::end(kSystemFolders)) {
    return false;
  }
  struct stat info;
  return stat(path.c_str(), &info) == 0 && info.st_uid == geteuid();
}

absl::StatusOr<Selection> OpenSelection(const FileList& list,
                                        const DatasetOptions& options,
                                        uint64_t tokenizer_key,
                                        const Scan& scan,
                                        const Selection::Source& source) {
  EVENSTEP_ASSIGN_OR_RETURN(
      LengthIndex index, Cache(list, options, tokenizer_key).LoadOrBuild(scan));
  EVENSTEP_ASSIGN_OR_RETURN(Selection selection,
                            Selection::Make(std::move(index), options, source));
  selection.SetLeftOut(list.left_out);
  LogIndexed(options, list.files.size(), list.left_out, selection.summary(),
             selection.notes());
  return selection;
}

}  // namespace evenstep::data
