"""A video job: made-up latents, trained by two ranks, the same under every
policy."""

import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

import case_runner
from cluster import BIN

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples/video"
# Costs under which ranks share clips; measured ones depend on the machine.
COSTS = {
    "micro_batch_fixed_ns": 100000, "linear_ns_per_token": 0.0,
    "quadratic_ns_per_token2": 0.0, "collective_latency_ns": 1000,
    "spatial_linear_ns_per_token": 5e4, "temporal_linear_ns_per_token": 5e4,
    "spatial_quadratic_ns_per_token2": 20.0,
    "temporal_quadratic_ns_per_token2": 20.0,
    "collective": [{"degree": 2, "ns_per_token": 100.0}],
    "step_fixed_ns": 1000000}


class VideoTest(unittest.TestCase):

    def setUp(self):
        self.folder = pathlib.Path(
            self.enterContext(tempfile.TemporaryDirectory()))
        self.clips = self.folder / "clips"
        made = self.run_evenstep("data", "make-latents", self.clips,
                                 "--clips", 48)
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assertEqual(made.stdout, f"latents:{self.clips}\n")
        self.costs = self.folder / "costs.json"
        self.costs.write_text(json.dumps(COSTS))

    def run_evenstep(self, *arguments):
        return subprocess.run([str(BIN / "evenstep"), *map(str, arguments)],
                              text=True, capture_output=True, timeout=240,
                              check=False, stdin=subprocess.DEVNULL)

    def train(self, name, *arguments):
        out = self.folder / name
        done = self.run_evenstep(
            "local", EXAMPLE / "job.yaml", "--data", f"latents:{self.clips}",
            "--steps", 6, "--output", out, "--set", "optimizer.warmup=0",
            "--set", "model.width=32", *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads((out / "summary.json").read_text())

    def test_the_example_trains_with_costs_of_its_own(self):
        summary = self.train("measured")
        self.assertEqual(len(summary["losses"]), 6)
        weights = self.folder / "measured/model.safetensors"
        self.assertTrue(weights.exists())
        self.check_film_strip(weights)

    # A sample above the clip of the data that has its size.
    def check_film_strip(self, weights):
        sample = self.folder / "sample.gif"
        made = self.run_evenstep("generate", weights, "--frames", 4,
                                 "--height", 8, "--width", 8, "--steps", 2,
                                 "--out", sample)
        self.assertEqual(made.returncode, 0, made.stderr)
        strip = self.folder / "strip.png"
        subprocess.run(
            [sys.executable, EXAMPLE / "film_strip.py", "--out", strip,
             sample, self.clips],
            check=True, timeout=60)
        picture = strip.read_bytes()
        self.assertEqual(picture[:8], b"\x89PNG\r\n\x1a\n")
        # Every second frame of four, 32 pixels wide each; two rows.
        self.assertEqual(struct.unpack_from(">II", picture, 16),
                         (2 * 32 + 4, 2 * 32 + 8))

    # Noise, timesteps and given frames do not depend on who runs a clip.
    def test_every_policy_gives_the_same_curve(self):
        curves = {}
        # A rank that holds 512 tokens shares the longest clips with the other.
        for name, policy, more in (
                ("even", "even", ()),
                ("shared", "even", ("--set", "memory.tokens_per_rank=512")),
                ("static", "static", ()),
                ("packed", "packed", ()),
                ("alone", "balanced", ("--ranks", 1))):
            curves[name] = self.train(
                name, "--policy", policy, "--costs", self.costs,
                "--set", "precision=float64", *more)["losses"]
        for name, curve in curves.items():
            self.assertEqual(len(curve), 6)
            worst = max(abs(a - b) for a, b in zip(curve, curves["static"]))
            self.assertLess(worst, 1e-9, name)

    def test_the_plan_chooses_what_is_recomputed_of_either_kind(self):
        fixed = self.train("fixed", "--costs", self.costs, "--set",
                           "precision=float64")["losses"]
        # The longest clip has 512 tokens: too many for two ranks that hold 200
        # each, unless they recompute.
        for policy in ("even", "bucket", "bucket-tuned", "dcp-intra"):
            summary = self.train(
                policy, "--policy", policy, "--costs", self.costs,
                "--set", "precision=float64", "--set",
                "memory.recompute=plan", "--set", "memory.tokens_per_rank=200")
            worst = max(abs(a - b) for a, b in zip(summary["losses"], fixed))
            self.assertLess(worst, 1e-9, policy)
            steps = summary["steps"]
            self.assertTrue(any(step["recompute_ratio"] > 0 for step in steps),
                            policy)
            for step in steps:
                self.assertLess(step["peak_activation_bytes"],
                                1.05 * step["predicted_activation_bytes"])

    def test_bytes_of_each_step_are_as_predicted(self):
        for step in self.train("bytes", "--costs", self.costs)["steps"]:
            self.assertAlmostEqual(
                step["predicted_activation_bytes"] /
                step["peak_activation_bytes"], 1, delta=0.15, msg=str(step))

    def test_a_job_plans_with_its_models_profile(self):
        profile = self.folder / "profile.yaml"
        small = ("--set", "memory.tokens_per_rank=512")
        done = self.run_evenstep(
            "profile", EXAMPLE / "job.yaml", "--ranks", 2, "--repeats", 1,
            "--set", f"data.source=latents:{self.clips}", "--set",
            "model.width=32", *small, "--out", profile, "-o", "json")
        self.assertEqual(done.returncode, 0, done.stderr)
        made = json.loads(done.stdout)
        self.assertGreater(made["costs"]["spatial_linear_ns_per_token"], 0)
        memory = made["memory"]
        self.assertAlmostEqual(
            memory["predicted_bytes"] / memory["largest_bytes"], 1, delta=0.15)
        summary = self.train("profiled", "--costs", profile, *small)
        for cost in ("micro_batch_fixed_ns", "collective"):
            self.assertEqual(summary["costs"][cost], made["costs"][cost])

    def test_bad_video_jobs_say_what_is_wrong(self):
        for setting, sentence in {
                "model.layers=3": "is odd",
                "model.kind=text": "video",
                "model.channels=4": "the model has 4 channels"}.items():
            done = self.run_evenstep(
                "local", EXAMPLE / "job.yaml", "--data",
                f"latents:{self.clips}", "--steps", 1, "--set", setting,
                "--set", "optimizer.warmup=0", "--output", self.folder / "bad")
            self.assertNotEqual(done.returncode, 0, setting)
            self.assertIn(sentence, done.stderr, setting)


if __name__ == "__main__":
    case_runner.main()
