#!/usr/bin/env python3
"""The shape of the tree in numbers: how much there is to read, and how many
places one fact has.

    .ci/shape.py                 of the working tree
    .ci/shape.py COMMIT          of a commit
    .ci/shape.py COMMIT COMMIT   of both, side by side
"""

import itertools
import pathlib
import re
import statistics
import subprocess
import sys
import tarfile
import tempfile

TOP = pathlib.Path(__file__).resolve().parent.parent
CODE = re.compile(r"\.(cc|h|cu)$")
NOT_PRODUCT = re.compile(
    r"^(tests|bench|examples)/|/(testing|benchmark)/|_(test|fuzz|benchmark)\.cc$"
    r"|_fixture\.h$|/fake_")
# Facts whose places are counted: a number of a step's report, a term of the
# cost model, a key of a job file.
STEP_NUMBER = "groups_opened"
COST_TERM = "linear_ns_per_token"
JOB_KEY = "on_bad_sample"


class Tree:
    """All tracked files of one commit, or of the working tree."""

    def __init__(self, folder, names):
        self.names = names
        self.text = {}
        for name in names:
            path = folder / name
            if path.is_file() and path.suffix in {
                    ".cc", ".h", ".cu", ".proto", ".py", ".md", ".txt",
                    ".yaml", ".json"}:
                self.text[name] = path.read_text(errors="replace")
        self.code = [n for n in names if CODE.search(n) and n in self.text]
        self.product = [n for n in self.code if not NOT_PRODUCT.search(n)]


def working_tree():
    names = subprocess.run(["git", "ls-files"], cwd=TOP, check=True,
                           capture_output=True, text=True).stdout.split("\n")
    return Tree(TOP, [n for n in names if n])


def commit_tree(commit):
    with tempfile.TemporaryDirectory() as folder:
        archive = pathlib.Path(folder) / "tree.tar"
        subprocess.run(["git", "archive", "-o", str(archive), commit], cwd=TOP,
                       check=True)
        with tarfile.open(archive) as tar:
            names = [m.name for m in tar.getmembers() if m.isfile()]
            tar.extractall(folder, filter="data")
        archive.unlink()
        return Tree(pathlib.Path(folder), names)


def includes(text):
    return re.findall(r'^#include "(.*?)"', text, re.M)


def lonely_headers(tree):
    """Headers that at most one product file but their own source includes."""
    users = {}
    for name in tree.product:
        for target in includes(tree.text[name]):
            if pathlib.Path(target).with_suffix("") != pathlib.Path(
                    name).with_suffix(""):
                users.setdefault(target, set()).add(name)
    headers = [n for n in tree.product if n.endswith(".h")]
    few = [h for h in headers if len(users.get(public_name(h), ())) <= 1]
    return len(few), len(headers)


def public_name(header):
    return re.sub(r"^(client|worker/trainer)/include/", "", header)


def function_lines(tree):
    """Lines of every function that is defined outside of a class."""
    lengths = []
    for name in tree.product:
        start = None
        for number, line in enumerate(tree.text[name].split("\n")):
            if line.startswith("}"):
                if start is not None and line == "}":
                    lengths.append(number - start + 1)
                start = None
            elif re.match(r"[A-Za-z_\[]", line) and "(" in line:
                start = number
            elif re.match(r"(namespace|class|struct|enum|using)\b", line):
                start = None
    return lengths


def class_methods(tree):
    """Declared methods by class."""
    counts = {}
    for name in tree.product:
        for match in re.finditer(r"^class (?:\w+ )*?(\w+)(?: final)?(?: :[^{;]*)?"
                                 r" \{\n(.*?)^\};", tree.text[name],
                                 re.M | re.S):
            body = re.sub(r"//.*", "", match[2])
            methods = re.findall(
                r"^  (?!  )(?!return|using|friend|~|explicit|struct|class)"
                r"[\w:<>,&*\s\[\]]*?\b(\w+)\([^;{]*?\)[^;{}]*[;{]", body, re.M)
            methods = [m for m in methods
                       if m != match[1] and not m.startswith("ABSL_")]
            counts[f"{match[1]} ({name})"] = len(methods)
    return counts


