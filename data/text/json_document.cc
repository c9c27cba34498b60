#include "data/text/json_document.h"

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "data/text/foreign_json.h"
#include "data/text/json_parser.h"

namespace evenstep::data {
namespace {

using Json = nlohmann::json;

// Fields of a record without a document that are named in the message.
constexpr size_t kMostNamedFields = 8;

struct RefusedKey {
  const char* name;
  const char* reason;
};

constexpr char kOnlyText[] = "only text is trained";
constexpr char kOneWeight[] =
    "use `weight` (0 or 1) to select trained messages";
constexpr char kInContent[] = "write what the model shall see into `content`";

// Of a message.
constexpr RefusedKey kMessageKeys[] = {
    {"tool_calls", "put the answer into `content`"},
    {"function_call", "put the answer into `content`"},
    {"refusal", "put the answer into `content`"},
    {"reasoning_content", "put the answer into `content`"},
    {"reasoning", "put the answer into `content`"},
    {"thinking", "put the answer into `content`"},
    {"name", kInContent},
    {"image", kOnlyText},
    {"images", kOnlyText},
    {"audio", kOnlyText},
    {"video", kOnlyText},
    {"videos", kOnlyText},
    {"mask", kOneWeight},
    {"masked", kOneWeight},
    {"loss_mask", kOneWeight},
    {"loss_weight", kOneWeight},
    {"train_detail", kOneWeight},
    {"training_detail", kOneWeight},
};

// Of a record with `messages` or `prompt`: parts of the context.
constexpr RefusedKey kContextKeys[] = {
    {"system", "make it the first of `messages`, with role system"},
    {"tools", "write them into a message of role system"},
    {"functions", "write them into a message of role system"},
    {"history", "write the earlier turns into `messages`"},
    {"image", kOnlyText},
    {"images", kOnlyText},
    {"audio", kOnlyText},
    {"audios", kOnlyText},
    {"video", kOnlyText},
    {"videos", kOnlyText},
};

// Of a record with `messages` or `prompt`: which answers are good. Trained as
// they are, the bad ones would be taught, too.
constexpr RefusedKey kPreferenceKeys[] = {
    {"chosen", "pairs of `chosen` and `rejected` are not trained"},
    {"rejected", "pairs of `chosen` and `rejected` are not trained"},
    {"reward", "answers are not weighed by `reward`; keep the good ones"},
};

// Of any record.
constexpr RefusedKey kMaskKeys[] = {
    {"loss_mask", "masks come from `prompt` or `messages`"},
    {"loss_weight", kOneWeight},
    {"masked", kOneWeight},
};

// How the answering side is called elsewhere: a chat of such roles would have
// nothing to train.
constexpr absl::string_view kAnswerRoles[] = {"assistant", "gpt", "chatgpt",
                                              "model",     "bot", "ai"};

absl::Status Bad(absl::string_view reason) {
  return absl::InvalidArgumentError(reason);
}

bool IsAbsent(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null();
}

// Absent, null, false or without content.
bool IsEmpty(const Json& object, const char* key) {
  if (IsAbsent(object, key)) return true;
  const Json& value = object[key];
  if (value == false) return true;
  if (value.is_string()) return value.get_ref<const std::string&>().empty();
  return value.is_structured() && value.empty();
}

template <typename Keys>
absl::Status RefuseKeys(const Json& object, const Keys& keys) {
  for (const RefusedKey& key : keys) {
    if (IsEmpty(object, key.name)) continue;
    return Bad(absl::StrCat("`", key.name, "` is not supported: ", key.reason));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> TakeString(Json* object, const char* key) {
  if (IsAbsent(*object, key)) {
    return Bad(absl::StrCat("there is no `", key, "`",
                            object->contains(key) ? " (it is null)" : ""));
  }
  Json& value = (*object)[key];
  if (value.is_string()) return std::move(value.get_ref<std::string&>());
  return Bad(absl::StrCat("`", key, "` is ", KindOf(value), ", not a string"));
}

// What these keys say, which are 0 or 1; nothing: none is there.
absl::StatusOr<std::optional<bool>> IsTrained(
    const Json& object, std::initializer_list<const char*> keys) {
  std::optional<bool> trained;
  for (const char* const key : keys) {
    if (IsAbsent(object, key)) continue;
    const Json& value = object[key];
    const bool is_one = value == 1 || value == true;
    if (!is_one && value != 0 && value != false) {
      return Bad(absl::StrCat("`", key, "` is ",
                              value.is_number() ? value.dump() : KindOf(value),
                              "; it is 0 (not trained) or 1 (trained)"));
    }
    if (trained.has_value() && *trained != is_one) {
      return Bad(absl::StrCat("`", key, "` contradicts another key"));
    }
    trained = is_one;
  }
  return trained;
}

// A mask of ones with zeros after them marks padding, which is not there.
absl::Status CheckPaddingMask(const Json& record, const char* key) {
  if (IsEmpty(record, key)) return absl::OkStatus();
  const Json& mask = record[key];
  bool sound = mask.is_array();
  bool ended = false;
  if (sound) {
    for (const Json& value : mask) {
      const bool is_one = value == 1 || value == true;
      sound = sound && (is_one ? !ended : value == 0 || value == false);
      ended = ended || !is_one;
    }
  }
  if (sound) return absl::OkStatus();
  return Bad(absl::StrCat(
      "`", key,
      "` is not supported: masks come from `prompt` or `messages`; only ones "
      "with zeros after them, which mark padding, are passed over"));
}

// Token ids to be trained, beside the text; names and classes are not meant.
absl::Status CheckLabels(const Json& record) {
  if (IsEmpty(record, "labels") || !record["labels"].is_array() ||
      !record["labels"][0].is_number()) {
    return absl::OkStatus();
  }
  return Bad(
      "`labels` of numbers is not supported: masks come from `prompt` or "
      "`messages`");
}

absl::Status CheckPreferences(const Json& record) {
  for (const RefusedKey& key : kPreferenceKeys) {
    if (!IsEmpty(record, key.name)) return Bad(key.reason);
  }
  // Classes are numbers or words.
  if (IsAbsent(record, "label") || !record["label"].is_boolean()) {
    return absl::OkStatus();
  }
  return Bad(
      "`label` of true or false says whether the answer is good, and both "
      "would be trained; keep the good ones, without `label`");
}

absl::Status CheckMasks(const Json& record) {
  EVENSTEP_RETURN_IF_ERROR(CheckPaddingMask(record, "mask"));
  EVENSTEP_RETURN_IF_ERROR(CheckPaddingMask(record, "attention_mask"));
  EVENSTEP_RETURN_IF_ERROR(CheckLabels(record));
  return RefuseKeys(record, kMaskKeys);
}

// A string, or a list of parts that are all text.
absl::StatusOr<std::string> TakeContent(Json* message) {
  if (IsAbsent(*message, "content") || !(*message)["content"].is_array()) {
    return TakeString(message, "content");
  }
  std::string content;
  size_t number = 0;
  for (Json& part : (*message)["content"]) {
    ++number;
    if (part.is_string()) {
      content += part.get_ref<const std::string&>();
      continue;
    }
    if (!part.is_object()) {
      return Bad(absl::StrCat("part ", number, " of `content` is ",
                              KindOf(part), ", not an object"));
    }
    if (IsAbsent(part, "type") || part["type"] != "text") {
      return Bad(absl::StrCat("part ", number, " of `content` is not of type ",
                              "`text`; ", kOnlyText));
    }
    EVENSTEP_ASSIGN_OR_RETURN(const std::string text,
                              TakeString(&part, "text"));
    content += text;
  }
  return content;
}

// What is masked joins the masked part before it.
void AddMasked(absl::string_view text, TextDocument* document) {
  if (document->empty() || document->back().loss == Loss::kTrained ||
      document->back().ends) {
    document->push_back({"", Loss::kMasked, false});
  }
  absl::StrAppend(&document->back().text, text);
}

absl::Status CheckRole(const std::string& role) {
  const std::string lower = absl::AsciiStrToLower(role);
  if (role == "assistant" ||
      std::find(std::begin(kAnswerRoles), std::end(kAnswerRoles), lower) ==
          std::end(kAnswerRoles)) {
    return absl::OkStatus();
  }
  return Bad(absl::StrCat("role `", role,
                          "` is not known; what is trained has role "
                          "`assistant`"));
}

absl::Status AddMessage(Json* message, TextDocument* document) {
  if (!message->is_object()) {
    return Bad(absl::StrCat("it is ", KindOf(*message), ", not an object"));
  }
  EVENSTEP_ASSIGN_OR_RETURN(const std::string role,
                            TakeString(message, "role"));
  EVENSTEP_RETURN_IF_ERROR(CheckRole(role));
  EVENSTEP_RETURN_IF_ERROR(RefuseKeys(*message, kMessageKeys));
  EVENSTEP_ASSIGN_OR_RETURN(std::string content, TakeContent(message));
  EVENSTEP_ASSIGN_OR_RETURN(
      const std::optional<bool> said,
      IsTrained(*message, {"weight", "train", "training", "loss"}));
  const bool is_answer = role == "assistant";
  if (!is_answer && said.value_or(false)) {
    return Bad(absl::StrCat("it shall be trained, but is of role `", role,
                            "`; only answers of `assistant` are"));
  }
  AddMasked(absl::StrCat("<|", role, "|>\n"), document);
  if (is_answer) {
    // A part of its own even where it is masked: its tokens are the same.
    const Loss loss = said.value_or(true) ? Loss::kTrained : Loss::kMasked;
    document->push_back({std::move(content), loss, true});
  } else {
    AddMasked(absl::StrCat(content, "\n"), document);
  }
  return absl::OkStatus();
}

absl::StatusOr<TextDocument> FromMessages(Json* messages) {
  if (!messages->is_array()) {
    return Bad(
        absl::StrCat("`messages` is ", KindOf(*messages), ", not a list"));
  }
  if (messages->empty()) return Bad("empty: `messages` has no message");
  TextDocument document;
  size_t number = 0;
  for (Json& message : *messages) {
    ++number;
    const absl::Status added = AddMessage(&message, &document);
    if (!added.ok()) {
      return Bad(absl::StrCat("message ", number, ": ", added.message()));
    }
  }
  document.back().ends = true;
  return document;
}

absl::StatusOr<TextDocument> FromPrompt(Json* record) {
  const bool has_response = !IsAbsent(*record, "response");
  if (has_response && !IsAbsent(*record, "completion")) {
    return Bad("`completion` and `response` are both there; leave one out");
  }
  TextDocument document(2);
  document[0].loss = Loss::kMasked;
  document[1].ends = true;
  EVENSTEP_ASSIGN_OR_RETURN(document[0].text, TakeString(record, "prompt"));
  EVENSTEP_ASSIGN_OR_RETURN(
      document[1].text,
      TakeString(record, has_response ? "response" : "completion"));
  if (document[0].text.empty() && document[1].text.empty()) {
    return Bad("empty: `prompt` and the completion have no text");
  }
  return document;
}

absl::Status NoDocument(const Json& record) {
  constexpr char kNone[] = "there is no `text`, `messages` or `prompt`";
  std::vector<std::string> present;
  std::vector<std::string> names;
  for (const auto& [name, value] : record.items()) {
    if (!value.is_null()) present.push_back(name);
    if (names.size() == kMostNamedFields) names.emplace_back("...");
    if (names.size() > kMostNamedFields) continue;
    names.push_back(
        absl::StrCat("`", name, "`", value.is_null() ? " (null)" : ""));
  }
  const std::string rename = HowToRename(present);
  if (!rename.empty()) return Bad(absl::StrCat(kNone, ": ", rename));
  return Bad(absl::StrCat(
      kNone, names.empty() ? "; the record has no fields" : "; the record has ",
      absl::StrJoin(names, ", ")));
}

absl::StatusOr<TextDocument> FromRecord(Json* record) {
  EVENSTEP_RETURN_IF_ERROR(CheckMasks(*record));
  if (!IsAbsent(*record, "text")) {
    EVENSTEP_ASSIGN_OR_RETURN(std::string text, TakeString(record, "text"));
    if (text.empty()) return Bad("empty: `text` has no text");
    return TextDocument{{std::move(text), Loss::kTrained, true}};
  }
  const bool is_chat = !IsAbsent(*record, "messages");
  if (!is_chat && IsAbsent(*record, "prompt")) return NoDocument(*record);
  EVENSTEP_RETURN_IF_ERROR(CheckPreferences(*record));
  EVENSTEP_RETURN_IF_ERROR(RefuseKeys(*record, kContextKeys));
  return is_chat ? FromMessages(&(*record)["messages"]) : FromPrompt(record);
}

}  // namespace

absl::StatusOr<TextDocument> DocumentOfRecord(Json* record) {
  EVENSTEP_ASSIGN_OR_RETURN(const std::optional<bool> trained,
                            IsTrained(*record, {"weight", "train"}));
  EVENSTEP_ASSIGN_OR_RETURN(TextDocument document, FromRecord(record));
  if (!trained.value_or(true)) {
    for (TextPart& part : document) part.loss = Loss::kMasked;
  }
  return document;
}

}  // namespace evenstep::data
