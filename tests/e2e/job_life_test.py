"""A job's whole life, as a user sees it: a separate coordinator, two agents."""

import csv
import json
import subprocess
import unittest

import case_runner
from cluster import Cluster, process_is_alive, wait_for, write_documents
from cluster import write_job


class JobLifeTest(unittest.TestCase):

    def setUp(self):
        self.cluster = self.enterContext(Cluster(agents=2, slots=1))
        self.documents = self.cluster.folder / "documents"
        write_documents(self.documents)
        self.job_file = self.cluster.folder / "job.yaml"

    def write_job(self, **changes):
        return write_job(self.job_file, self.documents, **changes)

    def test_submit_trains_to_the_end_and_exits_0(self):
        done = self.cluster.run("submit", self.write_job(), "--id", "first")
        self.assertEqual(done.returncode, 0, done.stderr + self.cluster.logs())
        self.assertEqual(done.stdout.splitlines()[0], "first")
        job = self.cluster.describe("first")
        self.assertEqual(job["state"], "SUCCEEDED")
        self.assertEqual(job["steps_done"], 8)
        nodes = {p["node"] for p in job["placements"]}
        self.assertEqual(nodes, {"node0", "node1"})
        out = self.cluster.folder / "out" / "first"
        self.assertTrue((out / "model.safetensors").stat().st_size > 1000)
        with open(out / "loss.csv") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual([int(r["step"]) for r in rows], list(range(8)))
        self.assertLess(float(rows[-1]["loss"]), float(rows[0]["loss"]))

    def test_nodes_may_have_different_numbers_of_ranks(self):
        """Groups of two and of three ranks span nodes."""
        with Cluster(agents=2, slots=[1, 2]) as cluster:
            # Documents of more than 700 tokens need all three ranks.
            job = self.write_job(ranks=3, model__heads=6, model__kv_heads=6,
                                 model__width=48,
                                 memory__tokens_per_rank=350)
            done = cluster.run("submit", job, "--id", "uneven")
            self.assertEqual(done.returncode, 0, done.stderr + cluster.logs())
            found = cluster.describe("uneven")
            self.assertEqual(found["state"], "SUCCEEDED")
            self.assertEqual({p["node"]: p["num_ranks"]
                              for p in found["placements"]},
                             {"node0": 1, "node1": 2})
            self.assertEqual(max(s["highest_degree"]
                                 for s in found["recent_steps"]), 3)

    def test_describe_shows_steps_moving(self):
        self.cluster.submit(self.write_job(steps=400), "moving")
        self.cluster.wait_for_step("moving", 2)
        first = self.cluster.describe("moving")["steps_done"]
        self.cluster.wait_for_step("moving", first + 1)
        text = self.cluster.run("describe", "moving").stdout
        self.assertIn("RUNNING", text)
        self.assertEqual(self.cluster.run("cancel", "moving").returncode, 0)
        job = self.cluster.wait_for_state("moving", "CANCELLED")
        self.assertLess(job["steps_done"], 400)

    def test_logs_follow_to_the_end(self):
        self.cluster.submit(self.write_job(steps=12), "spoken")
        done = self.cluster.run("logs", "-f", "spoken")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("step=11", done.stdout)
        again = self.cluster.run("logs", "spoken")
        self.assertEqual(again.stdout, done.stdout)

    def test_a_job_that_cannot_fit_is_refused_with_the_numbers(self):
        job = self.write_job(data__max_length=4096)
        done = self.cluster.run("submit", job, "--id", "too-long")
        self.assertEqual(done.returncode, 5, done.stderr)
        for number in ("4096", "2048"):
            self.assertIn(number, done.stderr)
        self.assertEqual(self.cluster.run("describe", "too-long").returncode, 4)

    def test_an_unknown_key_is_a_usage_error_with_its_line(self):
        self.job_file.write_text("name: x\nmodle: {layers: 1}\n")
        done = self.cluster.run("submit", self.job_file)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("job.yaml:2", done.stderr)
        self.assertIn("modle", done.stderr)

    def test_a_job_waits_for_slots_and_says_why(self):
        self.cluster.submit(self.write_job(steps=400), "holder")
        self.cluster.wait_for_state("holder", "RUNNING")
        self.cluster.submit(self.write_job(steps=4), "waiter")
        job = self.cluster.describe("waiter")
        self.assertEqual(job["state"], "QUEUED")
        self.assertEqual(job["reason"], "NO_CAPACITY")
        waited = self.cluster.run("wait", "waiter", "--timeout", "2s")
        self.assertEqual(waited.returncode, 124)
        self.assertIn("NO_CAPACITY", waited.stderr)
        self.assertIn(job["message"], waited.stderr)
        self.cluster.run("cancel", "holder")
        self.cluster.wait_for_state("waiter", "SUCCEEDED")

    def test_the_same_id_twice_is_one_job(self):
        job = self.write_job()
        self.cluster.submit(job, "twin")
        self.cluster.submit(job, "twin")
        other = self.write_job(steps=9)
        done = self.cluster.run("submit", other, "--no-wait", "--id", "twin")
        self.assertEqual(done.returncode, 5, done.stderr)
        listed = json.loads(self.cluster.run("list", "-o", "json").stdout)
        self.assertEqual([j["id"] for j in listed["jobs"]], ["twin"])

    def test_exit_codes_tell_lost_connection_from_no_such_job(self):
        self.assertEqual(self.cluster.run("describe", "nobody").returncode, 4)
        self.cluster.kill_coordinator()
        done = self.cluster.run("describe", "nobody")
        self.assertEqual(done.returncode, 3, done.stderr)
        done = self.cluster.run("--retry-for=200ms", "submit", self.write_job())
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("Nothing was stored", done.stderr)
        self.assertNotIn("may have been stored", done.stderr)

    def test_wait_replays_a_finished_job_in_order(self):
        self.cluster.run("submit", self.write_job(), "--id", "first")
        said = self.cluster.run("wait", "first").stderr
        places = [said.index(word) for word in
                  ("QUEUED", "STARTING", "RUNNING", "8/8 steps", "STOPPING",
                   "SUCCEEDED")]
        self.assertEqual(places, sorted(places), said)

    def test_wait_times_out_with_124(self):
        self.cluster.submit(self.write_job(steps=400), "long")
        done = self.cluster.run("wait", "long", "--timeout", "1s")
        self.assertEqual(done.returncode, 124, done.stderr)