def upward_includes(tree):
    """Includes to take away until no two folders of a room need each other. A
    room's own files count one by one: they are its words and its door."""
    total, where = 0, []
    for room in ("planner", "coordinator", "worker/agent", "worker/trainer",
                 "client", "data", "jobspec"):
        edges = {}
        for name in tree.product:
            if not name.startswith(room + "/"):
                continue
            for target in includes(tree.text[name]):
                a, b = node_in(room, name), node_in(room, target)
                if b is not None and a != b:
                    edges.setdefault((a, b), []).append(f"{name} -> {target}")
        for component in strong_components(edges):
            order = best_order(component, edges)
            for (a, b), found in edges.items():
                if a in order and b in order and order[a] < order[b]:
                    total += len(found)
                    where += found
    return total, where


def node_in(room, name):
    if not name.startswith(room + "/"):
        return None
    rest = name[len(room) + 1:].split("/")
    return rest[0].split(".")[0] if len(rest) == 1 else rest[0] + "/"


def strong_components(edges):
    nodes = sorted({n for edge in edges for n in edge})
    reach = {n: {n} for n in nodes}
    changed = True
    while changed:
        changed = False
        for a, b in edges:
            if not reach[b] <= reach[a]:
                reach[a] |= reach[b]
                changed = True
    seen = set()
    for n in nodes:
        component = {m for m in nodes if m in reach[n] and n in reach[m]}
        if len(component) > 1 and n not in seen:
            seen |= component
            yield sorted(component)


def best_order(component, edges):
    """Position of each node, so that few includes point upward."""
    def cost(order):
        place = {n: i for i, n in enumerate(order)}
        return sum(len(found) for (a, b), found in edges.items()
                   if a in place and b in place and place[a] < place[b])

    if len(component) <= 7:
        best = min(itertools.permutations(component), key=cost)
    else:
        best = list(component)
        improved = True
        while improved:
            improved = False
            for i, j in itertools.permutations(range(len(best)), 2):
                other = list(best)
                other.insert(j, other.pop(i))
                if cost(other) < cost(best):
                    best, improved = other, True
    return {n: i for i, n in enumerate(best)}


def places(tree, word):
    """Files but tests, change log and data that name a fact."""
    return [n for n, text in tree.text.items()
            if word in text and not NOT_PRODUCT.search(n)
            and n != "CHANGELOG.md" and not n.startswith(".ci/")
            and not n.startswith("docs/adr/")
            and pathlib.Path(n).suffix in {".cc", ".h", ".cu", ".proto"}]


def shape(tree):
    lines = {n: tree.text[n].count("\n") for n in tree.product}
    few, headers = lonely_headers(tree)
    largest, methods = max(class_methods(tree).items(), key=lambda kv: kv[1])
    return {
        "product files": len(tree.product),
        "product lines": sum(lines.values()),
        "headers with at most one user": f"{few} of {headers}",
        f"files that name the step number {STEP_NUMBER}":
            len(places(tree, STEP_NUMBER)),
        f"files that name the cost term {COST_TERM}":
            len(places(tree, COST_TERM)),
        f"files that name the job key {JOB_KEY}": len(places(tree, JOB_KEY)),
        "methods of the largest class": f"{methods}, {largest}",
        "upward includes inside rooms": upward_includes(tree)[0],
        "median lines of a function":
            int(statistics.median(function_lines(tree))),
        "median lines of a file": int(statistics.median(lines.values())),
        "files above 400 lines": sum(n > 400 for n in lines.values()),
    }


def main():
    commits = sys.argv[1:]
    trees = [commit_tree(c) for c in commits] or [working_tree()]
    shapes = [shape(tree) for tree in trees]
    for key in shapes[0]:
        print(f"{key:48} " + "   ".join(f"{s[key]!s:>10}" for s in shapes))


if __name__ == "__main__":
    main()
