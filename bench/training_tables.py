#!/usr/bin/env python3
"""Makes the training tables of docs/performance.md of training.json.

    make bench-training
    bench/training_tables.py build/bench/training.json [--write FILE]

Prints Markdown. With --write it takes the place of what stands between the
markers `<!-- training tables -->` and `<!-- end of training tables -->`.
"""

import argparse
import json
import pathlib

OPEN, CLOSE = "<!-- training tables -->", "<!-- end of training tables -->"
COLUMNS = [
    ("policy", lambda row: row["policy"]),
    ("tokens/s", lambda row: f"{row['tokens_per_second']:,.0f}"),
    ("per CPU second", lambda row: f"{row['tokens_per_cpu_second']:,.0f}"),
    ("noise", lambda row: f"{100 * row['noise']:.1f} %"),
    ("idle (CPU)", lambda row: f"{100 * row['idle_share']:.1f} %"),
    ("padding", lambda row: f"{100 * row['padding_ratio']:.2f} %"),
    ("recompute", lambda row: f"{100 * row['recompute_ratio']:.1f} %"),
    ("highest degree", lambda row: str(row["highest_degree"])),
    ("error of predicted step",
     lambda row: f"{100 * row['prediction_error']:.1f} %"),
]


def table(rows):
    lines = [[name for name, _ in COLUMNS],
             ["---"] + ["---:"] * (len(COLUMNS) - 1)]
    lines += [[show(row) for _, show in COLUMNS] for row in rows]
    return ["| " + " | ".join(line) + " |" for line in lines] + [""]


def title(row):
    return (f"### {row['model']}; law {row['law']}; {row['ranks']} ranks, "
            f"{row['link']}")


def tables(rows):
    sections = {}
    for row in rows:
        sections.setdefault(title(row), []).append(row)
    lines = []
    for heading, section in sections.items():
        lines += [heading, ""] + table(section)
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("json")
    parser.add_argument("--write", metavar="FILE")
    options = parser.parse_args()
    rows = json.loads(pathlib.Path(options.json).read_text())["rows"]
    text = tables(rows)
    if options.write is None:
        print(text)
        return
    path = pathlib.Path(options.write)
    before, rest = path.read_text().split(OPEN)
    after = rest.split(CLOSE)[1]
    path.write_text(f"{before}{OPEN}\n\n{text}\n{CLOSE}{after}")


if __name__ == "__main__":
    main()
