#include "data/text/foreign_json.h"

#include <algorithm>
#include <initializer_list>
#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace evenstep::data {
namespace {

// Keys of a record that a message names, and that are kept.
constexpr size_t kMostNamedKeys = 8;
constexpr size_t kMostKeys = 64;

// Collects the shape until the end of the first object.
class ShapeReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  JsonShape Take() { return std::move(shape_); }

  bool null() override { return Scalar("nulls"); }
  bool boolean(bool /*value*/) override { return Scalar("booleans"); }
  bool number_integer(number_integer_t /*value*/) override {
    return Scalar("numbers");
  }
  bool number_unsigned(number_unsigned_t /*value*/) override {
    return Scalar("numbers");
  }
  bool number_float(number_float_t /*value*/,
                    const string_t& /*text*/) override {
    return Scalar("numbers");
  }
  bool string(string_t& /*value*/) override { return Scalar("strings"); }
  bool binary(binary_t& /*value*/) override { return false; }
  bool start_object(std::size_t /*size*/) override {
    const bool is_first_in_list = depth_ == record_depth() + 1 && list_opened_;
    list_opened_ = false;
    if (is_first_in_list && shape_.list.empty()) {
      shape_.list = key_;
      in_list_object_ = true;
    }
    ++depth_;
    return true;
  }
  bool key(string_t& key) override {
    if (depth_ == record_depth()) {
      key_ = key;
      if (shape_.keys.size() < kMostKeys) shape_.keys.push_back(key);
    } else if (in_list_object_ && depth_ == record_depth() + 2 &&
               shape_.list_keys.size() < kMostKeys) {
      shape_.list_keys.push_back(key);
    }
    return true;
  }
  bool end_object() override {
    if (depth_ == record_depth() + 2) in_list_object_ = false;
    return --depth_ >= record_depth();
  }
  bool start_array(std::size_t /*size*/) override {
    if (depth_ == 0) {
      shape_.is_list = true;
    } else if (shape_.is_list && depth_ == 1) {
      shape_.element = "lists";
      return false;
    } else {
      list_opened_ = depth_ == record_depth();
    }
    ++depth_;
    return true;
  }
  bool end_array() override {
    list_opened_ = false;
    return --depth_ > 0;
  }
  bool parse_error(std::size_t /*position*/, const std::string& /*token*/,
                   const nlohmann::detail::exception& /*error*/) override {
    return false;
  }

 private:
  // Keys of the first object.
  int64_t record_depth() const { return shape_.is_list ? 2 : 1; }

  bool Scalar(const char* element) {
    list_opened_ = false;
    if (depth_ == 0) return false;
    if (!shape_.is_list || depth_ > 1) return true;
    shape_.element = element;
    return false;
  }

  JsonShape shape_;
  std::string key_;
  int64_t depth_ = 0;
  bool list_opened_ = false;  // as a value of the first object, and still empty
  bool in_list_object_ = false;
};

// The first of `names` that is among the keys; empty: none is.
std::string FirstOf(absl::Span<const std::string> keys,
                    std::initializer_list<const char*> names) {
  for (const char* const name : names) {
    if (std::find(keys.begin(), keys.end(), name) != keys.end()) return name;
  }
  return "";
}

std::string RenamePrompt(absl::Span<const std::string> keys) {
  const std::string prompt =
      FirstOf(keys, {"instruction", "question", "query", "inputs"});
  if (prompt.empty()) return "";
  const std::string context =
      FirstOf(keys, {"input", "context", "system_prompt", "system"});
  const std::string answer =
      FirstOf(keys, {"output", "answer", "answers", "targets"});
  return absl::StrCat(
      "rename `", prompt, "`",
      context.empty() ? "" : absl::StrCat(" (with `", context, "`)"),
      " to `prompt`",
      answer.empty() ? ""
                     : absl::StrCat(" and `", answer, "` to `completion`"));
}

}  // namespace

JsonShape ShapeOfJson(absl::string_view head) {
  ShapeReader reader;
  nlohmann::json::sax_parse(head.begin(), head.end(), &reader);
  return reader.Take();
}

bool HoldsRecords(const JsonShape& shape) {
  return !FirstOf(shape.keys, {"text", "messages", "prompt", "conversations",
                               "instruction"})
              .empty();
}

bool HoldsForeignRecords(const JsonShape& shape) {
  return !shape.list.empty() || (shape.is_list && !shape.keys.empty()) ||
         (shape.is_list && shape.element == "strings");
}

std::string HowToRename(absl::Span<const std::string> keys) {
  if (!FirstOf(keys, {"conversations"}).empty()) {
    return "rename `conversations` to `messages`, and in its parts `from` to "
           "`role` and `value` to `content`";
  }
  if (!FirstOf(keys, {"conversation"}).empty()) {
    return "rename `conversation` to `messages`, a list of objects with `role` "
           "and `content`";
  }
  if (!FirstOf(keys, {"chosen"}).empty()) {
    return "pairs of `chosen` and `rejected` are not trained";
  }
  std::string prompt = RenamePrompt(keys);
  if (!prompt.empty()) return prompt;
  if (!FirstOf(keys, {"input_ids"}).empty()) {
    return "token ids are trained from megatron:PREFIX";
  }
  if (FirstOf(keys, {"content"}).empty()) return "";
  return "rename `content` to `text`";
}

std::string WhyNoRecords(const JsonShape& shape) {
  const auto rename = [](absl::Span<const std::string> keys) {
    const std::string how = HowToRename(keys);
    return how.empty()
               ? std::string("give each a `text`, `messages` or `prompt`")
               : how;
  };
  std::string text = "JSON without records: ";
  if (!shape.list.empty() && !shape.is_list) {
    absl::StrAppend(&text, "they may be those in `", shape.list, "`, with ",
                    QuotedKeys(shape.list_keys));
    // A key with quotes would end those of the command.
    if (std::all_of(shape.list.begin(), shape.list.end(), [](char c) {
          return absl::ascii_isalnum(c) || c == '_' || c == '-';
        })) {
      absl::StrAppend(&text, ": take them out with `jq -c '.[\"", shape.list,
                      "\"][]' FILE > NAME.jsonl`");
    }
    JsonShape list;
    list.keys = shape.list_keys;
    return HoldsRecords(list)
               ? text
               : absl::StrCat(text, ", and ", rename(shape.list_keys));
  }
  if (shape.is_list && !shape.keys.empty()) {
    return absl::StrCat(text, "a list of objects with ", QuotedKeys(shape.keys),
                        "; ", rename(shape.keys));
  }
  if (shape.is_list && shape.element == "strings") {
    return absl::StrCat(text,
                        "a list of strings; make records of them with `jq -c "
                        "'.[] | {text: .}' FILE > NAME.jsonl`");
  }
  if (shape.is_list) {
    return absl::StrCat(text, "a list of ",
                        shape.element.empty() ? "nothing" : shape.element);
  }
  return absl::StrCat(text, "an object with ",
                      shape.keys.empty() ? "no key" : QuotedKeys(shape.keys));
}

std::string QuotedKeys(absl::Span<const std::string> keys) {
  std::vector<std::string> names;
  for (const std::string& key : keys) {
    if (names.size() == kMostNamedKeys) {
      names.emplace_back("...");
      break;
    }
    names.push_back(absl::StrCat("`", key, "`"));
  }
  return absl::StrJoin(names, ", ");
}

}  // namespace evenstep::data
