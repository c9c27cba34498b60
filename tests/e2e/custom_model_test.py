"""A model of one's own in a trainer of its own: trained, planned by measured
costs, profiled, and missed where it is not."""

import json
import pathlib
import re
import subprocess
import tempfile
import unittest

import case_runner
from cluster import BIN, write_documents

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples/custom_model"
TRAINER = BIN / "gpt2-trainer"
# Costs under which ranks share documents; measured ones depend on the machine.
COSTS = {
    "micro_batch_fixed_ns": 100000, "linear_ns_per_token": 1e4,
    "quadratic_ns_per_token2": 20.0, "collective_latency_ns": 1000,
    "collective": [{"degree": 2, "ns_per_token": 100.0}],
    "gather": [{"degree": 2, "ns_per_token": 100.0}],
    "step_fixed_ns": 1000000}


def lines_of_code(path):
    """Neither blank nor comment."""
    lines = [line.strip() for line in path.read_text().splitlines()]
    return len([line for line in lines if line and not line.startswith("//")])


class CustomModelTest(unittest.TestCase):

    def setUp(self):
        self.folder = pathlib.Path(
            self.enterContext(tempfile.TemporaryDirectory()))
        write_documents(self.folder / "notes")
        self.costs = self.folder / "costs.json"
        self.costs.write_text(json.dumps(COSTS))

    def run_evenstep(self, *arguments):
        return subprocess.run([str(BIN / "evenstep"), *map(str, arguments)],
                              text=True, capture_output=True, timeout=240,
                              check=False, stdin=subprocess.DEVNULL)

    def local(self, name, *arguments, trainer=TRAINER):
        chosen = ("--trainer", trainer) if trainer else ()
        return self.run_evenstep(
            "local", EXAMPLE / "job.yaml", *chosen, "--data",
            f"text:{self.folder}/notes", "--steps", 6, "--output",
            self.folder / name, "--set", "optimizer.warmup=0", "--set",
            "model.width=32", *arguments)

    def train(self, name, *arguments):
        done = self.local(name, *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads((self.folder / name / "summary.json").read_text())

    def test_it_trains_with_costs_that_are_measured_on_it(self):
        summary = self.train("measured")
        self.assertEqual(len(summary["losses"]), 6)
        self.assertLess(summary["losses"][-1], summary["losses"][0])
        self.assertGreater(summary["costs"]["linear_ns_per_token"], 0)
        weights = (self.folder / "measured/model.safetensors").read_bytes()
        self.assertIn(b"layers.1.qkv.weight", weights)
        self.assertIn(b'"evenstep.model.name":"gpt2"', weights)

    def test_every_policy_and_mode_gives_the_same_curve(self):
        curves = {}
        gathered = ("--set", "model.sp_modes=kv_gather")
        for name, policy, more in (
                ("static", "static", ()),
                ("even", "even", ()),
                ("packed", "packed", ()),
                ("gathered", "static", gathered),
                ("whole", "balanced", ("--ranks", 1, "--set",
                                       "memory.tokens_per_rank=4096",
                                       "--set", "memory.recompute_layers=2"))):
            curves[name] = self.train(
                name, "--policy", policy, "--costs", self.costs,
                "--set", "precision=float64", "--set", "data.max_length=1024",
                # Half of the documents need both ranks.
                "--set", "memory.tokens_per_rank=512", *more)["losses"]
        for name, curve in curves.items():
            self.assertEqual(len(curve), 6)
            worst = max(abs(a - b) for a, b in zip(curve, curves["static"]))
            self.assertLess(worst, 1e-9, name)

    def test_a_name_that_the_trainer_does_not_know_is_answered(self):
        unknown = self.local("unknown", "--set", "model.name=gpt3")
        self.assertEqual(unknown.returncode, 1, unknown.stderr)
        self.assertRegex(unknown.stdout + unknown.stderr,
                         "'gpt3' is unknown to this trainer; did you mean "
                         "'gpt2'")
        plain = self.local("plain", trainer=None)
        self.assertEqual(plain.returncode, 1, plain.stderr)
        self.assertRegex(plain.stdout + plain.stderr,
                         "built with no custom models")

    def test_it_is_evaluated_and_goes_on_from_its_own_weights(self):
        held_out = ("--set", "evaluation.share=0.2")
        first = self.train("first", *held_out)
        # As others leave beside weights; it is no Llama's.
        weights = self.folder / "first"
        (weights / "config.json").write_text('{"model_type": "gpt2"}')
        given = ("--set", f"model.weights={weights}")
        second = self.train("second", *held_out, *given)
        self.assertLess(second["losses"][0], first["losses"][0])
        self.assertLess(second["evaluations"][-1]["loss"],
                        first["evaluations"][-1]["loss"])
        self.assertFalse((self.folder / "second/config.json").exists())
        refused = self.local("refused", *given, "--set", "model.name=",
                             trainer=None)
        self.assertEqual(refused.returncode, 2, refused.stderr)
        self.assertRegex(refused.stdout + refused.stderr,
                         "model.name is gpt2, the job's model has none")

    def test_it_goes_on_with_a_text(self):
        self.train("asked", "--set", "data.max_length=512", "--set",
                   "memory.tokens_per_rank=512")
        words = ("generate", self.folder / "asked", "-o", "json", "--prompt",
                 "int ", "--temperature", 0)

        def text(*more):
            done = self.run_evenstep(*words, "--trainer", TRAINER, *more)
            self.assertEqual(done.returncode, 0, done.stderr)
            return json.loads(done.stdout)
        short = text("--max-tokens", 20)
        self.assertEqual(short["prompt_tokens"], list(b"int "))
        self.assertEqual(len(short["tokens"]), 20)
        # It has as many positions as the job's longest sample.
        long = text("--max-tokens", 1000)
        self.assertEqual(len(long["tokens"]), 508)
        self.assertEqual(long["tokens"][:20], short["tokens"])
        refused = self.run_evenstep(*words)
        self.assertNotEqual(refused.returncode, 0)
        self.assertRegex(refused.stderr, "'gpt2' is unknown: .*--trainer")

    def test_what_it_costs_is_profiled(self):
        profile = self.folder / "profile.yaml"
        done = self.run_evenstep(
            "profile", EXAMPLE / "job.yaml", "--trainer", TRAINER, "--repeats",
            1, "--out", profile, "--set", "model.width=32", "--set",
            "model.layers=1", "--set", "memory.recompute_layers=0", "--set",
            "data.max_length=256", "--set", "memory.tokens_per_rank=256")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("name=gpt2", profile.read_text())

    def test_the_readme_counts_the_lines(self):
        readme = (EXAMPLE / "README.md").read_text()
        counted = dict(re.findall(r"\[`(\S+)`\]\(\1\) \| (\d+)", readme))
        self.assertEqual(set(counted), {"gpt2.h", "gpt2.cc", "main.cc"})
        for name, lines in counted.items():
            self.assertEqual(int(lines), lines_of_code(EXAMPLE / name), name)


if __name__ == "__main__":
    case_runner.main()
