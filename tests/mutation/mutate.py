#!/usr/bin/env python3
"""Changes the code in one small way after another, and sees a test fail.

For each mutant (mutants.py) of the files in TARGETS: compiles that one file
from a scratch folder, links one test binary with it, and runs the tests that
watch it. Neither the tree nor the build folder is changed; the build folder
must hold the test binaries. A mutant that no test notices must stand in
survivors.md with the reason why it is harmless, or the run fails.

    python3 tests/mutation/mutate.py --build build/release --seed 1
    python3 tests/mutation/mutate.py --build build/release --file gate.cc

Results are kept in WORK/results.jsonl, so that an interrupted run goes on
where it was; a file whose code changes begins anew. Exit status 1:
an unexplained survivor.
"""

import argparse
import collections
import dataclasses
import hashlib
import json
import os
import pathlib
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import time

import mutants

HERE = pathlib.Path(__file__).resolve().parent
TREE = HERE.parent.parent
GIB = 1 << 30


@dataclasses.dataclass(frozen=True)
class Target:
    file: str
    test: str       # the binary
    filters: tuple  # run one after another until one fails
    count: int      # mutants of a run, drawn by the seed
    every: tuple = ()  # kinds of mutants that are always all run


# First those that notice most in the least time.
PLANS = ("FormulasTest.*:CostModelTest.*:SampleSizeTest.*:DegreesTest.*:"
         "MemoryModelTest.*:FitsTest.*:CheckerTest.*",
         "BoundsTest.*:CasesTest.*:ReferenceBoundTest.*:StaticPolicies*",
         "*:-ElasticTest.*:SimulatorTest.*:CostFileTest.*:CheckerTest.*:"
         "BoundsTest.*:ReferenceBoundTest.*:FormulasTest.*")
TARGETS = [
    Target("planner/proof/checker_formulas.cc", "planner_test", PLANS, 30,
           ("term",)),
    Target("planner/proof/checker.cc", "planner_test", PLANS, 60),
    Target("planner/proof/bounds.cc", "planner_test", PLANS, 30),
    Target("planner/costs/cost_table.cc", "planner_test", PLANS, 30),
    Target("planner/costs/cost_model.cc", "planner_test", PLANS, 40),
    Target("planner/costs/memory_model.cc", "planner_test", PLANS, 30),
    Target("planner/costs/degrees.cc", "planner_test", PLANS, 20),
    Target("planner/costs/sample_size.cc", "planner_test", PLANS, 12),
    Target("planner/costs/fits.cc", "planner_test", PLANS, 12),
    Target("worker/trainer/link/gate.cc", "trainer_gate_test", ("*",), 40),
    Target("worker/trainer/parallel/gradient_buffer.cc",
           "trainer_step_runner_test", ("*",), 25),
    Target("worker/trainer/optim/flat_parameters.cc", "trainer_adamw_test",
           ("*",), 10),
    Target("worker/trainer/optim/adamw.cc", "trainer_adamw_test", ("*",), 15),
]


def commands_of(build, target):
    """The link command of a test, as words."""
    done = subprocess.run(
        ["ninja", "-C", str(build), "-t", "commands", f"tests/{target}"],
        capture_output=True, text=True, check=True)
    last = done.stdout.splitlines()[-1]
    words = shlex.split(last.replace(": && ", "").replace(" && :", ""))
    return words


def compile_command(build, source):
    """Of one file of the tree, without ccache, warnings and output."""
    for entry in json.loads((build / "compile_commands.json").read_text()):
        if pathlib.Path(entry["file"]) == source:
            words = shlex.split(entry["command"])
            break
    else:
        raise SystemExit(f"{build} does not compile {source}")
    first = next(i for i, word in enumerate(words)
                 if re.search(r"(g\+\+|clang\+\+|c\+\+)(-\d+)?$", word))
    kept = []
    words = iter(words[first:])
    for word in words:
        if word in ("-o", "-c", "-MF", "-MT"):
            next(words)
        elif not re.match(r"-O\d|-W|-MD", word):
            kept.append(word)
    # Checked indices: an access past the end is noticed.
    return kept + ["-O1", "-w", "-D_GLIBCXX_ASSERTIONS"]


