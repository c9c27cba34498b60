"""`evenstep plan` as a user runs it, and every such command of the documents."""

import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

import case_runner
from cluster import BIN, write_documents

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENTS = ("README.md", "docs/plan.md")
LENGTHS = [128, 700, 2_048, 300, 16_000, 511, 90, 1_024] * 8


def documented_commands(document):
    """Lines of indented code that run `evenstep plan`, with what they print.

    A blank line within the code is part of what is printed.
    """
    found = []
    for line in (ROOT / document).read_text().splitlines():
        match = re.match(r"    (?:\$ )?(.*\bevenstep plan .*)", line)
        if match:
            found.append((match.group(1), []))
        elif found and line.startswith("    "):
            found[-1][1].append(line[4:])
        elif found and line:
            found.append((None, []))
    return [(command, shown) for command, shown in found if command]


def deterministic(text):
    """Lines as words, without the planning time that ends a policy's row."""
    lines = [re.sub(r"(\dx\s+)[\d.]+$", r"\1", line)
             for line in text.splitlines()]
    return [line.split() for line in lines if line.strip()]


class PlanTest(unittest.TestCase):

    def setUp(self):
        self.folder = pathlib.Path(
            self.enterContext(tempfile.TemporaryDirectory()))
        text = "".join(f"{length}\n" for length in LENGTHS)
        (self.folder / "lengths.txt").write_text(text)
        write_documents(self.folder / "notes")
        made = self.run_shell("evenstep data make-latents clips --clips 8")
        self.assertEqual(made.returncode, 0, made.stderr)

    def run_shell(self, command):
        environment = dict(os.environ, HOME=str(self.folder),
                           PATH=f"{BIN.resolve()}:{os.environ['PATH']}")
        return subprocess.run(["bash", "-c", command], cwd=self.folder,
                              env=environment, text=True, timeout=60,
                              capture_output=True, check=False)

    def plan_json(self, arguments):
        done = self.run_shell(f"evenstep plan {arguments} -o json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_every_command_of_the_documents_runs(self):
        for document in DOCUMENTS:
            commands = documented_commands(document)
            self.assertGreaterEqual(len(commands), 1, document)
            for command, shown in commands:
                with self.subTest(document=document, command=command):
                    done = self.run_shell(command)
                    wanted = 5 if "# exit code 5" in command else 0
                    self.assertEqual(done.returncode, wanted, done.stderr)
                    printed = deterministic(done.stdout + done.stderr)
                    for line in deterministic("\n".join(shown)):
                        self.assertIn(line, printed)

    def test_the_documents_show_whole_tables(self):
        """So that the comparison above has figures to compare."""
        for document in DOCUMENTS:
            rows = [line for _, shown in documented_commands(document)
                    for line in deterministic("\n".join(shown))
                    if line[0] in ("even", "static", "bucket")]
            self.assertGreaterEqual(len(rows), 3, document)

    def test_five_hundred_samples_are_planned_within_a_second(self):
        start = os.times().children_user
        self.plan_json("--lengths wikipedia --gpus 64 --policy all")
        self.assertLess(os.times().children_user - start, 1.0)

    def test_the_plan_holds_every_sample_once_and_adds_up(self):
        answer = self.plan_json("--lengths lengths.txt --gpus 8")
        for run in answer["policies"]:
            with self.subTest(policy=run["policy"]):
                samples = [sample for batch in run["plan"]["micro_batches"]
                           for sample in batch["samples"]]
                self.assertEqual(sorted(samples), list(range(len(LENGTHS))))
                self.assertAlmostEqual(
                    run["ratio"],
                    run["step_seconds"] / run["lower_bound_seconds"], 9)
                self.assertAlmostEqual(
                    run["tokens_per_second"],
                    sum(LENGTHS) / run["step_seconds"], 3)
        by_name = {run["policy"]: run for run in answer["policies"]}
        best = min(run["step_seconds"] for run in answer["policies"])
        self.assertEqual(by_name["even"]["step_seconds"], best)

    def test_threads_and_repeats_change_no_byte_of_a_plan(self):
        def digests(arguments):
            answer = self.plan_json(f"--lengths lengths.txt {arguments}")
            return [run["plan"] for run in answer["policies"]]
        self.assertEqual(digests("--threads 1"), digests("--threads 4"))
        self.assertEqual(digests(""), digests(""))

    def test_stdin_and_a_data_set_are_read(self):
        done = self.run_shell(
            "evenstep plan --lengths - --gpus 2 <lengths.txt")
        self.assertIn("standard input: 64 samples", done.stdout)
        answer = self.plan_json("--data text:notes --samples 4 --gpus 2")
        self.assertEqual(answer["request"]["samples"], 4)

    def test_the_report_is_one_page_that_draws_every_policy(self):
        done = self.run_shell("evenstep plan --lengths lengths.txt --gpus 8 "
                              "--report plan.html")
        self.assertEqual(done.returncode, 0, done.stderr)
        page = (self.folder / "plan.html").read_text()
        self.assertNotRegex(page, r"https?:|<script|src=|href=")
        self.assertEqual(page.count("<section"), 8)

    def test_what_does_not_fit_exits_with_five_and_says_why(self):
        done = self.run_shell("evenstep plan --lengths lengths.txt --gpus 2 "
                              "--tokens-per-gpu 100 --recompute fixed")
        self.assertEqual(done.returncode, 5)
        self.assertRegex(done.stdout, "no plan: sample 4 has 16000 tokens")
        self.assertIn("It fits with", done.stdout)


if __name__ == "__main__":
    case_runner.main()
