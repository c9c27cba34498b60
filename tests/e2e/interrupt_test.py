"""A run that ends early keeps its work: the weights of its last whole step, to
the last bit those of a run that was to have that many steps.

EVENSTEP_INTERRUPT_RUNS (3) runs are interrupted at random moments;
EVENSTEP_INTERRUPT_SEED repeats those of an earlier run.
"""

import json
import os
import pathlib
import random
import re
import signal
import subprocess
import tempfile
import time
import unittest

import case_runner
from cluster import BIN, Cluster, trainer_pids, wait_for
from cluster import write_documents, write_job

RUNS = int(os.environ.get("EVENSTEP_INTERRUPT_RUNS", "3"))
SEED = int(os.environ.get("EVENSTEP_INTERRUPT_SEED",
                          random.SystemRandom().randrange(10**6)))
STEPS = 8192
# Costs that are not measured: every run plans its steps alike.
COSTS = {"micro_batch_fixed_ns": 100000, "linear_ns_per_token": 1e5,
         "quadratic_ns_per_token2": 100.0, "collective_latency_ns": 1000,
         "collective": [{"degree": 2, "ns_per_token": 10.0}],
         "step_fixed_ns": 100000}


def read_weights(path):
    """(metadata, {name: (dtype, shape, bytes)}) of a safetensors file."""
    data = pathlib.Path(path).read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + length])
    metadata = header.pop("__metadata__")
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        tensors[name] = (entry["dtype"], entry["shape"],
                         data[8 + length + begin:8 + length + end])
    return metadata, tensors


def job_of(path, documents, steps, **changes):
    """A job whose step K is the same however many steps it has: it warms up all
    the time, by a power of two, so that no learning rate is rounded."""
    return write_job(path, documents, steps=steps, precision="float64",
                     optimizer={"lr": steps / 2**20, "warmup": steps,
                                "weight_decay": 0.1, "clip": 1.0},
                     costs=COSTS, refit=False, **changes)


def ctrl_c(process):
    process.send_signal(signal.SIGINT)


class KeptWeightsCase(unittest.TestCase):

    def setUp(self):
        self.folder = pathlib.Path(
            self.enterContext(tempfile.TemporaryDirectory()))
        self.documents = self.folder / "documents"
        write_documents(self.documents)

    def assert_weights(self, path, steps, job_id=None, **changes):
        """`path` is what an uninterrupted run of `steps` steps leaves."""
        job = job_of(self.folder / "oracle.yaml", self.documents, steps,
                     **changes)
        out = self.folder / f"oracle-{steps}"
        done = subprocess.run(
            [BIN / "evenstep", "local", job, "--output", out], text=True,
            capture_output=True, timeout=180, check=False,
            stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 0, done.stderr)
        metadata, tensors = read_weights(path)
        _, expected = read_weights(out / "model.safetensors")
        self.assertEqual(metadata["evenstep.steps"], str(steps))
        self.assertEqual(metadata["evenstep.ended_early"], "true")
        if job_id:
            self.assertEqual(metadata["evenstep.job"], job_id)
        self.assertEqual(sorted(tensors), sorted(expected))
        for name, tensor in expected.items():
            self.assertEqual(tensor[0], "F64")
            self.assertTrue(tensors[name] == tensor,
                            f"{name} after {steps} steps differs")


