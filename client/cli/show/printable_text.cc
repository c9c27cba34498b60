#include "client/cli/show/printable_text.h"

#include "absl/strings/str_format.h"
#include "base/text.h"

namespace evenstep::cli {
namespace {

bool IsControl(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7f;
}

// A range of characters whose encodings differ in the last byte alone.
struct Unprintable {
  absl::string_view head;  // all bytes but the last
  unsigned char first;     // last bytes
  unsigned char last;
  unsigned int character;  // of the first
};
constexpr Unprintable kUnprintable[] = {{"\xc2", 0x80, 0x9f, 0x80},
                                        {"\xe2\x80", 0xaa, 0xae, 0x202a},
                                        {"\xe2\x81", 0xa6, 0xa9, 0x2066}};

// How many bytes of `text` are one of them, which is appended written out; 0:
// it begins with another character.
size_t AppendUnprintable(absl::string_view text, std::string* out) {
  for (const Unprintable& range : kUnprintable) {
    const size_t place = range.head.size();
    if (text.size() <= place || text.substr(0, place) != range.head) continue;
    const auto byte = static_cast<unsigned char>(text[place]);
    if (byte < range.first || byte > range.last) continue;
    absl::StrAppendFormat(out, "\\u%04x",
                          range.character + (byte - range.first));
    return place + 1;
  }
  return 0;
}

}  // namespace

std::string PrintableText(absl::string_view text) {
  const std::string valid = ToValidUtf8(text);
  std::string printable;
  for (absl::string_view rest = valid; !rest.empty();) {
    size_t taken = AppendUnprintable(rest, &printable);
    if (taken == 0) {
      taken = 1;
      if (IsControl(rest[0])) {
        absl::StrAppendFormat(&printable, "\\x%02x",
                              static_cast<unsigned char>(rest[0]));
      } else {
        printable += rest[0];
      }
    }
    rest.remove_prefix(taken);
  }
  return printable;
}

}  // namespace evenstep::cli
