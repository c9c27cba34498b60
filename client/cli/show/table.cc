#include "client/cli/show/table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "client/cli/show/printable_text.h"

namespace evenstep::cli {
namespace {

const char* Code(Colour colour) {
  switch (colour) {
    case Colour::kNone:
      return "";
    case Colour::kGreen:
      return "\033[32m";
    case Colour::kRed:
      return "\033[31m";
    case Colour::kYellow:
      return "\033[33m";
    case Colour::kBold:
      return "\033[1m";
  }
  return "";
}

std::vector<size_t> Widths(const std::vector<Row>& rows) {
  std::vector<size_t> widths;
  for (const Row& row : rows) {
    widths.resize(std::max(widths.size(), row.size()), 0);
    for (size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], row[i].text.size());
    }
  }
  return widths;
}

}  // namespace

std::string Paint(const std::string& text, Colour colour, ColourMode mode) {
  if (mode == ColourMode::kPlain || colour == Colour::kNone) return text;
  return absl::StrCat(Code(colour), text, "\033[0m");
}

std::string FormatTable(const std::vector<Row>& given, ColourMode mode) {
  std::vector<Row> rows = given;
  for (Row& row : rows) {
    for (Cell& cell : row) cell.text = PrintableText(cell.text);
  }
  const std::vector<size_t> widths = Widths(rows);
  std::string table;
  for (const Row& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      absl::StrAppend(&table, Paint(row[i].text, row[i].colour, mode));
      const bool last = i + 1 == row.size();
      if (!last) table.append(widths[i] - row[i].text.size() + 2, ' ');
    }
    table += "\n";
  }
  return table;
}

Cell StateCell(client::JobState state) {
  using client::JobState;
  Colour colour = Colour::kYellow;
  if (state == JobState::kSucceeded || state == JobState::kRunning) {
    colour = Colour::kGreen;
  }
  if (state == JobState::kFailed) colour = Colour::kRed;
  if (state == JobState::kCancelled) colour = Colour::kNone;
  return {std::string(client::JobStateName(state)), colour};
}

}  // namespace evenstep::cli
