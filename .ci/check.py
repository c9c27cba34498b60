#!/usr/bin/env python3
"""Runs the scripts of .ci one after another within a bound on time.

Each script is a check that anyone can run alone. One that does not fit into
the time that is left is named and counted as skipped. With --gating, all of
CHECKS run, and of IN_TURN the one whose turn it is, by the number of commits.
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

# Script and the seconds it takes on two cores with cold caches. The order is
# what finds most per minute first.
CHECKS = [
    ("format.sh", 60),
    ("assertions.py", 10),
    ("generated.sh", 60),
    ("chaos.sh", 300),
    ("clang.sh", 900),
]
# After the check whose turn it is: what may be left out first.
LAST = [
    ("fuzz.sh", 600),
    ("cuda.sh", 600),
]
# One of these before each landing: all of them together take over an hour.
IN_TURN = [
    ("asan.sh", 1500),
    ("tsan.sh", 900),
    ("asan_torch.sh", 1800),
    ("tidy.sh", 900),
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


def git(*arguments):
    done = subprocess.run(["git", *arguments], cwd=HERE, text=True,
                          capture_output=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def turn():
    """Which of IN_TURN is due, and why."""
    if git("rev-parse", "--is-shallow-repository") == "false":
        count = int(git("rev-list", "--count", "HEAD"))
        return count % len(IN_TURN), f"commit {count}"
    # A shallow clone does not know how many commits there are, nor does an
    # exported tree: a commit's hash, or else the day, visits all in the long
    # run.
    head = git("rev-parse", "HEAD")
    if head:
        return (int(head[:8], 16) % len(IN_TURN),
                f"a shallow clone of {head[:8]}")
    day = int(time.time() // 86400)
    return day % len(IN_TURN), "no git repository, by the day"


def plan(gating):
    """(Script, seconds, why it is left out or None), in order."""
    first = [(*check, None) for check in CHECKS]
    last = [(*check, None) for check in LAST]
    if not gating:
        return first + last + [(*check, None) for check in IN_TURN]
    due, why = turn()
    print(f"check: {IN_TURN[due][0]} has its turn ({why})")
    return first + [(*IN_TURN[due], None)] + last + [
        (*check, "it is another one's turn")
        for i, check in enumerate(IN_TURN) if i != due]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=7200)
    parser.add_argument("--gating", action="store_true",
                        help="what must be green to land: of the slow checks "
                        "the one whose turn it is")
    options = parser.parse_args()
    deadline = time.monotonic() + options.seconds
    subprocess.run([HERE / "setup.sh"], check=True)
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for script, expected, why_not in plan(options.gating):
        if why_not:
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
