"""cmake --install, and the two C++ examples built against it, outside the tree."""

import json
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import case_runner
from cluster import BIN, Cluster, write_documents, write_job
from custom_model_test import COSTS

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"


def run(*command, **more):
    return subprocess.run([str(word) for word in command], text=True,
                          capture_output=True, timeout=300, check=False,
                          stdin=subprocess.DEVNULL, **more)


class InstallTest(unittest.TestCase):

    def setUp(self):
        self.folder = pathlib.Path(
            self.enterContext(tempfile.TemporaryDirectory()))
        self.prefix = self.folder / "prefix"
        self.must_run("cmake", "--install", BIN.parent, "--prefix",
                      self.prefix)

    def must_run(self, *command):
        done = run(*command)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def build(self, example, target):
        """Copied first: nothing of the tree is found by a relative path."""
        source = self.folder / example
        shutil.copytree(EXAMPLES / example, source)
        build = source / "build"
        self.must_run("cmake", "-S", source, "-B", build, "-G", "Ninja",
                      f"-DCMAKE_PREFIX_PATH={self.prefix}",
                      "-DCMAKE_BUILD_TYPE=Release")
        self.must_run("ninja", "-C", build, "-j", "2", target)
        return build / target

    def test_a_trainer_with_a_model_of_ones_own_trains(self):
        trainer = self.build("custom_model", "gpt2-trainer")
        # Where libevenstep_sentencepiece.so is.
        self.assertIn(f"{self.prefix}/lib/evenstep",
                      self.must_run("readelf", "-d", trainer))
        write_documents(self.folder / "notes")
        costs = self.folder / "costs.json"
        costs.write_text(json.dumps(COSTS))
        out = self.folder / "out"
        self.must_run(
            BIN / "evenstep", "local", EXAMPLES / "custom_model/job.yaml",
            "--trainer", trainer, "--data", f"text:{self.folder}/notes",
            "--steps", 4, "--output", out, "--costs", costs, "--set",
            "optimizer.warmup=0", "--set", "model.width=32")
        summary = json.loads((out / "summary.json").read_text())
        self.assertEqual(len(summary["losses"]), 4)
        self.assertLess(summary["losses"][-1], summary["losses"][0])
        self.assertIn(b'"evenstep.model.name":"gpt2"',
                      (out / "model.safetensors").read_bytes())

    def test_a_program_that_uses_the_sdk_submits_a_job(self):
        program = self.build("sdk_submit", "sdk_submit")
        with Cluster(agents=1, slots=2) as cluster:
            write_documents(cluster.folder / "notes")
            job = write_job(cluster.folder / "job.yaml",
                            cluster.folder / "notes", steps=2)
            told = self.must_run(program, job, f"127.0.0.1:{cluster.port}")
        self.assertRegex(told, "(?s)^submitted tiny-.*step 0 loss .*"
                               "step 1 loss .*SUCCEEDED\n$")

    def test_an_unknown_component_is_named(self):
        source = self.folder / "other"
        source.mkdir()
        (source / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.25)\n"
            "project(other LANGUAGES C CXX)\n"
            "find_package(Evenstep REQUIRED COMPONENTS planner)\n")
        done = run("cmake", "-S", source, "-B", source / "build", "-G", "Ninja",
                   f"-DCMAKE_PREFIX_PATH={self.prefix}")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("planner", done.stderr)


if __name__ == "__main__":
    case_runner.main()
