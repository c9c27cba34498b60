"""The demo's driver, on a small job: the real one takes minutes."""

import json
import pathlib
import subprocess
import sys
import tempfile
import types
import unittest

import case_runner
from cluster import BIN, write_documents

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples/demo"))
import run_demo  # noqa: E402  pylint: disable=wrong-import-position
FIGURES = {"step_seconds", "tokens_per_second", "idle_share", "padding_ratio",
           "first_loss", "final_loss"}


class DemoTest(unittest.TestCase):

    def run_demo(self, folder, *settings):
        write_documents(folder / "documents")
        command = [sys.executable, ROOT / "examples/demo/run_demo.py",
                   "--bin", BIN, "--out", folder / "out"]
        for setting in (f"data.source=text:{folder / 'documents'}",
                        "data.max_length=1024", "model.width=32",
                        "model.layers=1", "memory.tokens_per_rank=1024",
                        *settings):
            command += ["--set", setting]
        return subprocess.run(list(map(str, command)), text=True,
                              capture_output=True, timeout=300, check=False)

    def test_the_table_and_the_summary_have_every_figure(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            done = self.run_demo(folder, "optimizer.lr=0.02")
            self.assertEqual(done.returncode, 0, done.stderr)
            summary = json.loads((folder / "out/summary.json").read_text())
        for policy in ("static", "balanced", "packed", "even"):
            self.assertIn(f"\n{policy}", done.stdout)
            self.assertGreaterEqual(set(summary[policy]), FIGURES)
        for key in ("speedup", "max_loss_difference", "coordination_share"):
            self.assertIsInstance(summary[key], float)

    def test_broken_promises_are_named(self):
        def run(losses, plan_lead_share=1.0, step_seconds=1.0):
            steps = [{"step_seconds": step_seconds}] * 4
            found = types.SimpleNamespace(policy="even", steps=steps)
            found.losses = losses
            found.summary = {"plan_lead_share": plan_lead_share}
            return found

        good = run([5.0, 4.0, 3.0, 3.0])
        self.assertEqual(run_demo.check([good], 1e-6, 0.001), [])
        for problems in (
                run_demo.check([run([5.0, 4.9, 4.9, 4.9])], 1e-6, 0.001),
                run_demo.check([run(good.losses, 0.5)], 1e-6, 0.001),
                run_demo.check([good], 1e-2, 0.001),
                run_demo.check([good], 1e-6, 0.02)):
            self.assertEqual(len(problems), 1, problems)
        # What a plan or a gate costs is judged of steps that are long enough.
        for seconds, num_problems in ((0.19, 0), (0.2, 2)):
            problems = run_demo.check([run(good.losses, 0.5, seconds)], 1e-6,
                                      0.02)
            self.assertEqual(len(problems), num_problems, problems)

    def test_curves_that_differ_by_ten_times_what_was_seen_fail(self):
        self.assertLess(run_demo.LARGEST_DIFFERENCE, 10 * 6.3e-7)

    def test_an_even_that_is_slower_than_static_fails(self):
        def run(policy, *cpu_seconds, step_seconds=1.0):
            return run_demo.Run(policy, 6, {"steps": [
                {"loss": 1.0, "step_seconds": step_seconds,
                 "slowest_cpu_seconds": seconds}
                for seconds in (99.0, 99.0, *cpu_seconds)]})

        static = [run("static", 1.0, 2.0), run("static", 1.1, 2.1)]
        for even, num_problems in (
                ([run("even", 1.0, 2.0)] * 2, 0),
                ([run("even", 0.5, 1.0)] * 2, 0),
                # One run beside something else on the machine.
                ([run("even", 1.0, 2.0), run("even", 3.0, 6.0)], 0),
                ([run("even", 1.1, 2.2)] * 2, 1)):
            problems = run_demo.check_faster(static + even)
            self.assertEqual(len(problems), num_problems, problems)
        self.assertEqual(problems, [
            "6 documents a step: even takes 10.0% more CPU seconds than static;"
            " noise is 5%"])
        short = [run(policy, seconds, step_seconds=0.01)
                 for policy, seconds in (("static", 1.0), ("even", 2.0))]
        self.assertEqual(run_demo.check_faster(short), [])


if __name__ == "__main__":
    case_runner.main()
