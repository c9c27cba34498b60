#!/usr/bin/env python3
"""Makes the planner's tables of docs/performance.md of planner.json.

    make bench-planner
    bench/planner_tables.py build/bench/planner.json [--write FILE] [--gate]

Prints Markdown. With --write it takes the place of what stands between the
markers `<!-- planner tables -->` and `<!-- end of planner tables -->`. With
--gate every row that failed or missed a target, in ratio or in time, is named
on standard error, and the exit code is 1 if there is one.
"""

import argparse
import json
import pathlib
import sys

OPEN, CLOSE = "<!-- planner tables -->", "<!-- end of planner tables -->"
OBJECTIVES = ["per_step/aligned", "per_step/contiguous", "per_round/aligned",
              "per_round/contiguous"]
BATCHES = ["ln64", "wiki64", "wiki64b", "ln8", "ln8s"]


def load_rows(path):
    """Runs by row name; those that failed are among them."""
    runs = json.loads(pathlib.Path(path).read_text())["benchmarks"]
    return {run["name"].removesuffix("/iterations:1"): run for run in runs}


def failed(row):
    return bool(row.get("error_occurred"))


def failures(rows):
    """Every failed row with its reason, for people."""
    lines = [f"- `{name}` failed: {row['error_message']}"
             for name, row in rows.items() if failed(row)]
    return ["### Failed rows", ""] + lines + [""] if lines else []


def misses(rows):
    """Rows that failed, or whose label says that a target was missed."""
    lines = []
    for name, row in rows.items():
        if failed(row):
            lines.append(f"{name}: failed: {row['error_message']}")
        elif "missed" in row.get("label", ""):
            lines.append(f"{name}: {row['label']}: {figures(row)}")
    return lines


def figures(row):
    """What was measured, beside its target."""
    if "optimal" in row:
        return f"{row['optimal']:.0f} of {row['planned']:.0f} optimal"
    time = f", {row['cpu_ms']:.2f} ms of {row['max_ms']:g}" \
        if "max_ms" in row else ""
    return f"ratio {row['ratio']:.4f} of {row['max_ratio']:g}{time}"


def table(head, lines):
    rule = ["---"] + ["---:"] * (len(head) - 1)
    return ["| " + " | ".join(line) + " |" for line in [head, rule] + lines] + [""]


def figure(row, name, pattern="{:.4f}"):
    if failed(row):
        return "failed"
    return pattern.format(row[name]) if name in row else "-"


def ratio(row):
    return figure(row, "ratio")


def milliseconds(row):
    if failed(row):
        return "failed"
    number = row["cpu_ms"]
    return f"{number:.1f}" if number >= 10 else f"{number:.2f}"


def target(row):
    if failed(row):
        return "-", "failed"
    if "max_ratio" not in row:
        return "-", "-"
    time = f"{row['max_ms']:g} ms, " if "max_ms" in row else ""
    return f"{row['max_ratio']:g}", time + row["label"]


def against_targets(rows, prefix, first_column):
    """Rows below a prefix: ratio, worst, time, target."""
    lines = []
    for name, row in rows.items():
        if not name.startswith(prefix):
            continue
        aim, verdict = target(row)
        lines.append([name.removeprefix(prefix), ratio(row),
                      figure(row, "worst_ratio"), milliseconds(row), aim,
                      verdict])
    head = [first_column, "mean ratio", "worst ratio", "ms", "mean at most",
            "time at most, verdict"]
    return table(head, lines)


def shared_even(rows):
    lines = []
    for objective in OBJECTIVES:
        for batch in BATCHES:
            row = rows.get(f"shared/{objective}/{batch}/even")
            if row is not None:
                lines.append([f"{objective} {batch}", ratio(row),
                              milliseconds(row), *target(row)])
    return table(["objective, blocks, batch", "ratio", "ms", "ratio at most",
                  "time at most, verdict"], lines)


