#include "data/text/jsonl.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/status_macros.h"
#include "base/unique_fd.h"

namespace evenstep::data {
namespace {

bool IsBlank(absl::string_view line) {
  return line.find_first_not_of(" \t\r") == absl::string_view::npos;
}

// Cuts a stream of chunks into lines.
class LineCutter {
 public:
  explicit LineCutter(const std::function<void(const JsonLine&)>& visit)
      : visit_(visit) {}

  void Take(absl::string_view chunk) {
    while (!chunk.empty()) {
      const size_t end = chunk.find('\n');
      if (end == absl::string_view::npos) return Keep(chunk);
      if (kept_bytes_ == 0) {
        Emit(chunk.substr(0, end), static_cast<int64_t>(end));
      } else {
        Keep(chunk.substr(0, end));
        EmitKept();
      }
      ++offset_;  // the line end
      chunk.remove_prefix(end + 1);
    }
  }

  void Finish() {
    if (kept_bytes_ > 0) EmitKept();
  }

 private:
  void Keep(absl::string_view part) {
    kept_bytes_ += static_cast<int64_t>(part.size());
    if (kept_bytes_ <= kMaxJsonLineBytes) {
      kept_.append(part.data(), part.size());
    }
  }

  void EmitKept() {
    const absl::string_view kept = kept_;
    Emit(kept_bytes_ <= kMaxJsonLineBytes ? kept : absl::string_view(),
         kept_bytes_);
    kept_.clear();
    kept_bytes_ = 0;
  }

  void Emit(absl::string_view content, int64_t bytes) {
    ++number_;
    const bool blank =
        content.size() == static_cast<size_t>(bytes) && IsBlank(content);
    if (!blank) visit_({number_, offset_, bytes, content});
    offset_ += bytes;
  }

  const std::function<void(const JsonLine&)>& visit_;
  std::string kept_;
  int64_t kept_bytes_ = 0;
  int64_t number_ = 0;
  int64_t offset_ = 0;
};

using Json = nlohmann::json;

absl::Status NoString(absl::string_view field) {
  return absl::InvalidArgumentError(
      absl::StrCat("field `", field, "` is not a string"));
}

absl::StatusOr<std::string> TakeString(Json* object, const char* field) {
  const auto found = object->find(field);
  if (found == object->end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("object has no field `", field, "`"));
  }
  if (!found->is_string()) return NoString(field);
  return std::move(found->get_ref<std::string&>());
}

absl::StatusOr<TextDocument> FromPrompt(Json* object) {
  const char* const answer =
      object->contains("completion") || !object->contains("response")
          ? "completion"
          : "response";
  TextDocument document(2);
  document[0].loss = Loss::kMasked;
  document[1].ends = true;
  EVENSTEP_ASSIGN_OR_RETURN(document[0].text, TakeString(object, "prompt"));
  EVENSTEP_ASSIGN_OR_RETURN(document[1].text, TakeString(object, answer));
  if (document[0].text.empty() && document[1].text.empty()) {
    return absl::InvalidArgumentError("empty");
  }
  return document;
}

// What is masked joins the masked part before it.
void AddMasked(absl::string_view text, TextDocument* document) {
  if (document->empty() || document->back().loss == Loss::kTrained) {
    document->push_back({"", Loss::kMasked, false});
  }
  absl::StrAppend(&document->back().text, text);
}

absl::Status AddMessage(Json* message, TextDocument* document) {
  if (!message->is_object()) {
    return absl::InvalidArgumentError("a message is not a JSON object");
  }
  EVENSTEP_ASSIGN_OR_RETURN(const std::string role,
                            TakeString(message, "role"));
  EVENSTEP_ASSIGN_OR_RETURN(std::string content,
                            TakeString(message, "content"));
  AddMasked(absl::StrCat("<|", role, "|>\n"), document);
  if (role == "assistant") {
    document->push_back({std::move(content), Loss::kTrained, true});
  } else {
    AddMasked(absl::StrCat(content, "\n"), document);
  }
  return absl::OkStatus();
}

absl::StatusOr<TextDocument> FromMessages(Json* messages) {
  if (!messages->is_array()) {
    return absl::InvalidArgumentError("field `messages` is not a list");
  }
  if (messages->empty()) return absl::InvalidArgumentError("empty");
  TextDocument document;
  for (Json& message : *messages) {
    EVENSTEP_RETURN_IF_ERROR(AddMessage(&message, &document));
  }
  document.back().ends = true;
  return document;
}

absl::StatusOr<TextDocument> FromObject(Json* object) {
  if (object->contains("text")) {
    EVENSTEP_ASSIGN_OR_RETURN(std::string text, TakeString(object, "text"));
    if (text.empty()) return absl::InvalidArgumentError("empty");
    return TextDocument{{std::move(text), Loss::kTrained, true}};
  }
  if (object->contains("messages"))
    return FromMessages(&object->at("messages"));
  if (object->contains("prompt")) return FromPrompt(object);
  return absl::InvalidArgumentError(
      "object has no field `text`, `messages` or `prompt`");
}

}  // namespace

absl::StatusOr<TextDocument> ParseJsonDocument(absl::string_view line) {
  if (line.empty() || line.size() > kMaxJsonLineBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "line is empty or longer than ", kMaxJsonLineBytes, " bytes"));
  }
  Json object = Json::parse(line.begin(), line.end(), /*cb=*/nullptr,
                            /*allow_exceptions=*/false);
  if (object.is_discarded()) {
    return absl::InvalidArgumentError("line is not JSON");
  }
  if (!object.is_object()) {
    return absl::InvalidArgumentError("line is not a JSON object");
  }
  return FromObject(&object);
}

absl::Status ScanJsonLines(const std::string& path,
                           const std::function<void(const JsonLine&)>& visit) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) return ErrnoStatus(errno, "cannot open", path);
  LineCutter cutter(visit);
  std::string buffer(1 << 20, '\0');
  while (true) {
    const ssize_t got = read(fd.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus(errno, "cannot read", path);
    if (got == 0) break;
    cutter.Take(absl::string_view(buffer.data(), static_cast<size_t>(got)));
  }
  cutter.Finish();
  return absl::OkStatus();
}

}  // namespace evenstep::data
