#!/usr/bin/env python3
"""Writes the reference pages from what defines them, or compares them.

docs/metrics.md comes from the definitions in the two files that register every
metric, docs/cli.md from the --help of the binaries.
"""

import argparse
import difflib
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
BIN = pathlib.Path(os.environ.get("EVENSTEP_BIN_DIR", ROOT / "build/release/bin"))
NOTE = "<!-- Written by `.ci/generated.sh --fix`. Do not edit. -->\n\n"
TEXT = r'((?:"(?:[^"\\]|\\.)*"\s*)+)'  # one string in pieces


def join(pieces):
    return "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', pieces))


def labels_of(source, member):
    """Labels with which series of the family are made, in the code's order."""
    found = []
    for call in re.findall(rf"\b{member}\s*\.Add\((.*?)\)\s*[;.]", source,
                           re.DOTALL):
        names = re.findall(r'\{\s*"(\w+)"\s*,', call)
        if not names and call.startswith("labels"):
            names = ["job"]
        found += [name for name in names if name not in found]
    return found


def coordinator_metrics():
    source = (ROOT / "coordinator/server/metrics.cc").read_text()
    metrics = []
    pattern = rf"(?:(\w+)\(\s*)?Add(Gauge|Counter|Histogram)s\(\s*{TEXT},\s*{TEXT}\)"
    for member, kind, name, text in re.findall(pattern, source):
        labels = labels_of(source, member) if member else ["version"]
        metrics.append((join(name), kind.lower(), labels, join(text)))
    return source, metrics


def agent_metrics():
    source = (ROOT / "worker/agent/agent_metrics.cc").read_text()
    metrics = []
    pattern = rf"(\w+)\(\s*(Gauge|CounterFamily|Counter)\(\s*\*registry_,\s*{TEXT},\s*{TEXT}\)"
    for member, kind, name, text in re.findall(pattern, source):
        metrics.append(("evenstep_agent_" + join(name),
                        kind.removesuffix("Family").lower(),
                        labels_of(source, member), join(text)))
    return source, metrics


def table(metrics):
    lines = ["| metric | type | labels | meaning |", "|---|---|---|---|"]
    for name, kind, labels, text in sorted(metrics):
        shown = ", ".join(f"`{label}`" for label in labels) or "-"
        lines.append(f"| `{name}` | {kind} | {shown} | {text.rstrip('.')} |")
    return "\n".join(lines) + "\n"


def metrics_page():
    source, coordinator = coordinator_metrics()
    agent_source, agent = agent_metrics()
    # A definition that the patterns miss must not go unseen.
    assert len(coordinator) == len(re.findall(r'"evenstep_\w+"', source))
    assert len(agent) == len(re.findall(r"\*registry_, *\n? *\"", agent_source))
    return (f"# Metrics\n\n{NOTE}Base units; histograms have `_bucket`, `_sum` "
            "and `_count`. Series of a job go a while after its end\n"
            "(`--metrics-retention`).\n\n"
            f"## Coordinator (`--metrics-listen`)\n\n{table(coordinator)}\n"
            f"## Agent (`--metrics-listen`)\n\n{table(agent)}")


def help_of(*command):
    environment = {k: v for k, v in os.environ.items()
                   if not k.startswith("EVENSTEP_")}
    done = subprocess.run([BIN / command[0], *command[1:], "--help"], text=True,
                          capture_output=True, check=True, env=environment)
    lines = [line.rstrip() for line in done.stdout.strip().splitlines()]
    return "\n".join(lines).replace(str(BIN) + "/", "")


def section(*command):
    return f"## {' '.join(command)}\n\n```\n{help_of(*command)}\n```\n"


def cli_page():
    overview = help_of("evenstep")
    block = overview.split("Subcommands:")[1].split("\n\n")[0]
    commands = re.findall(r"^  (\w+) ", block, re.MULTILINE)
    assert len(commands) > 5, overview
    pages = [section("evenstep")]
    for command in commands:
        pages.append(section("evenstep", command))
        for inner in help_of("evenstep", command).split("Subcommands:")[1:]:
            names = re.findall(r"^  (\w+) ", inner.split("\n\n")[0],
                               re.MULTILINE)
            pages += [section("evenstep", command, name) for name in names]
    pages += [section("evenstep-coordinator"), section("evenstep-worker")]
    return f"# Commands and flags\n\n{NOTE}" + "\n".join(pages)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fix", action="store_true", help="write the pages")
    options = parser.parse_args()
    status = 0
    for name, page in (("docs/metrics.md", metrics_page()),
                       ("docs/cli.md", cli_page())):
        path = ROOT / name
        old = path.read_text() if path.exists() else ""
        if old == page:
            continue
        if options.fix:
            path.write_text(page)
            print(f"written: {name}")
            continue
        sys.stdout.writelines(difflib.unified_diff(
            old.splitlines(True), page.splitlines(True), name, "generated"))
        print(f"{name} is not what the code says; run .ci/generated.sh --fix")
        status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
