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

// The same however it is written. Empty: none.
std::string CanonicalPath(const std::string& path) {
  if (path.empty()) return "";
  std::error_code error;
  const std::filesystem::path canonical =
      std::filesystem::canonical(path, error);
  if (!error) return canonical.string();
  return std::filesystem::absolute(path, error).lexically_normal().string();
}

// One file per source and tokenizer. `folder` is the data's, and empty where
// the index is beside the data.
std::string IndexFileName(absl::string_view folder, const FileList& list,
                          const DatasetOptions& options) {
  Fnv1a64 hash;
  hash.AddString(folder);
  hash.AddString(options.source.substr(0, options.source.find(':')));
  hash.AddString(list.pattern);
  hash.AddString(CanonicalPath(options.tokenizer));
  return absl::StrCat(kIndexFilePrefix,
                      absl::Hex(hash.value(), absl::kZeroPad16), ".bin");
}

// Files of the user's own that no version reads any more.
void RemoveEarlierIndexes(const std::string& folder) {
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end;
       !error && entry != end; entry.increment(error)) {
    const std::string path = entry->path().string();
    struct stat info;
    if (absl::StartsWith(entry->path().filename().string(), kIndexFilePrefix) &&
        lstat(path.c_str(), &info) == 0 && info.st_uid == geteuid() &&
        IsEarlierIndex(path)) {
      unlink(path.c_str());
    }
  }
}

int64_t TotalBytes(const FileList& list) {
  int64_t bytes = 0;
  for (const ListedFile& file : list.files) bytes += file.bytes;
  return bytes;
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

// A place for an index.
struct IndexPlace {
  std::string folder;
  std::string name;
  std::string path() const { return absl::StrCat(folder, "/", name); }
};

// An index is looked for, and made, in several places.
class Cache {
 public:
  Cache(const FileList& list, const DatasetOptions& options,
        uint64_t tokenizer_key)
      : options_(options),
        tokenizer_key_(tokenizer_key),
        listing_key_(ListingKey(list, tokenizer_key)),
        total_bytes_(TotalBytes(list)) {
    const std::string elsewhere =
        IndexFileName(CanonicalPath(list.root), list, options);
    if (!options.cache_dir.empty()) {
      sources_ = targets_ = {{options.cache_dir, elsewhere}};
      return;
    }
    sources_ = {{list.root, IndexFileName("", list, options)}};
    if (MayKeepIndexIn(list.root)) targets_ = sources_;
    const std::string home = HomeCacheFolder();
    if (home.empty()) return;
    sources_.push_back({home, elsewhere});
    targets_.push_back({home, elsewhere});
  }

  absl::StatusOr<LengthIndex> LoadOrBuild(const Scan& scan) const {
    std::optional<LengthIndex> found = Load(LogLevel::kWarning);
    if (found.has_value()) return *std::move(found);
    const std::string lock_path = PathForLock();
    if (lock_path.empty()) return Build(scan, nullptr);
    while (true) {
      IndexProgress waiting = {0, total_bytes_, /*waiting=*/true};
      const std::optional<IndexLock> lock = IndexLock::Try(lock_path, &waiting);
      // It may just have been made.
      found = Load(LogLevel::kDebug);
      if (found.has_value()) return *std::move(found);
      if (lock.has_value()) return Build(scan, &*lock);
      if (options_.progress) {
        EVENSTEP_RETURN_IF_ERROR(options_.progress(waiting));
      }
      absl::SleepFor(kWaitInterval);
    }
  }

 private:
  // Says at `level` what is there and cannot be used.
  std::optional<LengthIndex> Load(LogLevel level) const {
    for (const IndexPlace& place : sources_) {
      std::optional<LengthIndex> index = LoadFile(place.path(), level);
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

  // In the first place that can be written; empty: none.
  std::string PathForLock() const {
    for (const IndexPlace& place : targets_) {
      if (MakeFolders(place.folder).ok() &&
          faccessat(AT_FDCWD, place.folder.c_str(), W_OK, AT_EACCESS) == 0) {
        return absl::StrCat(place.path(), ".lock");
      }
    }
    return "";
  }

  // `lock` may be null.
  absl::StatusOr<LengthIndex> Build(const Scan& scan,
                                    const IndexLock* lock) const {
    IndexBuilder builder(tokenizer_key_, [&](const IndexProgress& progress) {
      if (lock != nullptr) lock->Tell(progress);
      return options_.progress ? options_.progress(progress) : absl::OkStatus();
    });
    EVENSTEP_RETURN_IF_ERROR(scan(builder));
    EVENSTEP_ASSIGN_OR_RETURN(std::string bytes,
                              std::move(builder).Finish(listing_key_));
    Store(bytes);
    return LengthIndex::FromBytes(std::move(bytes));
  }

  void Store(const std::string& bytes) const {
    absl::Status status = absl::NotFoundError("no folder for it");
    for (const IndexPlace& place : targets_) {
      status = MakeFolders(place.folder);
      if (status.ok()) status = WriteFileAtomically(place.path(), bytes);
      if (status.ok()) return RemoveEarlierIndexes(place.folder);
    }
    Log(LogLevel::kWarning, "length_index_not_cached", {{"reason", status}});
  }

  const DatasetOptions& options_;
  const uint64_t tokenizer_key_;
  const uint64_t listing_key_;
  const int64_t total_bytes_;
  std::vector<IndexPlace> sources_;  // where it may be, best first
  std::vector<IndexPlace> targets_;  // where it may be written
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
  EVENSTEP_ASSIGN_OR_RETURN(
      Selection selection,
      Selection::Make(std::move(index), options, source, list.left_out));
  LogIndexed(options, list.files.size(), selection.summary());
  return selection;
}

}  // namespace evenstep::data
