#include "base/yaml.h"

#include <yaml-cpp/emitter.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <exception>
#include <sstream>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/foreign_file.h"
#include "base/status_macros.h"
#include "base/text.h"

namespace evenstep {
namespace {

constexpr size_t kMaxBytes = 1 << 20;
constexpr size_t kMaxDepth = 64;

struct RuleBreak : std::exception {
  RuleBreak(int line, std::string sentence)
      : line(line), sentence(std::move(sentence)) {}
  const char* what() const noexcept override { return sentence.c_str(); }
  int line;
  std::string sentence;
};

// Builds the tree bottom up: open collections stand on a stack, and a finished
// node goes to the one on top.
class TreeBuilder : public YAML::EventHandler {
 public:
  YamlNode Take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    RefuseAnchor(mark, anchor);
    Finish(Node(YamlNode::Kind::kNull, mark));
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    throw RuleBreak(mark.line + 1, "aliases are not allowed");
  }
  void OnScalar(const YAML::Mark& mark, const std::string&,
                YAML::anchor_t anchor, const std::string& value) override {
    RefuseAnchor(mark, anchor);
    YamlNode node = Node(YamlNode::Kind::kScalar, mark);
    node.scalar = value;
    Finish(std::move(node));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&,
                       YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    Open(YamlNode::Kind::kList, mark, anchor);
  }
  void OnSequenceEnd() override { Close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string&,
                  YAML::anchor_t anchor, YAML::EmitterStyle::value) override {
    Open(YamlNode::Kind::kMap, mark, anchor);
  }
  void OnMapEnd() override { Close(); }

 private:
  struct OpenNode {
    YamlNode node;
    bool has_key = false;
    YamlEntry entry;
  };

  static YamlNode Node(YamlNode::Kind kind, const YAML::Mark& mark) {
    YamlNode node;
    node.kind = kind;
    node.line = mark.line + 1;
    return node;
  }

  static void RefuseAnchor(const YAML::Mark& mark, YAML::anchor_t anchor) {
    if (anchor != 0) {
      throw RuleBreak(mark.line + 1, "anchors are not allowed");
    }
  }

  void Open(YamlNode::Kind kind, const YAML::Mark& mark,
            YAML::anchor_t anchor) {
    RefuseAnchor(mark, anchor);
    if (open_.size() >= kMaxDepth) {
      throw RuleBreak(mark.line + 1,
                      absl::StrCat("more than ", kMaxDepth, " levels"));
    }
    OpenNode open;
    open.node = Node(kind, mark);
    open_.push_back(std::move(open));
  }

  void Close() {
    YamlNode node = std::move(open_.back().node);
    open_.pop_back();
    Finish(std::move(node));
  }

  void Finish(YamlNode node) {
    if (open_.empty()) {
      root_ = std::move(node);
      return;
    }
    OpenNode& parent = open_.back();
    if (parent.node.kind == YamlNode::Kind::kList) {
      parent.node.items.push_back(std::move(node));
    } else if (parent.has_key) {
      parent.entry.value = std::move(node);
      parent.node.entries.push_back(std::move(parent.entry));
      parent.entry = {};
      parent.has_key = false;
    } else {
      TakeKey(parent, std::move(node));
    }
  }

  static void TakeKey(OpenNode& parent, YamlNode node) {
    if (node.kind != YamlNode::Kind::kScalar) {
      throw RuleBreak(node.line, "a key must be a plain word");
    }
    for (const YamlEntry& entry : parent.node.entries) {
      if (entry.key == node.scalar) {
        throw RuleBreak(
            node.line,
            absl::StrCat("key '", node.scalar,
                         "' appears twice (first on line ", entry.line, ")"));
      }
    }
    parent.entry.key = std::move(node.scalar);
    parent.entry.line = node.line;
    parent.has_key = true;
  }

  std::vector<OpenNode> open_;
  YamlNode root_;
};

YamlNode ParseOrThrow(absl::string_view text) {
  std::istringstream stream{std::string(text)};
  YAML::Parser parser(stream);
  TreeBuilder builder;
  if (!parser.HandleNextDocument(builder)) return {};
  TreeBuilder second;
  if (parser.HandleNextDocument(second)) {
    throw RuleBreak(1, "more than one document in the file");
  }
  return builder.Take();
}

// The first line that is indented with a tab, from 1; 0: none.
int LineWithTab(absl::string_view text) {
  int line_number = 1;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    const size_t word = line.find_first_not_of(" \t");
    if (absl::StrContains(line.substr(0, word), '\t')) return line_number;
    ++line_number;
  }
  return 0;
}

// What yaml-cpp says of common slips, for people who have not read the grammar.
std::string InOtherWords(const std::string& message) {
  static constexpr std::pair<const char*, const char*> kWords[] = {
      {"end of map flow not found", "a '{' has no '}' that closes it"},
      {"end of sequence flow not found", "a '[' has no ']' that closes it"},
      {"illegal map value",
       "a ':' is not expected here; is the indentation of the lines before it "
       "right, and is text that has a ':' in quotes?"},
      {"end of map not found",
       "this line is no 'key: value' of its map; is its "
       "indentation right, and is there a space behind the ':'?"}};
  for (const auto& [theirs, ours] : kWords) {
    if (message == theirs) return ours;
  }
  return message;
}

absl::Status CheckLines(absl::string_view text, absl::string_view name) {
  int line_number = 1;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    const absl::Status valid = CheckUtf8("the line", line);
    if (!valid.ok()) {
      return YamlError(
          name, line_number,
          absl::StrCat(valid.message(), "; save the file as UTF-8"));
    }
    const size_t nul = line.find('\0');
    if (nul != absl::string_view::npos) {
      return YamlError(name, line_number,
                       absl::StrCat("byte ", nul + 1,
                                    " of the line is NUL; is this a text "
                                    "file?"));
    }
    ++line_number;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status YamlError(absl::string_view name, int line,
                       absl::string_view sentence) {
  return absl::InvalidArgumentError(
      absl::StrCat(name, ":", line, ": ", sentence));
}

absl::StatusOr<YamlNode> ParseYaml(absl::string_view text,
                                   absl::string_view name) {
  if (text.size() > kMaxBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": ", text.size(), " bytes; at most ", kMaxBytes));
  }
  const std::string foreign =
      DescribeForeignFile(text.substr(0, kForeignFileBytes));
  if (!foreign.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": it is ", foreign));
  }
  EVENSTEP_RETURN_IF_ERROR(CheckLines(text, name));
  try {
    return ParseOrThrow(text);
  } catch (const RuleBreak& error) {
    return YamlError(name, error.line, error.sentence);
  } catch (const YAML::Exception& error) {
    const int tab_line = LineWithTab(text);
    if (tab_line > 0) {
      return YamlError(name, tab_line,
                       "a tab indents this line; YAML takes spaces alone");
    }
    return YamlError(name, std::max(error.mark.line + 1, 1),
                     InOtherWords(error.msg));
  } catch (const std::exception& error) {
    return YamlError(name, 1, error.what());
  }
}

std::string YamlScalar(absl::string_view text) {
  const bool word =
      !text.empty() && text.find_first_not_of(
                           "abcdefghijklmnopqrstuvwxyz"
                           "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                           "0123456789_./+-") == absl::string_view::npos;
  const std::string lower = absl::AsciiStrToLower(text);
  const bool special = lower == "null" || absl::StartsWith(text, "-") ||
                       absl::StartsWith(text, "...");
  if (word && !special) return std::string(text);
  YAML::Emitter emitter;
  emitter << YAML::DoubleQuoted << std::string(text);
  return emitter.c_str();
}

}  // namespace evenstep
