#!/usr/bin/env python3
"""Runs ddp_baseline.py beside evenstep's rows and prints the ratios.

Needs a finished `make bench-training` (its corpus and its rows) and a Python
torch; by hand, not in the default tests. Modes are interleaved, there and back.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bench", type=pathlib.Path, required=True,
                        help="build/bench, after make bench-training")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--repeats", type=int, default=2)
    options = parser.parse_args()
    corpus = options.bench / "training" / "loopback" / "wikipedia.jsonl"
    rows = json.loads((options.bench / "training.json").read_text())["rows"]
    runs = {"padded": [], "packed": []}
    for repeat in range(options.repeats):
        modes = ["padded", "packed"] if repeat % 2 == 0 else ["packed",
                                                              "padded"]
        for mode in modes:
            done = subprocess.run(
                [sys.executable, HERE / "ddp_baseline.py", "--corpus", corpus,
                 "--mode", mode], capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise SystemExit(done.stderr)
            runs[mode].append(json.loads(done.stdout.splitlines()[-1]))
    table = []
    for mode, results in runs.items():
        table.append({
            "engine": results[0]["engine"], "policy": mode,
            "tokens_per_second": statistics.median(
                r["tokens_per_second"] for r in results),
            "tokens_per_cpu_second": statistics.median(
                r["tokens_per_cpu_second"] for r in results),
            "final_loss": results[0]["losses"][-1]})
    for row in rows:
        if row["link"] == "loopback":
            table.append({"engine": "evenstep", **row})
    base = {key: table[0][key] for key in ("tokens_per_second",
                                           "tokens_per_cpu_second")}
    print(f"{'engine':31}{'policy':14}{'tokens/s':>10}{'ratio':>7}"
          f"{'per CPU s':>11}{'ratio':>7}{'final loss':>12}")
    for row in table:
        print(f"{row['engine']:31}{row['policy']:14}"
              f"{row['tokens_per_second']:10.0f}"
              f"{row['tokens_per_second'] / base['tokens_per_second']:7.2f}"
              f"{row['tokens_per_cpu_second']:11.0f}"
              f"{row['tokens_per_cpu_second'] / base['tokens_per_cpu_second']:7.2f}"
              f"{row['final_loss']:12.4f}")
    if options.out:
        options.out.write_text(json.dumps(table, indent=2) + "\n")


if __name__ == "__main__":
    main()
