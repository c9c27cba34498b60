"""What decides about data is its content: checked when it is indexed, and
compared when it is trained on."""

import json
import os
import pathlib
import signal
import struct
import subprocess
import tempfile
import unittest

import case_runner
from cluster import BIN, write_documents, write_job


def write_megatron_index(prefix, lengths):
    """Of 4-byte tokens, by the format's description alone."""
    offsets = [4 * sum(lengths[:i]) for i in range(len(lengths))]
    count = len(lengths)
    pathlib.Path(f"{prefix}.idx").write_bytes(
        b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 4, count, count + 1) +
        struct.pack(f"<{count}i", *lengths) +
        struct.pack(f"<{count}q", *offsets) +
        struct.pack(f"<{count + 1}q", *range(count + 1)))


def write_megatron(prefix, documents):
    pathlib.Path(f"{prefix}.bin").write_bytes(
        b"".join(struct.pack(f"<{len(d)}i", *d) for d in documents))
    write_megatron_index(prefix, [len(d) for d in documents])


class DataContentTest(unittest.TestCase):

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.documents = self.folder / "documents"
        write_documents(self.documents, 20)
        self.lines = self.documents / "lines.jsonl"
        self.lines.write_text("".join(
            json.dumps({"text": f"line {i}"}) + "\n" for i in range(20)))
        self.out = self.folder / "out"

    def command(self, *arguments):
        return [str(BIN / "evenstep"), *map(str, arguments)]

    def run_evenstep(self, *arguments):
        return subprocess.run(self.command(*arguments), text=True,
                              capture_output=True, timeout=120, check=False)

    def run_local(self, job, once_it_trains):
        """Calls `once_it_trains` after the first step."""
        with subprocess.Popen(
                self.command("local", job, "--output", self.out), text=True,
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
            said = []
            for line in process.stderr:
                said.append(line)
                if line.startswith("Data:"):
                    once_it_trains()
        return process.returncode, "".join(said)

    def test_files_may_be_touched_and_appended_to_while_a_job_runs(self):
        job = write_job(self.folder / "job.yaml", self.documents, steps=60)

        def change():
            os.utime(self.documents / "doc003.txt")
            with open(self.lines, "a", encoding="utf-8") as lines:
                lines.write(json.dumps({"text": "one more"}) + "\n")

        code, said = self.run_local(job, change)
        self.assertEqual(code, 0, said)

    def test_a_sample_whose_bytes_changed_ends_the_job_by_name(self):
        job = write_job(self.folder / "job.yaml", self.documents, steps=400)

        def change():
            changed = self.folder / "changed"
            changed.write_text(
                self.lines.read_text().replace("line 7", "LINE 7"))
            changed.replace(self.lines)

        code, said = self.run_local(job, change)
        self.assertEqual(code, 1, said)
        summary = json.loads((self.out / "summary.json").read_text())
        self.assertEqual(summary["reason"], "DATA_ERROR")
        self.assertIn(f"{self.lines}:8 changed since it was indexed",
                      summary["message"])

    def test_ids_outside_the_vocabulary_are_found_before_anything_starts(self):
        prefix = self.folder / "corpus"
        write_megatron(prefix, [[1, 2, 3, 256], [4, 5], [6, 300, 7], [8, 9]])
        job = write_job(self.folder / "job.yaml", "", steps=3,
                        data__source=f"megatron:{prefix}", ranks=1,
                        data__on_bad_sample="fail")
        told = "document 2 of corpus.bin: token 1 has id 300, model.vocab is 257"
        inspected = self.run_evenstep("data", "inspect", job)
        self.assertIn("1 bad sample", inspected.stdout)
        self.assertIn(told, inspected.stdout)
        refused = self.run_evenstep("local", job, "--output", self.out)
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn(told, refused.stderr)
        self.assertFalse(self.out.exists())
        done = self.run_evenstep("local", job, "--output", self.out, "--set",
                                 "data.on_bad_sample=skip")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"Skips 1 bad sample: {told}", done.stderr)
        self.assertIn(told, (self.out / "logs/rank-0.log").read_text())

    # Sparse: it takes no room, and a minute or so to read.
    def test_ctrl_c_ends_indexing_and_leaves_no_part_of_an_index(self):
        big = self.folder / "big"
        big.mkdir()
        lengths = [1 << 26] * 1000
        write_megatron_index(big / "corpus", lengths)
        with open(big / "corpus.bin", "wb") as file:
            file.truncate(4 * sum(lengths))
        with subprocess.Popen(
                self.command("data", "inspect", f"megatron:{big}/corpus"),
                text=True, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE) as process:
            line = process.stderr.readline()
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=20)
        self.assertRegex(line, r"Indexing \d+% of 268 GB  .*/s  ETA")
        self.assertEqual(process.returncode, 130)
        self.assertEqual(list(big.glob(".evenstep-index-*")), [])


if __name__ == "__main__":
    case_runner.main()