class LocalTest(KeptWeightsCase):

    def start(self, out):
        job = job_of(self.folder / "job.yaml", self.documents, STEPS)
        process = subprocess.Popen(
            [BIN / "evenstep", "local", job, "--output", out], text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, start_new_session=True)
        said = []
        for line in process.stderr:
            said.append(line)
            if line.startswith("Data:"):  # the first step is done
                return process
        raise AssertionError("no step was done:\n" + "".join(said))

    def interrupt(self, name, delay, interrupt):
        """(summary, output) of a run that `interrupt(process)` ends."""
        out = self.folder / name
        with self.start(out) as process:
            time.sleep(delay)
            interrupt(process)
            stdout, stderr = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 130, stderr)
        summary = json.loads((out / "summary.json").read_text())
        steps = summary["weights_steps"]
        self.assertGreater(steps, 0, stderr)
        self.assertEqual(summary["state"], "CANCELLED")
        self.assertEqual(summary["files"]["weights"],
                         str(out / "model.safetensors"))
        self.assertIn(f"{out / 'model.safetensors'} (after {steps} of {STEPS} "
                      "steps)", stdout)
        for kind in ("loss.csv", "loss.json", "job.yaml", "config.json"):
            self.assertTrue((out / kind).exists(), kind)
        self.assertFalse((out / "unfinished").exists())
        self.assert_weights(out / "model.safetensors", steps,
                            summary["job_id"])
        return summary, stderr

    def test_ctrl_c_at_any_moment_keeps_the_weights_of_its_step(self):
        chance = random.Random(SEED)
        for run in range(RUNS):
            delay = chance.uniform(0, 1.5)
            with self.subTest(run=run, seed=SEED, delay=delay):
                summary, _ = self.interrupt(f"run-{run}", delay, ctrl_c)
                print(f"seed {SEED} run {run}: interrupted {delay:.3f} s after "
                      f"the first step, kept {summary['weights_steps']} steps")
                # The step that ran was finished, and every rank reported it.
                self.assertEqual(summary["steps_done"],
                                 summary["weights_steps"])
                rows = (self.folder / f"run-{run}" / "loss.csv").read_text()
                self.assertEqual(len(rows.splitlines()),
                                 summary["steps_done"] + 1)

    def test_sigterm_does_the_same(self):
        self.interrupt("terminated", 0.3, lambda process: process.terminate())

    def test_a_second_ctrl_c_keeps_the_step_before(self):
        def interrupt_again(process):
            # The step cannot end: one of its ranks is stopped.
            ranks = trainer_pids(lambda pid, _: os.getsid(pid) == process.pid)
            os.kill(ranks[1], signal.SIGSTOP)
            process.send_signal(signal.SIGINT)
            for line in process.stderr:
                if "weights of the step before are kept" in line:
                    return process.send_signal(signal.SIGINT)
            raise AssertionError("the first Ctrl-C was not answered")

        self.interrupt("twice", 0.3, interrupt_again)

    def test_a_killed_command_leaves_the_weights_in_its_folder(self):
        out = self.folder / "killed"
        with self.start(out) as process:
            process.kill()
            process.communicate()
        path = wait_for("the trainers have written", lambda: next(
            out.glob("unfinished/*/model.safetensors"), None))
        steps = int(read_weights(path)[0]["evenstep.steps"])
        self.assertIn("step_done", next(path.parent.glob(
            "logs/node-0/*/rank-0.log")).read_text())
        self.assert_weights(path, steps)
        done = subprocess.run([BIN / "evenstep", "generate", out], text=True,
                              capture_output=True, timeout=60, check=False,
                              stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 2, done.stderr)
        said = re.search(r"left weights after (\d+) steps?; to use them: "
                         r"evenstep (generate \S+)$", done.stderr, re.MULTILINE)
        self.assertTrue(said, done.stderr)
        self.assertEqual(int(said[1]), steps)
        used = subprocess.run([BIN / "evenstep", *said[2].split(), "--prompt",
                               "a", "--max-tokens", "5"], text=True,
                              capture_output=True, timeout=60, check=False)
        self.assertEqual(used.returncode, 0, used.stderr)

    def test_an_earlier_run_is_set_aside(self):
        out = self.folder / "again"
        out.mkdir()
        names = ("model.safetensors", "loss.csv", "summary.json", "job.yaml")
        for name in names:
            (out / name).write_text("earlier")
        (out / ".evenstep-output").write_text("\n".join(names) + "\n")
        _, said = self.interrupt("again", 0, ctrl_c)
        for name in names:
            self.assertEqual((out / "previous-1" / name).read_text(),
                             "earlier")
        self.assertIn(f"The earlier run is now in {out / 'previous-1'}", said)
        self.assertTrue((out / "logs/rank-0.log").exists())


