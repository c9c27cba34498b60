"""`evenstep local`: no cluster, no configuration, the same curve everywhere."""

import json
import os
import pathlib
import resource
import signal
import subprocess
import tempfile
import time
import unittest

import case_runner
from cluster import BIN, process_is_alive, trainer_pids, wait_for
from cluster import write_documents, write_job


def children_of(pid):
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(stat.rsplit(")", 1)[1].split()[1]) == pid:
                found.append(int(entry.name))
    return found


def descendants_of(pid):
    found = children_of(pid)
    for child in list(found):
        found += descendants_of(child)
    return found


class LocalTest(unittest.TestCase):

    def setUp(self):
        self.folder = pathlib.Path(
            self.enterContext(tempfile.TemporaryDirectory()))
        write_documents(self.folder / "documents")

    def command(self, *arguments):
        return [str(BIN / "evenstep"), "local", *map(str, arguments)]

    def run_local(self, *arguments):
        return subprocess.run(self.command(*arguments), text=True,
                              capture_output=True, timeout=180, check=False,
                              stdin=subprocess.DEVNULL)

    def test_a_folder_of_ones_own_is_enough(self):
        out = self.folder / "mine"
        done = self.run_local("--data", f"text:{self.folder / 'documents'}",
                              "--steps", 5, "--output", out)
        self.assertEqual(done.returncode, 0, done.stderr)
        for name in ("model.safetensors", "loss.csv", "summary.json"):
            self.assertTrue((out / name).exists(), name)
        self.assertIn("model.safetensors", done.stdout + done.stderr)

    def test_skipped_samples_are_named_in_the_log_of_a_trainer(self):
        (self.folder / "documents/nothing-in-it.txt").write_text("")
        out = self.folder / "out"
        done = self.run_local("--data", f"text:{self.folder / 'documents'}",
                              "--steps", 2, "--ranks", 2, "--output", out)
        self.assertEqual(done.returncode, 0, done.stderr)
        logs = [out / f"logs/rank-{rank}.log" for rank in range(2)]
        for log in logs:
            self.assertTrue(log.exists(), sorted(out.glob("logs/*")))
        self.assertIn("nothing-in-it.txt",
                      "".join(log.read_text() for log in logs))

    def test_a_process_that_may_use_one_core_has_one_rank(self):
        out = self.folder / "out"
        arguments = self.command("--data", f"text:{self.folder / 'documents'}",
                                 "--steps", 2, "--output", out)
        core = min(os.sched_getaffinity(0))
        done = subprocess.run(["taskset", "-c", str(core), *arguments],
                              text=True, capture_output=True, timeout=180,
                              check=False, stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("policy even, 1 rank of", done.stderr)
        self.assertTrue((out / "logs/rank-0.log").exists())
        self.assertFalse((out / "logs/rank-1.log").exists())

    def test_far_more_ranks_than_cores_are_refused_at_once(self):
        out = self.folder / "out"
        core = min(os.sched_getaffinity(0))
        for command in (
                self.command("--data", f"text:{self.folder / 'documents'}",
                             "--ranks", 99, "--output", out),
                [str(BIN / "evenstep"), "profile", "--preset", "tiny",
                 "--set", f"data.source=text:{self.folder / 'documents'}",
                 "--ranks", "99"]):
            done = subprocess.run(["taskset", "-c", str(core), *command],
                                  text=True, capture_output=True, timeout=20,
                                  check=False, stdin=subprocess.DEVNULL)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("99 ranks are too many for the 1 core", done.stderr)
        self.assertFalse(out.exists())

    def test_every_policy_gives_the_same_curve(self):
        job = write_job(self.folder / "job.yaml", self.folder / "documents",
                        steps=10)
        curves = {}
        for policy in ("static", "balanced", "packed", "even"):
            out = self.folder / policy
            done = self.run_local(job, "--policy", policy, "--output", out)
            self.assertEqual(done.returncode, 0, done.stderr)
            summary = json.loads((out / "summary.json").read_text())
            curves[policy] = summary["losses"]
            self.assertEqual(len(curves[policy]), 10)
        for policy, curve in curves.items():
            worst = max(abs(a - b) for a, b in zip(curve, curves["static"]))
            self.assertLess(worst, 5e-6, policy)

    def test_sequence_parallel_ranks_train_what_one_rank_cannot_hold(self):
        job = write_job(self.folder / "job.yaml", self.folder / "documents",
                        memory__tokens_per_rank=512)
        out = self.folder / "out"
        done = self.run_local(job, "--output", out)
        self.assertEqual(done.returncode, 0, done.stderr)

    # Costs that a busy machine need not measure, and that stay.
    COSTS = {"micro_batch_fixed_ns": 100000, "linear_ns_per_token": 1e5,
             "quadratic_ns_per_token2": 100.0, "collective_latency_ns": 1000,
             "collective": [{"degree": 2, "ns_per_token": 10.0}],
             "gather": [{"degree": 3, "ns_per_token": 10.0},
                        {"degree": 4, "ns_per_token": 1e6}],
             "step_fixed_ns": 100000}

    def summary_of(self, name, **changes):
        job = write_job(self.folder / f"{name}.yaml",
                        self.folder / "documents", costs=self.COSTS,
                        refit=False, **changes)
        out = self.folder / name
        done = self.run_local(job, "--output", out)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads((out / "summary.json").read_text())

    def test_contiguous_blocks_run_and_give_the_same_curve(self):
        changes = {"ranks": 4, "steps": 12, "batch__samples": 7,
                   "memory__tokens_per_rank": 342,
                   "model__sp_modes": "ulysses, kv_gather"}
        aligned = self.summary_of("aligned", **changes)
        contiguous = self.summary_of("contiguous", blocks="contiguous",
                                     groups_per_rank=4, **changes)
        worst = max(abs(a - b) for a, b in zip(aligned["losses"],
                                               contiguous["losses"]))
        self.assertLess(worst, 5e-6)
        # Aligned: pairs and the world, opened once.
        opened = [step["groups_opened"] for step in aligned["steps"]]
        self.assertEqual(opened, [8] + [0] * 11)
        # Three ranks as well: cheaper than four, by the costs.
        opened = [step["groups_opened"] for step in contiguous["steps"]]
        self.assertIn(sum(opened), (11, 14), opened)
        live = [step["groups_live"] for step in contiguous["steps"]]
        self.assertLessEqual(max(live), 4, live)
        self.assertEqual(contiguous["totals"]["plans_refused"], 0)

    def test_the_plan_chooses_recompute_within_the_bytes_of_its_tokens(self):
        summary = self.summary_of("chosen", steps=6, model__layers=4,
                                  memory__tokens_per_rank=400,
                                  memory__recompute="plan")
        steps = summary["steps"]
        self.assertTrue(any(s["recompute_ratio"] > 0 for s in steps), steps)
        for step in steps:
            self.assertAlmostEqual(
                step["predicted_activation_bytes"] /
                step["peak_activation_bytes"], 1, delta=0.15, msg=str(step))

    def test_an_interrupt_ends_every_process(self):
        job = write_job(self.folder / "job.yaml", self.folder / "documents",
                        steps=100000)
        process = subprocess.Popen(
            self.command(job, "--output", self.folder / "out"), text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, start_new_session=True)
        family = wait_for(
            "coordinator, two agents and two trainers",
            lambda: (lambda d: d if len(d) >= 5 else None)(
                descendants_of(process.pid)), 60)
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(30), 130, process.stderr.read())
        process.stderr.close()
        for pid in family:
            self.assertFalse(process_is_alive(pid))

    def test_a_killed_cli_leaves_nothing_behind(self):
        job = write_job(self.folder / "job.yaml", self.folder / "documents",
                        steps=100000)
        private = self.folder / "tmp"
        private.mkdir()
        environment = {**os.environ, "TMPDIR": str(private)}
        process = subprocess.Popen(
            self.command(job, "--output", self.folder / "out"),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True, env=environment)
        family = wait_for(
            "coordinator, two agents and two trainers",
            lambda: (lambda d: d if len(d) >= 5 else None)(
                descendants_of(process.pid)), 60)
        process.kill()
        process.wait()
        wait_for("all are gone",
                 lambda: not any(map(process_is_alive, family)), 20)
        # Its folder is still there; the next run clears it away.
        left = list(private.glob("evenstep-local-*"))
        self.assertEqual(len(left), 1)
        # Costs that a busy machine need not measure.
        costs = self.folder / "costs.json"
        costs.write_text(json.dumps({
            "micro_batch_fixed_ns": 1000000, "linear_ns_per_token": 1e4,
            "quadratic_ns_per_token2": 1.0, "collective_latency_ns": 100000,
            "collective": [{"degree": 2, "ns_per_token": 100.0}],
            "step_fixed_ns": 1000000}))
        done = subprocess.run(
            self.command(job, "--steps", 2, "--costs", costs,
                         "--output", self.folder / "next"),
            text=True, capture_output=True, timeout=180, check=False,
            stdin=subprocess.DEVNULL, env=environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(list(private.glob("evenstep-local-*")), [])

    def start(self, out, *arguments, **options):
        """A run of many steps that has done its first one."""
        job = write_job(self.folder / "job.yaml", self.folder / "documents",
                        steps=100000, ranks=1)
        process = self.enterContext(subprocess.Popen(
            self.command(job, "--output", out, *arguments), text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, start_new_session=True, **options))
        said = []
        for line in process.stderr:
            said.append(line)
            if line.startswith("Data:"):
                return process
        raise AssertionError("no step was done:\n" + "".join(said))

    def interrupt(self, process):
        """(output, errors) once it has ended."""
        process.send_signal(signal.SIGINT)
        return process.communicate(timeout=120)

    def test_a_limit_of_file_sizes_is_a_full_disk_before_the_first_step(self):
        out = self.folder / "out"
        done = subprocess.run(
            ["prlimit", "--fsize=300000", *self.command(
                "--data", self.folder / "documents", "--steps", 5, "--output",
                out)], text=True, capture_output=True, timeout=180,
            check=False, stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 6, done.stderr)
        self.assertIn("FAILED after 0 of 5 steps (STORAGE_FULL)", done.stderr)
        self.assertIn("has room for 300000", done.stderr)

    def test_a_disk_that_fills_up_in_a_run_is_named_at_its_end(self):
        out = self.folder / "out"
        process = self.start(out)
        (pid,) = trainer_pids(
            lambda pid, _: os.getsid(pid) == process.pid).values()
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (20000, 20000))
        stdout, stderr = self.interrupt(process)
        self.assertEqual(process.returncode, 130, stderr)
        self.assertRegex(stdout, "none were written: .*File too large; nor "
                                 "elsewhere: .*File too large")

    def test_an_output_folder_that_is_moved_away_is_made_again(self):
        out = self.folder / "out"
        process = self.start(out)
        out.rename(self.folder / "moved")
        _, stderr = self.interrupt(process)
        self.assertEqual(process.returncode, 130, stderr)
        self.assertTrue((out / "model.safetensors").exists(), stderr)
        self.assertTrue((out / "config.json").exists())

    def test_an_output_folder_that_takes_nothing_is_replaced_by_tmpdir(self):
        out = self.folder / "out"
        private = self.folder / "tmp"
        private.mkdir()
        process = self.start(out, env={**os.environ, "TMPDIR": str(private)})
        out.rename(self.folder / "moved")
        out.write_text("no folder")
        _, stderr = self.interrupt(process)
        self.assertGreater(process.returncode, 0, stderr)
        kept = list(private.glob("evenstep-weights-*/model.safetensors"))
        self.assertEqual(len(kept), 1, stderr)
        self.assertIn(f"Weights: {kept[0]}", stderr)

    def test_data_that_are_not_there_are_named_before_anything_starts(self):
        done = self.run_local("--data", f"text:{self.folder}/nothing/*.txt")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("nothing", done.stderr)
        self.assertFalse((self.folder / "evenstep-out").exists())


if __name__ == "__main__":
    case_runner.main()
