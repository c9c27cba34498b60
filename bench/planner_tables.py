#!/usr/bin/env python3
"""Makes the planner's tables of docs/performance.md of planner.json.

    make bench-planner
    bench/planner_tables.py build/bench/planner.json [--write FILE]

Prints Markdown. With --write it takes the place of what stands between the
markers `<!-- planner tables -->` and `<!-- end of planner tables -->`.
"""

import argparse
import json
import pathlib

OPEN, CLOSE = "<!-- planner tables -->", "<!-- end of planner tables -->"
OBJECTIVES = ["per_step/aligned", "per_step/contiguous", "per_round/aligned",
              "per_round/contiguous"]
BATCHES = ["ln64", "wiki64", "wiki64b", "ln8", "ln8s"]


def load_rows(path):
    """Counters by row name, for rows that ran."""
    rows = {}
    for run in json.loads(pathlib.Path(path).read_text())["benchmarks"]:
        if run.get("error_occurred"):
            continue
        rows[run["name"].removesuffix("/iterations:1")] = run
    return rows


def table(head, lines):
    rule = ["---"] + ["---:"] * (len(head) - 1)
    return ["| " + " | ".join(line) + " |" for line in [head, rule] + lines] + [""]


def ratio(row):
    return f"{row['ratio']:.4f}"


def milliseconds(row):
    number = row["cpu_ms"]
    return f"{number:.1f}" if number >= 10 else f"{number:.2f}"


def target(row):
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
        worst = f"{row['worst_ratio']:.4f}" if "worst_ratio" in row else "-"
        lines.append([name.removeprefix(prefix), ratio(row), worst,
                      milliseconds(row), aim, verdict])
    head = [first_column, "ratio", "worst", "ms", "ratio at most",
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


def shared_others(rows, objective):
    """Step time of every row over that of `even`."""
    rules = list(dict.fromkeys(
        name.split("/")[-1] for name in rows
        if name.startswith(f"shared/{objective}/")))
    lines = []
    for rule in rules:
        line = [rule]
        for batch in BATCHES:
            row = rows.get(f"shared/{objective}/{batch}/{rule}")
            even = rows.get(f"shared/{objective}/{batch}/even")
            line.append("-" if row is None or even is None
                        else f"{row['step_s'] / even['step_s']:.3f}")
        lines.append(line)
    return table(["row"] + BATCHES, lines)


def recompute(rows):
    lines = [[name.removeprefix("recompute/"), ratio(row),
              f"{100 * (row['gain'] - 1):.1f} %", milliseconds(row)]
             for name, row in rows.items() if name.startswith("recompute/")]
    return table(["objective, batch", "ratio", "gain over best single mode",
                  "ms"], lines)


def brute_force(rows):
    lines = [[name.removeprefix("brute_force/"), f"{row['planned']:.0f}",
              f"{row['optimal']:.0f}", row["label"]]
             for name, row in rows.items() if name.startswith("brute_force/")]
    return table(["objective", "requests", "optimal", "99 %"], lines)


def tables(rows):
    lines = ["### Shared batches", ""] + shared_even(rows)
    lines += ["### Other rules, in the same run", "",
              "Step time over that of `even`; the last three rows are published "
              "rules, restated.", ""]
    for objective in OBJECTIVES:
        lines += [f"`{objective}`:", ""] + shared_others(rows, objective)
    sections = [
        ("Fresh batches: 20 seeds of each law", "fresh/", "objective, law"),
        ("Sizes: samples, ranks, law", "scale/", "objective, size, law"),
        ("Odd worlds and unequal nodes, per_step", "world/", "ranks, law"),
        ("Built-in cost models, 512 lognormal samples on 64 ranks", "model/",
         "objective, model"),
        ("One rank 25 % slower, against the ideal", "slow_rank/",
         "objective, batch"),
        ("Coefficients of the costs wrong by up to 10 %, against the plan for "
         "the true ones", "wrong_costs/", "objective, batch"),
        ("Every micro-batch's time off by up to 10 %, against the same plan "
         "without", "noise/", "objective, batch")]
    for title, prefix, first_column in sections:
        lines += [f"### {title}", ""]
        lines += against_targets(rows, prefix, first_column)
    lines += ["### Recompute in the choice", ""] + recompute(rows)
    lines += ["### Brute force: at most 8 samples, 4 ranks", ""]
    return "\n".join(lines + brute_force(rows))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("json")
    parser.add_argument("--write", metavar="FILE")
    args = parser.parse_args()
    text = tables(load_rows(args.json))
    if args.write is None:
        print(text)
        return
    path = pathlib.Path(args.write)
    before, rest = path.read_text().split(OPEN)
    after = rest.split(CLOSE)[1]
    path.write_text(f"{before}{OPEN}\n{text}\n{CLOSE}{after}")


if __name__ == "__main__":
    main()