class Bench:
    """Compiles, links and tests mutants of one file."""

    def __init__(self, target, build, work):
        self.target = target
        self.build = build
        self.folder = work / target.file.replace("/", "+")
        self.folder.mkdir(parents=True, exist_ok=True)
        self.source = (TREE / target.file).read_text()
        self.name = pathlib.Path(target.file).name
        self.compiler = compile_command(build, TREE / target.file)
        self.linker = commands_of(build, target.test)
        self.cpu_seconds = {}

    def prepare(self):
        """Headers once, then the unchanged file: its tests must pass."""
        self._copy_inputs()
        includes = "".join(line + "\n" for line in self.source.splitlines()
                           if line.startswith("#include"))
        header = self.folder / "headers.h"
        header.write_text("#pragma GCC system_header\n" + includes)
        subprocess.run([*self.compiler, "-x", "c++-header", str(header), "-o",
                        str(header) + ".gch"], cwd=self.build, check=True)
        self.compiler += ["-include", str(header)]
        if not self._compile(self.source):
            raise SystemExit(f"{self.target.file} does not compile")
        self.unchanged = self._object().read_bytes()
        self._link()
        for tests in self.target.filters:
            outcome, by, self.cpu_seconds[tests] = self._test(tests, 600)
            if outcome != "survived":
                raise SystemExit(f"unchanged {self.target.file}: {by} fails")

    def _copy_inputs(self):
        """What is linked stays as it is now, whatever is built meanwhile."""
        inputs = self.folder / "inputs"
        inputs.mkdir(exist_ok=True)
        for i, word in enumerate(self.linker):
            path = self.build / word
            if word.endswith((".o", ".a")) and path.is_file():
                copy = inputs / f"{i}-{path.name}"
                shutil.copyfile(path, copy)
                self.linker[i] = str(copy)
        binary = str(self.folder / "test")
        self.linker[self.linker.index("-o") + 1] = binary
        # Before the archives, whose copy is then not taken.
        self.linker.insert(1, str(self._object()))

    def run(self, mutant):
        """(outcome, the test that noticed)."""
        changed = mutants.apply(self.source, mutant)
        lost = self.source.count("\n") - changed.count("\n")
        if lost > 0:  # keeps the line numbers
            end = mutant.begin + len(mutant.text)
            changed = changed[:end] + "\n" * lost + changed[end:]
        if not self._compile(changed):
            return "invalid", ""
        if self._object().read_bytes() == self.unchanged:
            return "same code", ""
        self._link()
        for tests in self.target.filters:
            limit = 4 * self.cpu_seconds[tests] + 3
            outcome, by, _ = self._test(tests, limit)
            if outcome != "survived":
                return outcome, by
        return "survived", ""

    def _object(self):
        return self.folder / "mutant.o"

    def _compile(self, text):
        source = self.folder / self.name
        source.write_text(text)
        done = subprocess.run(
            [*self.compiler, "-c", str(source), "-o", str(self._object())],
            cwd=self.build, capture_output=True, check=False)
        return done.returncode == 0

    def _link(self):
        subprocess.run(self.linker, cwd=self.build, check=True)

    def _test(self, tests, cpu_limit):
        def limits():
            resource.setrlimit(resource.RLIMIT_CPU,
                               (int(cpu_limit) + 1, int(cpu_limit) + 2))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_AS, (48 * GIB, 48 * GIB))

        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        with subprocess.Popen(
                [str(self.folder / "test"), f"--gtest_filter={tests}", "--gtest_fail_fast",
                 "--gtest_brief=1"],
                env={**os.environ, "EVENSTEP_SOURCE_DIR": str(TREE),
                     "EVENSTEP_BIN_DIR": str(self.build / "bin")},
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                preexec_fn=limits, start_new_session=True) as process:
            try:
                output, _ = process.communicate(timeout=20 * cpu_limit + 60)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                output, _ = process.communicate()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = (after.ru_utime + after.ru_stime - before.ru_utime -
                   before.ru_stime)
        text = output.decode(errors="replace")
        if process.returncode == 0:
            if "Running 0 tests" in text:
                raise SystemExit(f"{tests} names no test")
            return "survived", "", seconds
        if process.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
            return "timeout", "", seconds
        failed = re.findall(r"\[  FAILED  \] ([A-Za-z]\S*)", text)
        by = (failed[0].rstrip(",") if failed else
              f"signal {-process.returncode}")
        return "caught", by, seconds


def choose(target, source, seed):
    """All mutants of the kinds that are always run, and `count` more."""
    made = mutants.make_mutants(source)

    def draw(mutant):
        return hashlib.sha256(f"{seed}:{mutant.key}".encode()).hexdigest()

    always = [m for m in made if m.kind in target.every]
    others = sorted((m for m in made if m.kind not in target.every), key=draw)
    chosen = always + others[:target.count]
    return sorted(chosen, key=lambda m: (m.begin, m.end, m.text)), len(made)