class ClusterTest(KeptWeightsCase):

    def start(self, job_id, steps=2, **keywords):
        cluster = self.enterContext(Cluster(agents=2, slots=1, **keywords))
        job = job_of(self.folder / "job.yaml", self.documents, STEPS)
        cluster.submit(job, job_id)
        cluster.wait_for_step(job_id, steps)
        return cluster

    def assert_kept(self, cluster, job_id, state):
        job = cluster.wait_for_state(job_id, {"FAILED", "CANCELLED"})
        self.assertEqual(job["state"], state, job)
        steps = job["weights_steps"]
        # A rank may have made an update whose report did not come.
        self.assertIn(steps - job["steps_done"], (0, 1), job)
        self.assertIn(f"{job['weights_path']} on node {job['weights_node']} "
                      f"(after {steps} of {STEPS} steps)",
                      cluster.run("describe", job_id).stdout)
        self.assert_weights(job["weights_path"], steps, job_id)
        return job

    def test_cancel(self):
        cluster = self.start("cancelled")
        self.assertEqual(cluster.run("cancel", "cancelled").returncode, 0)
        job = self.assert_kept(cluster, "cancelled", "CANCELLED")
        self.assertEqual(job["weights_steps"], job["steps_done"])
        self.assertEqual(job["weights_node"], "node0")
        out = pathlib.Path(job["weights_path"]).parent
        self.assertTrue((out / "loss.json").exists())

    def test_a_crash_of_the_coordinator_loses_no_weights(self):
        """The job starts again; what it had done before stays."""
        cluster = self.start("again", steps=60)
        cluster.kill_coordinator()
        cluster.start_coordinator()

        def begun_again():
            job = cluster.describe("again")
            return job["attempt"] > 1 and job["steps_done"] > 0
        wait_for("a step of the next attempt", begun_again)
        self.assertEqual(cluster.run("cancel", "again").returncode, 0)
        job = cluster.wait_for_state("again", "CANCELLED")
        self.assertLess(job["weights_steps"], 60)
        out = pathlib.Path(job["weights_path"]).parent
        kept = next(out.glob("model.after-*-steps.safetensors"), None)
        self.assertTrue(kept, sorted(out.iterdir()))
        steps = int(read_weights(kept)[0]["evenstep.steps"])
        self.assertGreaterEqual(steps, 60)
        self.assert_weights(job["weights_path"], job["weights_steps"], "again")
        done = cluster.run("generate", out, "--prompt", "a", "--max-tokens", 1)
        self.assertIn(f"left weights after {steps} steps; to use them: "
                      f"evenstep generate {kept}", done.stderr)

    def test_a_cancelled_step_that_takes_too_long_is_given_up(self):
        cluster = self.enterContext(Cluster(
            agents=2, slots=1,
            agent_env={"EVENSTEP_TRAINER_FAULT": "hang:rank=1:step=5"}))
        job = job_of(self.folder / "job.yaml", self.documents, STEPS,
                     timeouts__stop="1s")
        cluster.submit(job, "slow")
        cluster.wait_for_step("slow", 5)
        self.assertEqual(cluster.run("cancel", "slow").returncode, 0)
        job = self.assert_kept(cluster, "slow", "CANCELLED")
        self.assertEqual(job["weights_steps"], 5)

    def test_a_sample_that_cannot_be_read(self):
        cluster = self.start(
            "unreadable",
            agent_env={"EVENSTEP_TRAINER_FAULT": "data_error:rank=1:step=22"})
        job = self.assert_kept(cluster, "unreadable", "FAILED")
        self.assertEqual(job["reason"], "DATA_ERROR")
        self.assertEqual(job["weights_steps"], 22)

    def test_sigterm_to_a_trainer(self):
        cluster = self.start("terminated")
        os.kill(cluster.trainer_pids()[1], signal.SIGTERM)
        job = self.assert_kept(cluster, "terminated", "FAILED")
        self.assertEqual(job["reason"], "TERMINATED")

    def test_sigterm_to_an_agent(self):
        cluster = self.start("stopped")
        cluster.agents[0].send_signal(signal.SIGTERM)
        job = self.assert_kept(cluster, "stopped", "FAILED")
        self.assertEqual(job["reason"], "AGENT_STOPPING")

    def test_a_killed_rank(self):
        """Of rank 0 the next one takes the place."""
        for rank in (0, 1):
            with self.subTest(rank=rank):
                job_id = f"killed-{rank}"
                cluster = self.start(job_id)
                os.kill(cluster.trainer_pids()[rank], signal.SIGKILL)
                job = self.assert_kept(cluster, job_id, "FAILED")
                self.assertEqual(job["reason"], "TRAINER_KILLED")
                self.assertEqual(job["weights_node"],
                                 "node1" if rank == 0 else "node0")

    def test_where_nobody_is_left_it_is_said(self):
        cluster = self.start("lost")
        for pid in cluster.trainer_pids().values():
            os.kill(pid, signal.SIGKILL)
        job = cluster.wait_for_state("lost", "FAILED")
        self.assertEqual(job["weights_path"], "")
        self.assertIn("none were written: every process was killed or lost",
                      cluster.run("describe", "lost").stdout)


if __name__ == "__main__":
    case_runner.main()
