#ifndef EVENSTEP_CLIENT_PLAN_REPORT_STYLE_H_
#define EVENSTEP_CLIENT_PLAN_REPORT_STYLE_H_

// The style sheet of the report (plan_report.h). d0 to d9 are the colours of
// degrees, o1 to o10 how much of a cell is filled. Constant.

namespace evenstep::plan {

inline constexpr char kReportStyle[] = R"(
:root {
  color-scheme: light dark;
  --page: #ffffff; --ink: #1c2430; --soft: #5d6876; --rule: #d9dee5;
  --panel: #f6f8fa; --wait: #e9ecf0; --hatch: #c9d0d8; --bound: #c2185b;
  --good: #1b7f4d; --fixed: #8a93a0;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #14181e; --ink: #e4e8ee; --soft: #9aa5b3; --rule: #333c48;
    --panel: #1b212a; --wait: #232a34; --hatch: #3d4754; --bound: #ff6fa5;
    --good: #58c48d; --fixed: #6f7a88;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; padding: 28px 30px 48px; max-width: 1240px;
  background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", "Noto Sans",
    "DejaVu Sans", sans-serif;
}
h1 { font-size: 25px; margin: 0 0 4px; letter-spacing: -0.01em; }
h2 { font-size: 18px; margin: 36px 0 10px; }
h3 { font-size: 16px; margin: 0; }
p { margin: 4px 0; }
.gap { height: 18px; }
.soft { color: var(--soft); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: 5px 14px 5px 0; text-align: right; white-space: nowrap; }
th { color: var(--soft); font-weight: 600; font-size: 13px; }
th:first-child, td:first-child { text-align: left; }
th.text, td.text { text-align: left; }
tbody tr { border-top: 1px solid var(--rule); }
tr.even td { font-weight: 650; }
tr.even td:first-child { color: var(--good); }
.policy {
  background: var(--panel); border: 1px solid var(--rule);
  border-radius: 8px; padding: 14px 16px 8px; margin: 0 0 16px;
}
.head { display: flex; gap: 14px; align-items: baseline; flex-wrap: wrap; }
.charts { display: grid; grid-template-columns: 1fr 1fr; gap: 26px; }
.problem { border-left: 3px solid var(--bound); padding: 2px 12px; }
.legend { display: flex; gap: 16px; flex-wrap: wrap; margin: 0 0 12px; }
.legend span { display: inline-flex; align-items: center; gap: 6px; }
.legend svg { width: 16px; height: 14px; }
svg { display: block; width: 100%; height: auto; }
svg text { font-size: 11.5px; fill: var(--ink); }
svg text.label { fill: var(--soft); }
svg text.title { font-size: 12.5px; font-weight: 600; }
svg text.bar-label { font-size: 13px; }
svg text.cut { font-weight: 600; fill: var(--bound); }
svg text.bound-label { fill: var(--bound); }
svg line { stroke: var(--rule); stroke-width: 1; }
svg line.axis { stroke: var(--soft); }
svg line.node { stroke: var(--ink); stroke-opacity: 0.22; }
svg line.bound { stroke: var(--bound); stroke-width: 1.6;
  stroke-dasharray: 5 3; }
.o1, .o2, .o3, .o4, .o5, .o6, .o7, .o8, .o9, .o10 {
  shape-rendering: crispEdges;
}
.box { stroke: var(--panel); stroke-width: 0.6; }
.box:hover { stroke: var(--ink); stroke-width: 1.4; }
.waiting { fill: url(#hatch); }
.fixed { fill: var(--fixed); }
.wait-bar { fill: var(--soft); }
.plain { fill: #4c86c6; }
.bar-even { fill: var(--good); }
.d0 { fill: #4c86c6; } .d1 { fill: #3aa6a0; } .d2 { fill: #59ae55; }
.d3 { fill: #aeb03a; } .d4 { fill: #e0a030; } .d5 { fill: #e07a3c; }
.d6 { fill: #d2545c; } .d7 { fill: #b24b93; } .d8 { fill: #8257b5; }
.d9 { fill: #5b5fc0; }
.o1 { opacity: 0.1; } .o2 { opacity: 0.2; } .o3 { opacity: 0.3; }
.o4 { opacity: 0.4; } .o5 { opacity: 0.5; } .o6 { opacity: 0.6; }
.o7 { opacity: 0.7; } .o8 { opacity: 0.8; } .o9 { opacity: 0.9; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 2px 16px; }
dt { font-weight: 600; }
dd { margin: 0; color: var(--soft); }
@media (max-width: 760px) { .charts { grid-template-columns: 1fr; } }
)";

// What marks waiting: drawn once, used by every picture.
inline constexpr char kHatchPattern[] =
    R"html(<svg width="0" height="0" style="position:absolute"><defs>
<pattern id="hatch" width="7" height="7" patternUnits="userSpaceOnUse"
 patternTransform="rotate(45)"><rect width="7" height="7"
 style="fill:var(--wait)"/><rect width="2" height="7"
 style="fill:var(--hatch)"/></pattern></defs></svg>
)html";

}  // namespace evenstep::plan

#endif  // EVENSTEP_CLIENT_PLAN_REPORT_STYLE_H_
