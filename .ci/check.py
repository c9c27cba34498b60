#!/usr/bin/env python3
"""Runs the scripts of .ci one after another within a bound on time.

Each script is a check that anyone can run alone. One that does not fit into
the time that is left is named and counted as skipped.
"""

import argparse
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent

# Script, the seconds it takes on two cores with cold caches, and why `.ci/run`
# leaves it out; empty: it gates. The order is what finds most per minute first.
CHECKS = [
    ("format.sh", 60, ""),
    ("generated.sh", 60, ""),
    ("clang.sh", 900, ""),
    ("fuzz.sh", 600, ""),
    ("cuda.sh", 600, "fetches 200 MB where there is no CUDA toolkit"),
    ("asan.sh", 900, "has not yet been run to its end"),
    ("tsan.sh", 900, "has not yet been run to its end"),
    ("asan_torch.sh", 1200, "has not yet been run to its end"),
    ("tidy.sh", 900, "has not yet been run to its end"),
]


def run_check(script, seconds):
    print(f"check: {script}", flush=True)
    started = time.monotonic()
    try:
        status = subprocess.run([HERE / script], timeout=seconds,
                                check=False).returncode
    except subprocess.TimeoutExpired:
        print(f"check: {script} did not end within {seconds:.0f} s")
        status = 124
    print(f"check: {script}: status {status}, "
          f"{time.monotonic() - started:.0f} s", flush=True)
    return status


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=7200)
    parser.add_argument("--gating", action="store_true",
                        help="only the checks that must be green to land")
    options = parser.parse_args()
    deadline = time.monotonic() + options.seconds
    subprocess.run([HERE / "setup.sh"], check=True)
    passed = failed = skipped = 0
    for script, expected, why_not in CHECKS:
        if options.gating and why_not:
            print(f"check: left out {script}: {why_not}")
            skipped += 1
            continue
        left = deadline - time.monotonic()
        if left < expected:
            print(f"check: left out {script}: takes up to {expected} s, "
                  f"{left:.0f} s are left")
            skipped += 1
            continue
        status = run_check(script, left)
        if status == 0:
            passed += 1
        else:
            failed += 1
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
