#include "data/text/sentencepiece_model.h"

#include <dlfcn.h>

#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "data/text/sentencepiece_plugin.h"

namespace evenstep::data {
namespace {

using Functions = const EvenstepSentencePiece*;

constexpr char kPlugin[] = "libevenstep_sentencepiece.so";
constexpr size_t kErrorBytes = 512;

// The plugin and SentencePiece look for symbols in themselves first, or they
// would find our newer protobuf. Sanitizers refuse this; there it is left out,
// and only tests without protobuf tokenize.
int LoadFlags() {
  int flags = RTLD_NOW | RTLD_LOCAL;
#if defined(__has_feature)
#define EVENSTEP_HAS_FEATURE(name) __has_feature(name)
#else
#define EVENSTEP_HAS_FEATURE(name) 0
#endif
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && \
    !EVENSTEP_HAS_FEATURE(address_sanitizer) &&                        \
    !EVENSTEP_HAS_FEATURE(thread_sanitizer)
  flags |= RTLD_DEEPBIND;
#endif
  return flags;
}

// Beside the program; in a build folder tests stand in a folder of their own.
// Last on the program's search path: a project that uses the installed package
// has that of the package on it (cmake/EvenstepConfig.cmake.in).
absl::StatusOr<Functions> LoadPlugin() {
  std::error_code error;
  const std::filesystem::path folder =
      std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  std::string why;
  for (const auto& place :
       {folder / kPlugin, folder / "../bin" / kPlugin,
        folder / "../lib" / kPlugin, std::filesystem::path(kPlugin)}) {
    void* const library = dlopen(place.c_str(), LoadFlags());
    if (library == nullptr) {
      absl::StrAppend(&why, why.empty() ? "" : "; ", dlerror());
      continue;
    }
    void* const found = dlsym(library, "EvenstepSentencePieceFunctions");
    if (found != nullptr) return reinterpret_cast<Functions (*)()>(found)();
    absl::StrAppend(&why, why.empty() ? "" : "; ", dlerror());
  }
  return absl::UnavailableError(
      absl::StrCat("SentencePiece cannot be loaded: ", why));
}

// Loaded once; never unloaded.
const absl::StatusOr<Functions>& Plugin() {
  static const auto* const kPluginOnce =
      new absl::StatusOr<Functions>(LoadPlugin());
  return *kPluginOnce;
}

}  // namespace

absl::StatusOr<std::unique_ptr<SentencePieceModel>> SentencePieceModel::Load(
    absl::string_view bytes) {
  EVENSTEP_ASSIGN_OR_RETURN(const Functions functions, Plugin());
  char error[kErrorBytes] = "";
  void* const model =
      functions->load(bytes.data(), bytes.size(), error, sizeof(error));
  if (model == nullptr) return absl::InvalidArgumentError(error);
  return std::unique_ptr<SentencePieceModel>(
      new SentencePieceModel(functions, model));
}

SentencePieceModel::~SentencePieceModel() { functions_->release(model_); }

absl::Status SentencePieceModel::Encode(absl::string_view text,
                                        std::vector<int32_t>* ids) const {
  char error[kErrorBytes] = "";
  const auto take = [](void* to, const int* found, size_t count) {
    auto* const all = static_cast<std::vector<int32_t>*>(to);
    all->insert(all->end(), found, found + count);
  };
  if (functions_->encode(model_, text.data(), text.size(), take, ids, error,
                         sizeof(error))) {
    return absl::OkStatus();
  }
  return absl::InternalError(error);
}

absl::StatusOr<std::string> SentencePieceModel::Decode(
    absl::Span<const int32_t> ids) const {
  char error[kErrorBytes] = "";
  std::string text;
  const auto take = [](void* to, const char* found, size_t size) {
    static_cast<std::string*>(to)->assign(found, size);
  };
  if (functions_->decode(model_, ids.data(), ids.size(), take, &text, error,
                         sizeof(error))) {
    return text;
  }
  return absl::InternalError(error);
}

int32_t SentencePieceModel::num_pieces() const {
  return functions_->num_pieces(model_);
}

int32_t SentencePieceModel::end_piece() const {
  return functions_->end_piece(model_);
}

}  // namespace evenstep::data
