"""What is trained is used: evaluated, gone on from, and asked for text."""

import csv
import json
import pathlib
import re
import struct
import subprocess
import tempfile
import unittest

import case_runner
from cluster import BIN, Cluster, write_documents, write_job

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"


def read_safetensors(path):
    """Header and tensors of float32, by the format's description alone."""
    data = pathlib.Path(path).read_bytes()
    size = struct.unpack_from("<Q", data)[0]
    header = json.loads(data[8:8 + size])
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = (8 + size + offset for offset in entry["data_offsets"])
        tensors[name] = (entry["dtype"], entry["shape"], data[begin:end])
    return tensors


class UseTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.temporary.name)
        write_documents(cls.folder / "documents")
        cls.job = write_job(cls.folder / "job.yaml", cls.folder / "documents",
                            steps=12, optimizer__lr=0.02,
                            evaluation={"share": 0.2, "every": 4})
        cls.out = cls.folder / "out"
        cls.trained = cls.run_evenstep("local", cls.job, "--output", cls.out)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    @staticmethod
    def run_evenstep(*arguments, stdin=None):
        return subprocess.run([str(BIN / "evenstep"), *map(str, arguments)],
                              text=True, capture_output=True, timeout=240,
                              check=False, input=stdin or "")

    def summary(self, out):
        return json.loads((out / "summary.json").read_text())

    def test_held_out_documents_are_evaluated_on_and_everything_shows_it(self):
        self.assertEqual(self.trained.returncode, 0, self.trained.stderr)
        summary = self.summary(self.out)
        evaluations = summary["evaluations"]
        self.assertEqual([e["step"] for e in evaluations], [3, 7, 11])
        losses = [e["loss"] for e in evaluations]
        self.assertLess(losses[2], losses[0])
        self.assertEqual(summary["totals"]["last_evaluation"]["step"], 11)
        self.assertEqual(summary["totals"]["best_evaluation"]["loss"],
                         min(losses))
        data = summary["data"]
        self.assertEqual(data["num_samples"] + data["evaluation_samples"], 40)
        self.assertRegex(self.trained.stderr,
                         rf"12/12 steps  loss .*held out {losses[2]:.4f}")
        self.assertRegex(self.trained.stderr, "more for evaluation")
        inspected = self.run_evenstep("data", "inspect", self.job, "-o", "json")
        self.assertEqual(json.loads(inspected.stdout)["held_out"]["job"], data)
        with open(self.out / "loss.csv", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual([bool(r["evaluation_loss"]) for r in rows],
                         [step in (3, 7, 11) for step in range(12)])
        curve = json.loads((self.out / "loss.json").read_text())
        column = curve["columns"].index("evaluation_loss")
        self.assertEqual([row[column] for row in curve["rows"]
                          if row[column] is not None], losses)

    def test_a_job_goes_on_from_the_weights_of_another(self):
        again = self.folder / "again"
        done = self.run_evenstep("local", self.job, "--output", again, "--steps",
                                 2, "--set", f"model.weights={self.out}",
                                 "--set", "optimizer.warmup=0")
        self.assertEqual(done.returncode, 0, done.stderr)
        first = self.summary(self.out)["losses"]
        second = self.summary(again)["losses"]
        self.assertLess(second[0], 0.8 * first[0])

    def test_weights_that_do_not_fit_are_named_before_the_first_step(self):
        for settings, sentence in {
                ("model.width=64",): r"has shape \[257, 32\], the model's has "
                                     r"\[257, 64\]",
                ("model.heads=4", "model.kv_heads=4"): "heads is 2, the job's "
                                                       "model has 4",
                (f"model.weights={self.folder}/none",): "none: no such file",
        }.items():
            words = ["--set", f"model.weights={self.out}"]
            for setting in settings:
                words += ["--set", setting]
            done = self.run_evenstep("local", self.job, "--output",
                                     self.folder / "bad", *words)
            # Before anything is started.
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertRegex(done.stderr, sentence)

    def test_text_goes_on_from_a_prompt_and_a_seed_decides(self):
        def text(*words, stdin=None):
            done = self.run_evenstep("generate", self.out, "-o", "json",
                                     "--max-tokens", 30, *words, stdin=stdin)
            self.assertEqual(done.returncode, 0, done.stderr)
            return json.loads(done.stdout)
        greedy = text("--prompt", "int ", "--temperature", 0)
        self.assertEqual(greedy["prompt_tokens"], list(b"int "))
        self.assertLessEqual(len(greedy["tokens"]), 30)
        self.assertIn(greedy["finish_reason"], ("end", "length"))
        self.assertEqual(text("--temperature", 0, stdin="int "), greedy)
        one = text("--prompt", "int ", "--seed", 1, "--temperature", 3)
        self.assertEqual(text("--prompt", "int ", "--seed", 1,
                              "--temperature", 3), one)
        self.assertNotEqual(text("--prompt", "int ", "--seed", 2,
                                 "--temperature", 3), one)
        chat = text("--prompt", "Hi", "--chat")
        self.assertEqual(bytes(chat["prompt_tokens"]),
                         b"<|user|>\nHi\n<|assistant|>\n")

    def test_what_is_shown_is_printable_and_a_file_has_the_bytes(self):
        words = ("generate", self.out, "--prompt", "a", "--temperature", 50,
                 "--max-tokens", 200)
        shown = self.run_evenstep(*words)
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertNotRegex(shown.stdout, "[\x00-\x08\x0b-\x1f\x7f]")
        path = self.folder / "text"
        done = self.run_evenstep(*words, "--out", path)
        self.assertEqual(done.stdout, f"{path}\n")
        data = path.read_bytes()
        self.assertTrue(any(byte > 127 or byte < 9 for byte in data))

    def test_logits_of_a_prompt_are_a_file(self):
        path = self.folder / "logits.safetensors"
        done = self.run_evenstep("generate", self.out, "--prompt", "struct x",
                                 "--max-tokens", 0, "--logits", path)
        self.assertEqual(done.returncode, 0, done.stderr)
        tensors = read_safetensors(path)
        self.assertEqual(tensors["logits"][:2], ("F32", [8, 257]))
        tokens = struct.unpack("<8q", tensors["tokens"][2])
        self.assertEqual(bytes(tokens), b"struct x")

    def test_bad_requests_say_what_is_wrong(self):
        for words, sentence in {
                ("--prompt", "x", "--top-p", 2): "top-p: 2",
                ("--prompt", "x", "--temperature", -1): "temperature: -1",
                ("--prompt", ""): "prompt is empty",
                ("--prompt", "x", "--tokenizer", "/none"): "/none",
                ("--prompt", "x", "--untrained"): "--untrained",
        }.items():
            done = self.run_evenstep("generate", self.out, *words)
            self.assertNotEqual(done.returncode, 0, words)
            self.assertIn(sentence, done.stderr)

    def test_a_cluster_shows_evaluations_too(self):
        with Cluster(agents=2) as cluster:
            job_id = cluster.submit(self.job, "evaluated")
            done = cluster.run("wait", job_id)
            self.assertEqual(done.returncode, 0, done.stderr)
            shown = cluster.run("describe", job_id).stdout
            self.assertRegex(shown, r"Evaluation: +loss \d\.\d+ after step 11")
            described = json.loads(
                cluster.run("describe", job_id, "-o", "json").stdout)
            self.assertEqual(
                [s["step"] for s in described["recent_steps"]
                 if s["evaluation"]], [3, 7, 11])
            metrics = cluster.metrics()
            self.assertGreater(
                metrics[f'evenstep_evaluation_loss{{job="{job_id}"}}'], 0)
            weights = pathlib.Path(described["weights_path"])
            config = json.loads((weights.parent / "config.json").read_text())
            self.assertEqual(config["model_type"], "llama")
            curve = json.loads((weights.parent / "loss.json").read_text())
            self.assertEqual(len(curve["rows"]), 12)

    def test_an_evaluation_that_fails_last_takes_nothing_of_training(self):
        held_out = self.folder / "held_out"
        write_documents(held_out, 10)
        job = write_job(self.folder / "vanish.yaml", self.folder / "documents",
                        steps=150, evaluation={"source": f"text:{held_out}"})
        out = self.folder / "vanish"
        with subprocess.Popen([BIN / "evenstep", "local", job, "--output", out],
                              text=True, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE) as process:
            for line in process.stderr:
                if line.startswith("Data:"):  # the first step is done
                    (held_out / "doc003.txt").unlink()
        self.assertEqual(process.returncode, 1)
        summary = self.summary(out)
        self.assertEqual(summary["reason"], "DATA_ERROR")
        self.assertRegex(summary["message"], "doc003.txt")
        self.assertGreaterEqual(len(summary["losses"]), 149)
        self.assertEqual(summary["files"]["weights"],
                         str(out / "model.safetensors"))
        self.assertEqual(len(read_safetensors(out / "model.safetensors")), 12)
        self.assertTrue((out / "config.json").exists())

    # The example's job on its own header files, shortened.
    def test_a_model_of_headers_writes_something_like_one(self):
        out = self.folder / "headers"
        done = self.run_evenstep(
            "local", EXAMPLES / "text/headers.yaml", "--output", out,
            "--steps", 6, "--set", "optimizer.warmup=1", "--set",
            "evaluation.every=3")
        self.assertEqual(done.returncode, 0, done.stderr)
        summary = self.summary(out)
        self.assertEqual(len(summary["evaluations"]), 2)
        self.assertLess(summary["losses"][-1], summary["losses"][0])
        done = self.run_evenstep("generate", out, "--prompt", "#ifndef ",
                                 "--max-tokens", 20)
        self.assertEqual(done.returncode, 0, done.stderr)
        page = (EXAMPLES / "text/README.md").read_text()
        self.assertTrue(re.search(r"evenstep generate .*#ifndef", page))


if __name__ == "__main__":
    case_runner.main()
