#include "data/index/index_cache.h"

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/atomic_file.h"
#include "base/fnv1a.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "data/sample_rules.h"

namespace evenstep::data {
namespace {

// One file per source and settings, so that jobs do not undo each other's.
std::string CacheFileName(const FileList& list, const DatasetOptions& options) {
  std::error_code ignored;
  const std::filesystem::path root =
      std::filesystem::absolute(list.root, ignored).lexically_normal();
  Fnv1a64 hash;
  hash.AddString(root.string());
  hash.AddString(options.source);
  hash.AddString(options.tokenizer);
  hash.AddInt(options.max_length);
  hash.AddInt(static_cast<int64_t>(options.on_too_long));
  hash.AddInt(static_cast<int64_t>(options.on_bad_sample));
  return absl::StrCat(kIndexFilePrefix,
                      absl::Hex(hash.value(), absl::kZeroPad16), ".bin");
}

std::string HomeCacheFolder() {
  const char* const xdg = std::getenv("XDG_CACHE_HOME");
  if (xdg != nullptr && xdg[0] == '/') return absl::StrCat(xdg, "/evenstep");
  const char* const home = std::getenv("HOME");
  if (home != nullptr && home[0] == '/') {
    return absl::StrCat(home, "/.cache/evenstep");
  }
  return "";
}

// Where the index may stand, best first.
std::vector<std::string> CacheFolders(const FileList& list,
                                      const DatasetOptions& options) {
  if (!options.cache_dir.empty()) return {options.cache_dir};
  std::vector<std::string> folders = {list.root};
  const std::string home = HomeCacheFolder();
  if (!home.empty()) folders.push_back(home);
  return folders;
}

std::optional<LengthIndex> Load(const std::string& path, uint64_t listing_key) {
  absl::StatusOr<LengthIndex> index = LengthIndex::Map(path);
  if (!index.ok()) {
    if (!absl::IsNotFound(index.status())) {
      Log(LogLevel::kWarning, "length_index_refused",
          {{"path", path}, {"reason", index.status()}});
    }
    return std::nullopt;
  }
  // Other files or settings are no fault; the index is just made again.
  if (index->header().listing_key != listing_key) return std::nullopt;
  return *std::move(index);
}

void Store(const std::vector<std::string>& folders, const std::string& name,
           const std::string& bytes) {
  absl::Status status = absl::NotFoundError("no folder for it");
  for (size_t i = 0; i < folders.size(); ++i) {
    // The folder of the data exists; the others are ours to make.
    const std::string path = absl::StrCat(folders[i], "/", name);
    status = MakeFolders(folders[i]);
    if (status.ok()) status = WriteFileAtomically(path, bytes);
    if (status.ok()) return;
  }
  Log(LogLevel::kWarning, "length_index_not_cached", {{"reason", status}});
}

absl::StatusOr<LengthIndex> Build(
    const FileList& list, const DatasetOptions& options, uint64_t tokenizer_key,
    const std::function<absl::Status(IndexBuilder&)>& scan) {
  const std::string name = CacheFileName(list, options);
  const std::vector<std::string> folders = CacheFolders(list, options);
  const uint64_t listing_key = ListingKey(list, options, tokenizer_key);
  for (const std::string& folder : folders) {
    std::optional<LengthIndex> cached =
        Load(absl::StrCat(folder, "/", name), listing_key);
    if (cached.has_value()) return *std::move(cached);
  }
  IndexBuilder builder(options, tokenizer_key);
  EVENSTEP_RETURN_IF_ERROR(scan(builder));
  EVENSTEP_ASSIGN_OR_RETURN(std::string bytes,
                            std::move(builder).Finish(listing_key));
  Store(folders, name, bytes);
  return LengthIndex::FromBytes(std::move(bytes));
}

}  // namespace

absl::StatusOr<LengthIndex> LoadOrBuildIndex(
    const FileList& list, const DatasetOptions& options, uint64_t tokenizer_key,
    const std::function<absl::Status(IndexBuilder&)>& scan) {
  absl::StatusOr<LengthIndex> index = Build(list, options, tokenizer_key, scan);
  if (index.ok()) {
    LogIndexed(options, list.files.size(), list.num_links, index->summary(),
               absl::StrSplit(index->notes(), '\n', absl::SkipEmpty()));
  }
  return index;
}

}  // namespace evenstep::data
