#ifndef EVENSTEP_DATA_DATASET_H_
#define EVENSTEP_DATA_DATASET_H_

// Documents that a job trains on: how long each is (from an index, without
// reading the documents) and its tokens. Opened by every trainer on its own;
// all of them see the same, or the content keys differ and the job does not
// start. Thread-compatible; reads are const.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "data/clip.h"

namespace evenstep::data {

// How far indexing is.
struct IndexProgress {
  int64_t bytes_done = 0;
  int64_t bytes_total = 0;
  // Another process indexes the same data; this one waits for its result. The
  // numbers are the other's, if it has told them.
  bool waiting = false;
  int64_t num_reports = 0;  // of whoever indexes: grows while it works
};
// Called while data is indexed, about once per MiB; an index that is used again
// makes no call. An error ends the work and is returned by OpenDataset.
using IndexProgressFunction = std::function<absl::Status(const IndexProgress&)>;

enum class OnTooLong { kFail, kTruncate, kSkip };
enum class OnBadSample { kFail, kSkip };

struct DatasetOptions {
  std::string source;     // one of data/source_kind.h, such as "text:PATH"
  std::string tokenizer;  // of text: a SentencePiece model; empty: bytes
  int64_t max_length = 0;
  // Token ids of a source that has its own are below this; 0: any.
  int64_t vocab = 0;
  OnTooLong on_too_long = OnTooLong::kFail;
  OnBadSample on_bad_sample = OnBadSample::kFail;
  // Of latents: the side of a patch in latent pixels, and the channels that a
  // latent must have.
  int patch = 1;
  int channels = 0;
  // Folder for the index; empty: as index_cache.h says.
  std::string cache_dir;
  IndexProgressFunction progress;
  // Opens a source without a sample too, so that what is bad can be shown.
  bool may_be_empty = false;
};

// Entries below a folder of files that are no data. A folder counts once,
// whatever it holds.
struct LeftOut {
  int64_t hidden = 0;  // their names begin with a dot
  int64_t own = 0;     // results of earlier runs
  int64_t tools = 0;   // kept by tools, or files of a model
  int64_t links = 0;   // not followed
  int64_t json = 0;    // files of JSON that hold no records
};

// Files of which no document could be read: bad ones, and JSON without records.
struct UnreadFiles {
  int64_t num_files = 0;
  int64_t bytes = 0;
  int64_t bytes_read = 0;  // of the other files
  std::string largest;     // name below the source's path
};

// What indexing found. Counts are documents.
struct DatasetSummary {
  int64_t num_samples = 0;
  int64_t num_too_long = 0;
  int64_t num_bad = 0;
  int64_t num_truncated = 0;
  int64_t longest = 0;  // tokens
  int64_t total_tokens = 0;
  // Tokens of too long samples that are skipped, or cut from them.
  int64_t tokens_left_out = 0;
  int64_t num_long_files = 0;  // too long samples that are whole files of text
  int64_t largest_token = -1;  // -1: none, or not above the source's vocabulary
  uint64_t content_key = 0;    // names, sizes, content and settings
  LeftOut left_out;
  UnreadFiles unread;
};

// One sample. Of text: tokens, where targets[i] is the token after tokens[i],
// and a target of kIgnoredTarget has no loss. Of video: a clip, no tokens.
struct SampleTokens {
  std::vector<int32_t> tokens;
  std::vector<int32_t> targets;
  std::shared_ptr<const Clip> clip = nullptr;
  // Leading frames of the clip that the model is given: they have no loss.
  int64_t given_frames = 0;
};
inline constexpr int32_t kIgnoredTarget = -100;
inline int64_t NumTokens(const SampleTokens& sample) {
  return sample.clip != nullptr ? sample.clip->shape.tokens()
                                : static_cast<int64_t>(sample.tokens.size());
}
// Byte tokens are 0 to 255; this one ends a document.
inline constexpr int32_t kEndToken = 256;
inline constexpr int32_t kByteVocab = 257;

class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual const DatasetSummary& summary() const = 0;
  // Document index in [0, summary().num_samples).
  virtual int64_t Length(int64_t document) const = 0;
  virtual int64_t TrainedTokens(int64_t document) const = 0;
  // No frames: the document is no video.
  virtual ClipShape Shape(int64_t /*document*/) const { return {}; }
  // For messages: the file, and the line in it where there are several.
  virtual std::string Name(int64_t document) const {
    return "document " + std::to_string(document);
  }
  // Equal for documents of equal bytes, also in other files; 0: not known.
  virtual uint64_t ContentHash(int64_t /*document*/) const { return 0; }
  // "NAME: reason" of the documents that summary().num_bad counts, but for the
  // last of very many (kMostNoteBytes of sample_rules.h).
  virtual absl::Span<const std::string> BadSamples() const { return {}; }
  // "NAME: reason" of the files that summary().left_out.json counts, whose
  // beginnings it reads. `foreign`: only those that may be records in a form
  // that is not read, as settings are not. The first `most` of them.
  virtual std::vector<std::string> LeftOutJson(bool /*foreign*/,
                                               size_t /*most*/) const {
    return {};
  }
  // Tokens are below this; 0: only reading a document shows.
  virtual int64_t Vocab() const { return kByteVocab; }
  // DATA_LOSS naming the document when its bytes changed or vanished since
  // indexing.
  virtual absl::StatusOr<SampleTokens> Read(int64_t document) const = 0;
};

// INVALID_ARGUMENT: unknown kind of source, no sound file of a kind; NOT_FOUND:
// no such path;
// FAILED_PRECONDITION: a document breaks a rule with `fail`, or none is left
// and options.may_be_empty is not set.
absl::StatusOr<std::unique_ptr<Dataset>> OpenDataset(
    const DatasetOptions& options);

}  // namespace evenstep::data

#endif  // EVENSTEP_DATA_DATASET_H_
