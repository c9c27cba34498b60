"""The examples that are job files, shortened, and `evenstep data` as documented."""

import json
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import tempfile
import time
import unittest

import case_runner
from cluster import BIN, write_documents, write_job

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
MODEL = EXAMPLES / "text/headers.model"
# Measuring them would take longer than the shortened jobs.
COSTS = {"micro_batch_fixed_ns": 1000000, "linear_ns_per_token": 1e4,
         "quadratic_ns_per_token2": 1.0, "collective_latency_ns": 100000,
         "collective": [{"degree": 2, "ns_per_token": 100.0}],
         "step_fixed_ns": 1000000}


def read_megatron(prefix):
    """Documents of a pair, by the format's description alone."""
    index = pathlib.Path(f"{prefix}.idx").read_bytes()
    assert index[:9] == b"MMIDIDX\0\0", index[:9]
    version, code, sequences, documents = struct.unpack_from("<QBQQ", index, 9)
    assert version == 1, version
    letter, size = {4: ("i", 4), 8: ("H", 2)}[code]
    at = 34
    lengths = struct.unpack_from(f"<{sequences}i", index, at)
    at += 4 * sequences
    pointers = struct.unpack_from(f"<{sequences}q", index, at)
    at += 8 * sequences
    starts = struct.unpack_from(f"<{documents}q", index, at)
    assert at + 8 * documents == len(index), len(index)
    data = pathlib.Path(f"{prefix}.bin").read_bytes()
    assert starts == tuple(range(sequences + 1)), starts[:5]
    assert sum(lengths) * size == len(data), len(data)
    return [struct.unpack_from(f"<{length}{letter}", data, pointer)
            for length, pointer in zip(lengths, pointers)]


class ExamplesTest(unittest.TestCase):

    def setUp(self):
        self.folder = pathlib.Path(
            self.enterContext(tempfile.TemporaryDirectory()))
        write_documents(self.folder / "notes")
        self.costs = self.folder / "costs.json"
        self.costs.write_text(json.dumps(COSTS))

    def test_making_data_ends_on_a_signal(self):
        for name in (signal.SIGINT, signal.SIGTERM):
            clips = self.folder / name.name
            command = [BIN / "evenstep", "data", "make-latents", clips,
                       "--clips", "100000"]
            with subprocess.Popen(command, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL) as process:
                first = clips / "clips-000.safetensors"
                while not first.exists():
                    self.assertIsNone(process.poll())
                    time.sleep(0.01)
                process.send_signal(name)
                try:
                    self.assertEqual(process.wait(timeout=20), 130)
                finally:
                    process.kill()

    def run_shell(self, command):
        environment = dict(os.environ, HOME=str(self.folder),
                           PATH=f"{BIN.resolve()}:{os.environ['PATH']}")
        return subprocess.run(["bash", "-c", command], cwd=self.folder,
                              env=environment, text=True, timeout=180,
                              capture_output=True, check=False,
                              stdin=subprocess.DEVNULL)

    def data_json(self, arguments):
        done = self.run_shell(f"evenstep data {arguments} -o json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def train(self, job, *settings, out="out"):
        words = " ".join(f"--set {setting}" for setting in settings)
        done = self.run_shell(
            f"evenstep local {job} --costs {self.costs} --output {out} "
            f"--set model.layers=1 --set model.width=32 --set model.heads=2 "
            f"--set model.kv_heads=2 --set optimizer.warmup=2 {words}")
        summary = self.folder / out / "summary.json"
        if done.returncode != 0:
            return done, None
        return done, json.loads(summary.read_text())

    def test_text_with_a_tokenizer_trains(self):
        done, summary = self.train(EXAMPLES / "text/job.yaml",
                                   f"data.source=text:{self.folder}/notes",
                                   "steps=6", "optimizer.lr=0.02")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(summary["losses"]), 6)
        self.assertLess(summary["losses"][-1], summary["losses"][0])

    def test_a_chat_trains_on_its_answers_alone_whatever_the_policy(self):
        shutil.copytree(EXAMPLES / "chat", self.folder / "chat")
        inspected = self.data_json("inspect chat/job.yaml")
        self.assertEqual(inspected["samples"], 160)
        self.assertLess(inspected["trained_tokens"],
                        0.7 * inspected["tokens"])
        curves = {}
        for policy in ("static", "even"):
            done, summary = self.train("chat/job.yaml", "steps=6",
                                       f"policy={policy}", "optimizer.lr=0.02",
                                       out=policy)
            self.assertEqual(done.returncode, 0, done.stderr)
            curves[policy] = summary["losses"]
        self.assertLess(curves["even"][-1], curves["even"][0])
        worst = max(abs(a - b) for a, b in zip(curves["even"],
                                               curves["static"]))
        self.assertLess(worst, 5e-6)

    def test_tokens_written_for_megatron_are_the_text_and_train(self):
        done = self.run_shell(f"evenstep data tokenize text:notes --out headers "
                              f"--tokenizer {MODEL} && "
                              f"evenstep data tokenize text:notes --out bytes")
        self.assertEqual(done.returncode, 0, done.stderr)
        texts = [path.read_bytes()
                 for path in sorted((self.folder / "notes").glob("doc*"))]
        # Not assertEqual: a diff of so many numbers takes minutes.
        self.assertTrue(read_megatron(self.folder / "bytes") ==
                        [tuple(text) + (256,) for text in texts])
        pieces = read_megatron(self.folder / "headers")
        self.assertEqual(len(pieces), len(texts))
        self.assertTrue(all(p[-1] == 2 and max(p) < 512 for p in pieces))
        shutil.copy(EXAMPLES / "megatron/job.yaml", self.folder)
        done, summary = self.train("job.yaml", "steps=4")
        self.assertEqual(done.returncode, 0, done.stderr)
        # The same documents as text with that tokenizer: the same curve.
        done, text = self.train(
            EXAMPLES / "text/job.yaml", f"data.source=text:{self.folder}/notes",
            "steps=4", out="text")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(text["losses"]), 4)
        for a, b in zip(summary["losses"], text["losses"]):
            self.assertAlmostEqual(a, b, delta=1e-5)

    def test_a_vocabulary_that_is_too_small_is_named_with_both_numbers(self):
        done, _ = self.train(EXAMPLES / "text/job.yaml",
                             f"data.source=text:{self.folder}/notes",
                             "steps=2", "model.vocab=300")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("it has 512 pieces, the model 300; set model.vocab to "
                      "512 or more", done.stderr)

    def test_synthetic_lengths_train_without_any_file(self):
        job = write_job(self.folder / "job.yaml", self.folder / "notes",
                        steps=3)
        done, summary = self.train(
            job, "'data.source=synthetic:lognormal(median=60, sigma=1);seed=1'")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(summary["losses"]), 3)

    def test_every_data_command_of_the_documents_runs(self):
        write_job(self.folder / "job.yaml", self.folder / "notes")
        shutil.copy(MODEL, self.folder / "m.model")
        made = self.run_shell("evenstep data make-latents clips --clips 8")
        self.assertEqual(made.returncode, 0, made.stderr)
        page = (ROOT / "docs/data.md").read_text()
        commands = re.findall(r"^    (evenstep data .*?)(?: +#.*)?$", page,
                              re.MULTILINE)
        self.assertGreater(len(commands), 2)
        for command in commands:
            done = self.run_shell(command)
            self.assertEqual(done.returncode, 0, command + done.stderr)


if __name__ == "__main__":
    case_runner.main()