def over(row, even):
    if row is None or even is None:
        return "-"
    if failed(row) or failed(even):
        return "failed"
    return f"{row['step_s'] / even['step_s']:.3f}"


def others(rows, prefix, batches):
    """Step time of every row over that of `even`, which comes first."""
    rules = list(dict.fromkeys(
        name.split("/")[-1] for name in rows if name.startswith(prefix)))
    lines = []
    for rule in sorted(rules, key=lambda rule: rule != "even"):
        line = [rule]
        for batch in batches:
            row = rows.get(f"{prefix}{batch}/{rule}")
            even = rows.get(f"{prefix}{batch}/even")
            line.append(over(row, even))
        lines.append(line)
    return table(["row"] + batches, lines)


def recompute(rows):
    lines = [[name.removeprefix("recompute/"), ratio(row),
              "failed" if failed(row) else f"{100 * (row['gain'] - 1):.1f} %",
             milliseconds(row)]
             for name, row in rows.items() if name.startswith("recompute/")]
    return table(["objective, batch", "ratio", "gain over best single mode",
                  "ms"], lines)


def brute_force(rows):
    lines = [[name.removeprefix("brute_force/"),
              figure(row, "planned", "{:.0f}"),
              figure(row, "optimal", "{:.0f}"), row.get("label", "failed")]
             for name, row in rows.items() if name.startswith("brute_force/")]
    return table(["objective", "requests", "optimal", "99 %"], lines)


def tables(rows):
    lines = ["### Shared batches", ""] + shared_even(rows)
    lines += ["### Other rules, in the same run", "",
              "Step time over that of `even`; the last three rows are published "
              "rules, restated.", ""]
    for objective in OBJECTIVES:
        lines += [f"`{objective}`:", ""]
        lines += others(rows, f"shared/{objective}/", BATCHES)
    sections = [
        ("Fresh batches: 20 seeds of each law", "fresh/", "objective, law"),
        ("Sizes: samples, ranks, law", "scale/", "objective, size, law"),
        ("Odd worlds and unequal nodes, per_step", "world/", "ranks, law"),
        ("Built-in cost models, 512 samples on 64 ranks: lognormal, of video "
         "models clips of the law short", "model/", "objective, model"),
        ("One rank 25 % slower, against the bound with it", "slow_rank/",
         "objective, batch"),
        ("Costs wrong by up to 10 %, every coefficient on its own, against the "
         "plan for the true ones", "wrong_costs/", "objective, batch"),
        ("Every micro-batch's time off by up to 10 %, against the same plan "
         "without", "noise/", "objective, batch")]
    for title, prefix, first_column in sections:
        lines += [f"### {title}", ""]
        lines += against_targets(rows, prefix, first_column)
    lines += ["### Recompute in the choice", ""] + recompute(rows)
    lines += ["Step time over that of `even`, recompute chosen by every row:", ""]
    for objective in ["per_step/aligned", "per_round/aligned"]:
        lines += [f"`{objective}`:", ""]
        lines += others(rows, f"recompute_rules/{objective}/",
                        ["ln64", "wiki64", "wiki64b"])
    lines += ["### Brute force: at most 8 samples, 4 ranks", ""]
    return "\n".join(lines + brute_force(rows) + failures(rows))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("json")
    parser.add_argument("--write", metavar="FILE")
    parser.add_argument("--gate", action="store_true",
                        help="exit with 1 if a row failed or missed a target")
    args = parser.parse_args()
    rows = load_rows(args.json)
    text = tables(rows)
    if args.write is None:
        print(text)
    else:
        path = pathlib.Path(args.write)
        before, rest = path.read_text().split(OPEN)
        after = rest.split(CLOSE)[1]
        path.write_text(f"{before}{OPEN}\n{text}\n{CLOSE}{after}")
    missed = misses(rows) if args.gate else []
    for line in missed:
        print(line, file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
