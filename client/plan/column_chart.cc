#include "client/plan/column_chart.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/plan/axis.h"
#include "client/plan/plan_table.h"
#include "client/plan/svg.h"

namespace evenstep::plan {
namespace {

constexpr double kLeft = 44;
constexpr double kTop = 26;
constexpr double kBottom = 38;

constexpr double kBarHeight = 22;
constexpr double kBarWidth = 1140;
constexpr double kBarLeft = 150;

std::string ValueLabel(double value, ColumnChartOptions::Unit unit) {
  if (unit == ColumnChartOptions::Unit::kPercent) {
    return absl::StrFormat("%.0f%%", value * 100);
  }
  return ShortCount(value);
}

void DrawLabel(double x, double y, const std::string& text, LabelLine& line,
               Svg& svg) {
  if (text.empty()) return;
  const auto middle = line.Place(x, text);
  if (middle.has_value()) svg.Text(*middle, y, "middle", text, "label");
}

}  // namespace

std::string ColumnChart(const std::vector<Column>& columns,
                        const ColumnChartOptions& options) {
  double most = options.most;
  if (most == 0) {
    for (const Column& column : columns) most = std::max(most, column.value);
  }
  if (most <= 0) most = 1;
  const double plot_height = options.height - kTop - kBottom;
  const double plot_width = options.width - kLeft - 6;
  const double bottom = kTop + plot_height;
  auto y = [&](double value) {
    return bottom - plot_height * std::min(1.0, value / most);
  };
  Svg svg(options.width, options.height, options.title);
  svg.Text(0, 12, "start", options.title, "title");
  for (const Tick& tick : RoundTicks(most, 3)) {
    svg.Line(kLeft, y(tick.value), kLeft + plot_width, y(tick.value), "grid");
    svg.Text(kLeft - 6, y(tick.value) + 4, "end",
             ValueLabel(tick.value, options.unit), "label");
  }
  const double slot = plot_width / std::max<size_t>(1, columns.size());
  const double gap = slot > 4 ? std::min(3.0, slot * 0.15) : 0;
  LabelLine below(kLeft - 20, options.width);
  LabelLine on_top(kLeft - 20, options.width);
  for (size_t i = 0; i < columns.size(); ++i) {
    const Column& column = columns[i];
    const double x = kLeft + slot * static_cast<double>(i);
    svg.Rect(
        {x + gap / 2, y(column.value), slot - gap, bottom - y(column.value)},
        column.style_class, column.tooltip);
    const double middle = x + slot / 2;
    DrawLabel(middle, y(column.value) - 4, column.text, on_top, svg);
    DrawLabel(middle, bottom + 15, column.label, below, svg);
  }
  svg.Line(kLeft, bottom, kLeft + plot_width, bottom, "axis");
  svg.Text(kLeft + plot_width / 2, bottom + 31, "middle", options.axis,
           "label");
  if (options.line > 0) {
    svg.Line(kLeft, y(options.line), kLeft + plot_width, y(options.line),
             "bound");
    svg.Text(kLeft + plot_width, y(options.line) - 5, "end", options.line_label,
             "bound-label");
  }
  return std::move(svg).Finish();
}

std::string BarChart(const std::vector<Bar>& bars, double line,
                     const std::string& line_label, const std::string& title) {
  double most = line;
  double right = 0;  // room for the longest text
  for (const Bar& bar : bars) {
    most = std::max(most, bar.value);
    right = std::max(right, LabelWidth(bar.text) + 7);
  }
  if (most <= 0) most = 1;
  const double height = kBarHeight * static_cast<double>(bars.size());
  auto x = [&](double value) {
    return kBarLeft + (kBarWidth - kBarLeft - right) * value / most;
  };
  Svg svg(kBarWidth, height + 22, title);
  for (size_t i = 0; i < bars.size(); ++i) {
    const Bar& bar = bars[i];
    const double y = 18 + kBarHeight * static_cast<double>(i);
    svg.Text(kBarLeft - 10, y + 14, "end", bar.label, "bar-label");
    svg.Rect({kBarLeft, y + 2, x(bar.value) - kBarLeft, kBarHeight - 5},
             bar.style_class, absl::StrCat(bar.label, ": ", bar.text));
    svg.Text(x(bar.value) + 7, y + 14, "start", bar.text, "label");
  }
  if (line > 0) {
    svg.Line(x(line), 14, x(line), height + 20, "bound");
    svg.Text(x(line), 10, "middle", line_label, "bound-label");
  }
  return std::move(svg).Finish();
}

}  // namespace evenstep::plan
