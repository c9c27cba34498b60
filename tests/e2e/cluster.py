"""Starts a real coordinator and agents on loopback, and ends them by id.

Used by the end-to-end and fault tests. Everything lives in one temporary
folder; nothing outlives `with Cluster(...)`.
"""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.request

BIN = pathlib.Path(os.environ.get("EVENSTEP_BIN_DIR", "build/release/bin"))
CPP_WORDS = "int main void return const struct template class namespace auto"


def wait_for(what, condition, seconds=30.0, every=0.05):
    """Polls `condition` until it gives something true; returns that."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(every)
    raise AssertionError(f"not within {seconds} s: {what}")


def process_is_alive(pid):
    """A zombie has ended; only its parent has not looked yet."""
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rsplit(")", 1)[1].split()[0] not in ("Z", "X")


def write_documents(folder, count=40):
    """Small text documents of very mixed lengths, the same every time."""
    folder.mkdir(parents=True, exist_ok=True)
    words = CPP_WORDS.split()
    for index in range(count):
        length = 5 + (index * index * 7919) % 900
        text = " ".join(words[(index + k) % len(words)] for k in range(length))
        (folder / f"doc{index:03}.txt").write_text(text[:length])


def write_job(path, documents, **changes):
    """A job file of a tiny model; `changes` are job-file keys with dots."""
    job = {
        "name": "tiny",
        "kind": "train",
        "model": {"layers": 1, "width": 32, "heads": 2, "kv_heads": 2,
                  "vocab": 257},
        "data": {"source": f"text:{documents}", "max_length": 1024,
                 "on_too_long": "skip", "on_bad_sample": "skip"},
        "batch": {"samples": 4},
        "steps": 8,
        "seed": 7,
        "optimizer": {"lr": 0.003, "warmup": 2, "weight_decay": 0.1,
                      "clip": 1.0},
        "policy": "even",
        "ranks": 2,
        "look_ahead": 4,
        "memory": {"tokens_per_rank": 1024},
    }
    for key, value in changes.items():
        place = job
        *parents, last = key.split("__")
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = value
    path.write_text(json.dumps(job))  # JSON is YAML.
    return path


def trainer_pids(belongs):
    """{rank: pid} of the living trainers for which belongs(pid, words)."""
    pids = {}
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        pid = int(entry.name)
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if (words[0].endswith(b"evenstep-trainer") and
                    belongs(pid, words) and process_is_alive(pid)):
                pids[int(words[words.index(b"--rank") + 1])] = pid
        except (FileNotFoundError, ProcessLookupError):
            continue
    return pids


class Cluster:
    """One coordinator, `agents` agents with `slots` slots each, or, of a list,
    with its own number each."""

    def __init__(self, agents=2, slots=1, coordinator_flags=(), agent_env=None):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="evenstep-e2e-"))
        self.num_agents = agents
        self.slots = slots if isinstance(slots, list) else [slots] * agents
        self.coordinator_flags = list(coordinator_flags)
        self.agent_env = agent_env or {}
        self.coordinator = None
        self.agents = []
        self.port = 0
        self.metrics_port = 0

    def __enter__(self):
        try:
            self.start_coordinator()
            for index in range(self.num_agents):
                self.start_agent(index)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *unused):
        for process in [*self.agents, self.coordinator]:
            if process is not None:
                self._end(process)
        shutil.rmtree(self.folder, ignore_errors=True)

    @staticmethod
    def _end(process):
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(15)
        if process.poll() is None:
            process.kill()
            process.wait()

    def _start(self, name, arguments, env=None):
        log = open(self.folder / f"{name}.log", "ab")
        with log:
            return subprocess.Popen(
                arguments, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env={**os.environ, **(env or {})})

    def start_coordinator(self):
        """Starts, or starts again on the same port and store."""
        ports = {}
        for name in ("port", "metrics"):
            ports[name] = self.folder / f"{name}.txt"
            ports[name].unlink(missing_ok=True)
        self.coordinator = self._start("coordinator", [
            BIN / "evenstep-coordinator",
            f"--listen=127.0.0.1:{self.port}",
            f"--port-file={ports['port']}",
            f"--store={self.folder / 'store.db'}",
            f"--metrics-listen=127.0.0.1:{self.metrics_port}",
            f"--metrics-port-file={ports['metrics']}",
            *self.coordinator_flags])

        def read_port(name):
            def read():
                if self.coordinator.poll() is not None:
                    raise AssertionError("coordinator ended:\n" +
                                         self.log("coordinator"))
                path = ports[name]
                return path.exists() and path.read_text().strip()
            return int(wait_for(f"{name} file", read))

        self.port = read_port("port")
        self.metrics_port = read_port("metrics")

    def kill_coordinator(self):
        self.coordinator.kill()
        self.coordinator.wait()

    def start_agent(self, index, node=None):
        """`node`: another name than the agent's own. One beyond the cluster's
        nodes has as many slots as the last."""
        name = node or f"node{index}"
        slots = self.slots[min(index, len(self.slots) - 1)]
        process = self._start(f"agent{index}", [
            BIN / "evenstep-worker",
            f"--coordinator=127.0.0.1:{self.port}",
            f"--node={name}",
            f"--slots={slots}",
            f"--work-dir={self.folder / f'work{index}'}",
            f"--output-root={self.folder / 'out'}",
        ], self.agent_env)
        if index < len(self.agents):
            self.agents[index] = process
        else:
            self.agents.append(process)
        return process

    def log(self, name):
        path = self.folder / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def logs(self):
        return "\n".join(f"--- {p.name}\n{p.read_text(errors='replace')}"
                         for p in sorted(self.folder.glob("*.log")))

    # The command line, as a user types it.

    def command(self, *arguments):
        return [str(BIN / "evenstep"),
                f"--coordinator=127.0.0.1:{self.port}",
                *map(str, arguments)]

    def run(self, *arguments, timeout=120):
        return subprocess.run(self.command(*arguments), text=True,
                              capture_output=True, timeout=timeout,
                              stdin=subprocess.DEVNULL, check=False)

    def describe(self, job):
        done = self.run("describe", job, "-o", "json")
        if done.returncode != 0:
            raise AssertionError(f"describe: {done.stderr}")
        return json.loads(done.stdout)

    def submit(self, job_file, job_id):
        done = self.run("submit", job_file, "--no-wait", "--id", job_id)
        if done.returncode != 0:
            raise AssertionError(f"submit: {done.stdout}{done.stderr}")
        return job_id

    def wait_for_state(self, job, states, seconds=60):
        wanted = {states} if isinstance(states, str) else set(states)

        def reached():
            described = self.describe(job)
            return described if described["state"] in wanted else None
        return wait_for(f"{job} in {wanted}", reached, seconds)

    def wait_for_step(self, job, step, seconds=60):
        return wait_for(f"{job} at step {step}",
                        lambda: self.describe(job)["steps_done"] >= step,
                        seconds)

    def trainer_pids(self):
        """{rank: pid} of the trainers that live now in our folder."""
        folder = str(self.folder).encode()
        return trainer_pids(
            lambda _, words: any(folder in word for word in words))

    def metrics(self):
        """{name{labels}: value} as Prometheus would scrape it."""
        url = f"http://127.0.0.1:{self.metrics_port}/metrics"
        with urllib.request.urlopen(url, timeout=10) as answer:
            text = answer.read().decode()
        found = {}
        for line in text.splitlines():
            match = re.match(r"([a-zA-Z_:][^ ]*(?:{.*})?) ([^ ]+)$", line)
            if match:
                found[match[1]] = float(match[2])
        return found