class Results:
    """One JSON object a line; the last one of a mutant counts."""

    def __init__(self, path):
        self.path = path
        self.known = {}
        if path.exists():
            for line in path.read_text().splitlines():
                entry = json.loads(line)
                self.known[self._id(entry)] = entry

    @staticmethod
    def _id(entry):
        return (entry["file"], entry["digest"], entry["key"])

    def get(self, file, digest, mutant):
        return self.known.get((file, digest, mutant.key))

    def add(self, entry):
        self.known[self._id(entry)] = entry
        with self.path.open("a") as out:
            out.write(json.dumps(entry) + "\n")


def read_reasons():
    """(file, line of code, change) of the survivors that are explained: rows
    `| file | code | change | reason |`."""
    reasons = set()
    for line in (HERE / "survivors.md").read_text().splitlines():
        cells = [cell.strip().strip("`").replace("\\|", "|")
                 for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == 4 and cells[3]:
            reasons.add(tuple(" ".join(c.split()) for c in cells[:3]))
    return reasons


def is_explained(entry, reasons):
    return tuple(" ".join(str(entry[key]).split())
                 for key in ("file", "source", "note")) in reasons


def table(entries, reasons):
    """Markdown, a row a file."""
    rows = ["| file | mutants | caught | by time-out | survived | explained | "
            "share caught |", "|---|---|---|---|---|---|---|"]
    by_file = collections.defaultdict(list)
    for entry in entries:
        by_file[entry["file"]].append(entry)
        by_file["all"].append(entry)
    for file, those in sorted(by_file.items(), key=lambda f: f[0] == "all"):
        counts = collections.Counter(e["outcome"] for e in those)
        survived = [e for e in those if e["outcome"] == "survived"]
        noticed = counts["caught"] + counts["timeout"]
        rows.append(
            f"| {file} | {noticed + len(survived)} | {counts['caught']} | "
            f"{counts['timeout']} | {len(survived)} | "
            f"{sum(is_explained(e, reasons) for e in survived)} | "
            f"{noticed / max(1, noticed + len(survived)):.1%} |")
    return "\n".join(rows) + "\n"


def run_target(target, options, results, deadline):
    """The entries of all chosen mutants that were run, now or before."""
    source = (TREE / target.file).read_text()
    chosen, made = choose(target, source, options.seed)
    code = mutants.code_of(source)
    digest = hashlib.sha256(code.encode()).hexdigest()[:16]
    print(f"{target.file}: {len(chosen)} of {made} mutants", flush=True)
    bench = None
    entries = []
    for mutant in chosen:
        entry = results.get(target.file, digest, mutant)
        again = options.again and entry and entry["outcome"] == "survived"
        if entry is None or again:
            if time.monotonic() > deadline or options.left <= 0:
                if entry:
                    entries.append(entry)
                continue
            if bench is None:
                bench = Bench(target, options.build, options.work)
                bench.prepare()
            options.left -= 1
            begin = time.monotonic()
            outcome, by = bench.run(mutant)
            entry = {"file": target.file, "digest": digest, "key": mutant.key,
                     "kind": mutant.kind, "source": mutant.source,
                     "note": mutant.note, "outcome": outcome, "by": by,
                     "seconds": round(time.monotonic() - begin, 1)}
            results.add(entry)
            print(f"{outcome:9} {entry['seconds']:5} s  line {mutant.line}: "
                  f"{mutant.source}  [{mutant.note}] {by}", flush=True)
        entries.append(entry)
    return entries


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path,
                        default=TREE / "build/release")
    parser.add_argument("--work", type=pathlib.Path,
                        default=TREE / "build/mutation")
    parser.add_argument("--file", action="append", default=[],
                        help="targets whose path ends so; default: all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--again", action="store_true",
                        help="run the survivors again")
    parser.add_argument("--most", type=int, default=1 << 30, dest="left",
                        help="run no more mutants than that now")
    parser.add_argument("--seconds", type=float, default=1e9)
    options = parser.parse_args()
    options.build = options.build.resolve()
    options.work = options.work.resolve()
    options.work.mkdir(parents=True, exist_ok=True)
    results = Results(options.work / "results.jsonl")
    deadline = time.monotonic() + options.seconds
    entries = []
    for target in TARGETS:
        if not options.file or target.file.endswith(tuple(options.file)):
            entries += run_target(target, options, results, deadline)
    reasons = read_reasons()
    text = table(entries, reasons)
    (options.work / "table.md").write_text(text)
    print(text)
    unexplained = [e for e in entries if e["outcome"] == "survived"
                   and not is_explained(e, reasons)]
    for entry in unexplained:
        print(f"survived: {entry['file']}: {entry['key']}")
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
