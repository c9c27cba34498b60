#!/usr/bin/env python3
"""Runs every test and counts single test cases, not binaries.

ctest starts the binaries; each GoogleTest binary writes an XML file from which
its cases are counted. A binary that fails without a failed case (a crash, a
time-out) counts as one failure. The last line is `N passed, N failed`, with
`, N skipped` when a test said why it could not run.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import xml.etree.ElementTree as ElementTree


class Counts:
    def __init__(self):
        self.passed = 0
        self.failed = 0
        self.skipped = []
        self.failures = []

    def add_gtest_file(self, path):
        for case in ElementTree.parse(path).getroot().iter("testcase"):
            name = f"{case.get('classname')}.{case.get('name')}"
            skipped = case.find("skipped")
            if case.find("failure") is not None:
                self.failed += 1
                self.failures.append(name)
            elif skipped is not None or case.get("result") == "skipped":
                reason = skipped.get("message", "") if skipped is not None else ""
                self.skipped.append((name, " ".join(reason.split())))
            elif case.get("status") == "run":
                self.passed += 1


def run_ctest(options, junit):
    command = ["ctest", "--test-dir", str(options.build), "-j",
               str(options.jobs), "--output-on-failure", "--no-tests=error",
               "--output-junit", str(junit)]
    for flag, value in (("-L", options.label), ("-R", options.only),
                        ("-E", options.without)):
        if value:
            command += [flag, value]
    return subprocess.run(command, check=False).returncode


def count(build, junit):
    counts = Counts()
    results = build / "test-results"
    for case in ElementTree.parse(junit).getroot().iter("testcase"):
        name = case.get("name")
        gtest_file = results / f"{name}.xml"
        failed_before = counts.failed
        passed = case.get("status") == "run"
        if gtest_file.exists():
            counts.add_gtest_file(gtest_file)
        elif passed:
            counts.passed += 1
        if not passed and counts.failed == failed_before:
            counts.failed += 1
            counts.failures.append(f"{name} (ended without a failed case)")
    return counts


def report(counts):
    for name, reason in counts.skipped:
        print(f"skipped: {name}: {reason}")
    for name in counts.failures:
        print(f"failed: {name}")
    line = f"{counts.passed} passed, {counts.failed} failed"
    if counts.skipped:
        line += f", {len(counts.skipped)} skipped"
    print(line)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--label", help="unit, parity, e2e, fault or deploy")
    parser.add_argument("--only", metavar="REGEX",
                        help="tests of these names")
    parser.add_argument("--without", metavar="REGEX",
                        help="no tests of these names")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args()
    build = options.build.resolve()
    results = build / "test-results"
    results.mkdir(exist_ok=True)
    for old in results.glob("*.xml"):
        old.unlink()
    junit = build / "ctest.xml"
    options.build = build
    status = run_ctest(options, junit)
    counts = count(build, junit)
    if status != 0 and counts.failed == 0:
        counts.failed = 1
        counts.failures.append(f"ctest (exit status {status})")
    report(counts)
    return 1 if counts.failed else 0


if __name__ == "__main__":
    sys.exit(main())
