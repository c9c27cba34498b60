#include "client/plan/svg.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

namespace evenstep::plan {
namespace {

std::string Number(double value) {
  std::string text = absl::StrFormat("%.1f", value);
  if (text.size() > 2 && text.substr(text.size() - 2) == ".0") {
    text.resize(text.size() - 2);
  }
  return text;
}

std::string ClassAttribute(absl::string_view style_class) {
  if (style_class.empty()) return "";
  return absl::StrCat(" class=\"", style_class, "\"");
}

}  // namespace

std::string EscapeHtml(absl::string_view text) {
  return absl::StrReplaceAll(text, {{"&", "&amp;"},
                                    {"<", "&lt;"},
                                    {">", "&gt;"},
                                    {"\"", "&quot;"},
                                    {"'", "&#39;"}});
}

double LabelWidth(absl::string_view text) {
  constexpr double kLetterWidth = 7;  // of 11.5 px
  return kLetterWidth * static_cast<double>(text.size());
}

std::optional<double> LabelLine::Place(double x, absl::string_view text) {
  constexpr double kGap = 4;
  const double half = LabelWidth(text) / 2;
  const double middle = std::min(x, right_ - half);
  if (middle - half < free_from_) return std::nullopt;
  free_from_ = middle + half + kGap;
  return middle;
}

Svg::Svg(double width, double height, absl::string_view label)
    : svg_(absl::StrCat("<svg viewBox=\"0 0 ", Number(width), " ",
                        Number(height), "\" role=\"img\" aria-label=\"",
                        EscapeHtml(label), "\">\n")) {}

void Svg::Rect(const Box& box, absl::string_view style_class,
               absl::string_view tooltip) {
  absl::StrAppend(&svg_, "<rect x=\"", Number(box.x), "\" y=\"", Number(box.y),
                  "\" width=\"", Number(box.width), "\" height=\"",
                  Number(box.height), "\"", ClassAttribute(style_class));
  if (tooltip.empty()) {
    absl::StrAppend(&svg_, "/>\n");
  } else {
    absl::StrAppend(&svg_, "><title>", EscapeHtml(tooltip),
                    "</title></rect>\n");
  }
}

void Svg::Line(double x1, double y1, double x2, double y2,
               absl::string_view style_class) {
  absl::StrAppend(&svg_, "<line x1=\"", Number(x1), "\" y1=\"", Number(y1),
                  "\" x2=\"", Number(x2), "\" y2=\"", Number(y2), "\"",
                  ClassAttribute(style_class), "/>\n");
}

void Svg::Text(double x, double y, absl::string_view anchor,
               absl::string_view text, absl::string_view style_class) {
  absl::StrAppend(&svg_, "<text x=\"", Number(x), "\" y=\"", Number(y),
                  "\" text-anchor=\"", anchor, "\"",
                  ClassAttribute(style_class), ">", EscapeHtml(text),
                  "</text>\n");
}

std::string Svg::Finish() && { return std::move(svg_) + "</svg>\n"; }

}  // namespace evenstep::plan
