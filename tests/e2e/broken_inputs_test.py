"""Broken inputs of all kinds: each has its exact message.

tests/broken_inputs/README.md says how a case is written. After a message was
changed on purpose:

    python3 tests/e2e/broken_inputs_test.py --update [NAME...]

writes what the programs say now into cases.json; read the difference as a
newcomer would, who must know from each message what to do.
"""

import contextlib
import http.server
import json
import os
import pathlib
import re
import shlex
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import unittest

import case_runner

BIN = pathlib.Path(
    os.environ.get("EVENSTEP_BIN_DIR", "build/release/bin")).resolve()
ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "tests" / "broken_inputs"
CASES = FOLDER / "cases.json"
# What programs say beside the message: the progress of `local`, the settings of
# servers, and gRPC's own words.
CHATTER = (r"Training on |Warning: \d+ ranks take turns |Choose otherwise |Logs: |QUEUED: |STARTING: |"
           r"RUNNING: |STOPPING: |FAILED: |SUCCEEDED|\d+/\d+ steps |"
           r"info \w+ configuration |E\d{4} ")
TIMEOUT_SECONDS = 120
NOBODY = 65534


def load_cases():
    return json.loads(CASES.read_text(encoding="utf-8"))


def safetensors_bytes(parts):
    """A file of a header as text and zeros, or of `values` (float32)."""
    header = parts["header"].encode("utf-8")
    data = struct.pack(f"<{len(parts.get('values', []))}f",
                       *map(float, parts.get("values", [])))
    data += bytes(parts.get("zeros", 0))
    length = parts.get("length", len(header))
    whole = struct.pack("<Q", length) + header + data
    return whole[:len(whole) - parts.get("cut", 0)]


class QuietHandler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass


@contextlib.contextmanager
def web_server():
    """Something else than a coordinator on a port."""
    server = http.server.HTTPServer(("127.0.0.1", 0), QuietHandler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextlib.contextmanager
def taken_port():
    """A port that another program has; nobody answers on it."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        yield taken.getsockname()[1]


@contextlib.contextmanager
def closed_port():
    """A port that nobody listens on: bound, so that nobody else takes it."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


PORTS = {"web": web_server, "taken": taken_port, "closed": closed_port}


class Case:
    """One entry of cases.json, in a folder of its own."""

    def __init__(self, entry, folder):
        self.entry = entry
        self.folder = folder.resolve()
        self.bin = BIN

    def write_inputs(self):
        entry = self.entry
        for name, text in entry.get("write", {}).items():
            self.place(name).write_bytes(text.encode("utf-8"))
        for name, text in entry.get("bytes", {}).items():
            # One byte a character.
            self.place(name).write_bytes(text.encode("latin-1"))
        for name, parts in entry.get("safetensors", {}).items():
            self.place(name).write_bytes(safetensors_bytes(parts))
        for name, source in entry.get("copy", {}).items():
            source = ROOT / source
            if source.is_dir():
                shutil.copytree(source, self.place(name), dirs_exist_ok=True)
            else:
                shutil.copyfile(source, self.place(name))
        for name in entry.get("folders", []):
            self.place(name).mkdir()

    def place(self, name):
        """The path of a name whose characters are bytes."""
        path = self.folder / os.fsdecode(name.encode("latin-1"))
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def lock(self):
        """Takes the right to read some inputs; for root, as another user."""
        names = self.entry.get("unreadable", [])
        for name in names:
            self.place(name).chmod(0)
        if not names or os.geteuid() != 0:
            return {}
        self.folder.chmod(0o755)
        # Where that user may run it.
        self.bin = self.place("bin")
        self.bin.mkdir()
        shutil.copy(BIN / "evenstep", self.bin)
        return {"user": NOBODY, "group": NOBODY, "extra_groups": []}

    def environment(self):
        kept = {key: value for key, value in os.environ.items()
                if not key.startswith("EVENSTEP_")}
        kept.update(HOME=str(self.folder), TMPDIR="/tmp", LC_ALL="C.UTF-8")
        kept.pop("XDG_CACHE_HOME", None)
        kept.update({key: value.replace("{TMP}", str(self.folder))
                     for key, value in self.entry.get("env", {}).items()})
        return kept

    def run(self):
        """The exit code and the lines of stderr."""
        self.write_inputs()
        user = self.lock()
        with contextlib.ExitStack() as stack:
            port = 0
            if "port" in self.entry:
                port = stack.enter_context(PORTS[self.entry["port"]]())
            words = [word.replace("{PORT}", str(port))
                     for word in shlex.split(self.entry["run"])]
            done = subprocess.run(
                [str(self.bin / words[0]), *words[1:]], capture_output=True,
                cwd=self.place(self.entry.get("cwd", ".")),
                env=self.environment(), timeout=TIMEOUT_SECONDS, check=False,
                stdin=subprocess.DEVNULL, **user)
        text = done.stderr.decode("utf-8", "backslashreplace")
        return done.returncode, self.normal(text, port)

    def normal(self, text, port):
        text = text.replace(str(self.folder), "{TMP}")
        text = text.replace(str(BIN), "{BIN}")
        if port:
            text = text.replace(str(port), "{PORT}")
        text = re.sub(r"/tmp/evenstep-local-\w{6}", "{RUN}", text)
        text = re.sub(r"\b(job |evenstep-out/)(\w[\w-]*)-[0-9a-f]{6,}\b",
                      r"\1{ID}", text)
        lines = [re.sub(r"^\d{4}-\d\d-\d\dT[\d:.]+ ", "", line)
                 for line in text.splitlines()]
        return [line for line in lines
                if line and not re.match(CHATTER, line)]


def run_case(entry):
    with tempfile.TemporaryDirectory(prefix="broken-", dir="/tmp") as folder:
        return Case(entry, pathlib.Path(folder)).run()


class BrokenInputsTest(unittest.TestCase):
    maxDiff = None

    def test_there_are_enough_cases_and_no_two_are_of_one_name(self):
        names = [entry["name"] for entry in load_cases()]
        self.assertGreaterEqual(len(names), 40)
        self.assertEqual(len(names), len(set(names)))

    def check(self, entry):
        code, says = run_case(entry)
        self.assertEqual((code, says), (entry["exit"], entry["says"]))


def add_tests():
    for entry in load_cases():
        def test(self, entry=entry):
            self.check(entry)
        setattr(BrokenInputsTest, f"test_{entry['name']}", test)


def update(names):
    cases = load_cases()
    for entry in cases:
        if names and entry["name"] not in names:
            continue
        entry["exit"], entry["says"] = run_case(entry)
        print(entry["name"], entry["exit"], *entry["says"], sep="\n    ")
    CASES.write_text(json.dumps(cases, indent=1, ensure_ascii=True) + "\n",
                     encoding="utf-8")


if __name__ == "__main__":
    if "--update" in sys.argv:
        update(sys.argv[sys.argv.index("--update") + 1:])
    else:
        add_tests()
        case_runner.main()