class ReusedIdTest(unittest.TestCase):

    def test_a_forgotten_id_runs_again_on_agents_that_remember_it(self):
        flags = ["--retained-jobs=1"]
        with Cluster(agents=2, slots=1, coordinator_flags=flags) as cluster:
            write_documents(cluster.folder / "documents")
            job_file = write_job(cluster.folder / "job.yaml",
                                 cluster.folder / "documents", steps=2)
            for job_id in ("a", "b"):
                done = cluster.run("submit", job_file, "--id", job_id)
                self.assertEqual(done.returncode, 0, done.stderr)
            wait_for("a is forgotten",
                     lambda: cluster.run("describe", "a").returncode == 4,
                     seconds=60, every=1)
            done = cluster.run("submit", job_file, "--id", "a")
            self.assertEqual(done.returncode, 0, done.stderr + cluster.logs())
            self.assertEqual(cluster.describe("a")["attempt"], 2)


class MetricsTest(unittest.TestCase):

    def test_a_run_shows_imbalance_durations_and_a_lead_of_plans(self):
        with Cluster(agents=2, slots=1) as cluster:
            write_documents(cluster.folder / "documents")
            job_file = write_job(cluster.folder / "job.yaml",
                                 cluster.folder / "documents", steps=150)
            cluster.submit(job_file, "seen")
            cluster.wait_for_step("seen", 40)
            metrics = cluster.metrics()

            def values(name):
                return [v for k, v in metrics.items()
                        if k.startswith(name + "{") or k == name]

            for kind in ("predicted", "measured"):
                self.assertTrue(
                    [v for k, v in metrics.items()
                     if k.startswith("evenstep_step_imbalance_ratio{") and
                     f'kind="{kind}"' in k], sorted(metrics))
            self.assertGreaterEqual(
                sum(values("evenstep_step_duration_seconds_count")), 30)
            job = cluster.wait_for_state("seen", "SUCCEEDED", 120)
            totals = job["totals"]
            self.assertEqual(totals["steps_after_fourth"], 146)
            self.assertGreaterEqual(
                totals["steps_with_plan_lead"],
                0.95 * totals["steps_after_fourth"])


if __name__ == "__main__":
    case_runner.main()
