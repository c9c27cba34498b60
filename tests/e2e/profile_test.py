"""`evenstep profile`: costs before a job, used by it, refused elsewhere."""

import json
import os
import pathlib
import signal
import subprocess
import tempfile
import unittest

import case_runner
from cluster import BIN, write_documents, write_job


class ProfileTest(unittest.TestCase):

    def setUp(self):
        self.folder = pathlib.Path(
            self.enterContext(tempfile.TemporaryDirectory()))
        write_documents(self.folder / "documents")
        self.job = write_job(self.folder / "job.yaml",
                             self.folder / "documents", steps=6)
        self.profile = self.folder / "profile.yaml"

    def evenstep(self, *arguments):
        return subprocess.run([str(BIN / "evenstep"), *map(str, arguments)],
                              text=True, capture_output=True, timeout=180,
                              check=False, stdin=subprocess.DEVNULL)

    def make_profile(self):
        done = self.evenstep("profile", self.job, "--ranks", 2, "--repeats", 1,
                             "--set", "memory.tokens_per_rank=256", "--out",
                             self.profile, "-o", "json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def run_job(self, name):
        out = self.folder / name
        done = self.evenstep("local", self.job, "--costs", self.profile,
                             "--output", out)
        return done, out / "summary.json"

    def test_a_process_that_may_use_one_core_measures_with_one_rank(self):
        core = min(os.sched_getaffinity(0))
        with subprocess.Popen(
                ["taskset", "-c", str(core), str(BIN / "evenstep"), "profile",
                 str(self.job), "--out", str(self.profile)], text=True,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE) as process:
            said = process.stderr.readline()  # before it measures
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)
        self.assertIn(" on 1 rank; about a minute", said)

    def test_a_job_plans_with_its_models_profile(self):
        profile = self.make_profile()
        self.assertGreater(profile["num_points"], 10)
        done, summary = self.run_job("run")
        self.assertEqual(done.returncode, 0, done.stderr)
        summary = json.loads(summary.read_text())
        self.assertEqual(summary["costs"]["linear_ns_per_token"],
                         profile["costs"]["linear_ns_per_token"])
        self.assertGreater(summary["totals"]["prediction_error"], 0)

    def test_another_devices_profile_is_refused_with_both_keys(self):
        own = self.make_profile()["device"]
        text = self.profile.read_text()
        self.profile.write_text(text.replace(own, "gpu of another"))
        done, _ = self.run_job("run")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("gpu of another", done.stderr)
        self.assertIn(own, done.stderr)

    def test_another_models_profile_is_refused_at_once(self):
        self.make_profile()
        done = self.evenstep("local", self.job, "--costs", self.profile,
                             "--set", "model.layers=5", "--output",
                             self.folder / "run")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("layers=5", done.stderr)


if __name__ == "__main__":
    case_runner.main()
