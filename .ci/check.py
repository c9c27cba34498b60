#!/usr/bin/env python3
"""Runs the scripts of .ci one after another within a bound on time.

Each script is a check that anyone can run alone. One that does not fit into
the time that is left is named and counted as skipped.
"""

import argparse
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent

# Script, the seconds it takes on two cores with cold caches, and why `.ci/run`
# leaves it out; empty: it gates. The order is what finds most per minute first.
CHECKS = [
    ("format.sh", 60, ""),
    ("generated.sh", 60, ""),
    ("clang.sh", 900, ""),
    ("fuzz.sh", 600, ""),
    ("cuda.sh", 600, ""),
    ("asan.sh", 1800, "takes half an hour"),
    ("tsan.sh", 900, "needs abseil's source package"),
    ("asan_torch.sh", 1200, "has not yet been run to its end"),
    ("tidy.sh", 900, "has not yet been run to its end"),
]


NOTHING_RAN = re.compile(r"0 passed, 0 failed, [1-9]\d* skipped")


def run_check(script, seconds):
    """The outcome: passed, failed, or skipped where a script says that it ran
    nothing."""
    print(f"check: {script}", flush=True)
    started = time.monotonic()
    last = ""
    with subprocess.Popen([HERE / script], text=True, stdout=subprocess.PIPE,
                          start_new_session=True) as process:
        late = threading.Timer(seconds, os.killpg,
                               [process.pid, signal.SIGKILL])
        late.start()
        for line in process.stdout:
            print(line, end="", flush=True)
            last = line
    late.cancel()
    status = process.returncode
    took = time.monotonic() - started
    if status == -signal.SIGKILL and took >= seconds:
        print(f"check: {script} did not end within {seconds:.0f} s")
    print(f"check: {script}: status {status}, {took:.0f} s", flush=True)
    if status != 0:
        return "failed"
    return "skipped" if NOTHING_RAN.match(last) else "passed"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=7200)
    parser.add_argument("--gating", action="store_true",
                        help="only the checks that must be green to land")
    options = parser.parse_args()
    deadline = time.monotonic() + options.seconds
    subprocess.run([HERE / "setup.sh"], check=True)
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for script, expected, why_not in CHECKS:
        if options.gating and why_not:
            print(f"check: left out {script}: {why_not}")
            counts["skipped"] += 1
            continue
        left = deadline - time.monotonic()
        if left < expected:
            print(f"check: left out {script}: takes up to {expected} s, "
                  f"{left:.0f} s are left")
            counts["skipped"] += 1
            continue
        counts[run_check(script, left)] += 1
    print(", ".join(f"{count} {outcome}" for outcome, count in counts.items()))
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
