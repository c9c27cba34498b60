#!/usr/bin/env python3
"""Builds two commits and says what a user of the older one would see changed:
plans of random requests, losses in float64 to the last bit, fields of JSON,
names of metrics. Exit status 1 if anything differs that --expect does not name.

    compare_commits.py OLD            against the programs in build/release/bin
    compare_commits.py OLD NEW        two commits; each is built once
    compare_commits.py --programs OLD_BIN NEW_BIN
    compare_commits.py OLD --expect 'json describe .totals.cost_drift'

A difference is printed as the words that --expect takes; * matches any text.
"""

import argparse
import fnmatch
import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parent.parent
PROGRAMS = ("evenstep", "evenstep-coordinator", "evenstep-worker",
            "evenstep-trainer")


def build(commit):
    """The folder of the commit's programs; they are kept for the next time."""
    commit = subprocess.run(["git", "rev-parse", commit], cwd=TOP, check=True,
                            capture_output=True, text=True).stdout.strip()
    tree = TOP / "build" / "compare" / commit[:12]
    programs = tree / "build" / "release" / "bin"
    if not (tree / "built").exists():
        print(f"building {commit[:12]} in {tree}", file=sys.stderr)
        if not tree.exists():
            subprocess.run(["git", "worktree", "add", "--detach", str(tree),
                            commit], cwd=TOP, check=True)
        subprocess.run(["cmake", "--preset", "release"], cwd=tree, check=True,
                       stdout=subprocess.DEVNULL)
        subprocess.run(["cmake", "--build", "build/release", "--target",
                        *PROGRAMS], cwd=tree, check=True,
                       stdout=subprocess.DEVNULL)
        (tree / "built").touch()
    return programs


def facts_of(programs, options):
    print(f"collecting facts of {programs}", file=sys.stderr)
    done = subprocess.run(
        [sys.executable, HERE / "collect_facts.py", "--plans",
         str(options.plans), "--seed", str(options.seed)],
        env=os.environ | {"EVENSTEP_BIN_DIR": str(programs)}, check=True,
        stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)


def differences(old, new):
    """Each as "KIND NAME DETAIL"."""
    for kind in ("plans", "curves"):
        for name in sorted(old[kind].keys() | new[kind].keys()):
            before, after = old[kind].get(name), new[kind].get(name)
            if before == after:
                continue
            detail = ""
            if isinstance(before, dict) and isinstance(after, dict):
                detail = ",".join(sorted(
                    key for key in before.keys() | after.keys()
                    if before.get(key) != after.get(key)))
            yield f"{kind} {name} {detail}".strip()
    for name in sorted(set(old["metrics"]) ^ set(new["metrics"])):
        yield f"metric {name} {'gone' if name in old['metrics'] else 'new'}"
    for name in sorted(old["json"].keys() | new["json"].keys()):
        before, after = (side["json"].get(name, {}) for side in (old, new))
        for path in sorted(before.keys() | after.keys()):
            if before.get(path) == after.get(path):
                continue
            what = ("gone" if path not in after else
                    "new" if path not in before else
                    f"{'|'.join(before[path])} to {'|'.join(after[path])}")
            yield f"json {name} {path} {what}"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new", nargs="?")
    parser.add_argument("--programs", action="store_true")
    parser.add_argument("--plans", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--expect", action="append", default=[])
    options = parser.parse_args()
    if options.programs:
        folders = [pathlib.Path(options.old), pathlib.Path(options.new)]
    else:
        folders = [build(options.old), build(options.new) if options.new else
                   TOP / "build" / "release" / "bin"]
    old, new = (facts_of(folder, options) for folder in folders)
    found = list(differences(old, new))
    unexpected = [line for line in found if not any(
        fnmatch.fnmatchcase(line, f"{words}*") for words in options.expect)]
    for line in found:
        print(line if line in unexpected else f"expected: {line}")
    print(f"{len(old['plans'])} requests, {len(old['curves'])} loss curves, "
          f"{len(old['metrics'])} metrics, "
          f"{sum(map(len, old['json'].values()))} JSON fields: "
          f"{len(unexpected)} differ, {len(found) - len(unexpected)} more as "
          "expected")
    return 1 if unexpected else 0


if __name__ == "__main__":
    sys.exit(main())
