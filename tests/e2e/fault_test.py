"""Faults, caused on purpose: what is killed, stopped or broken in a run."""

import os
import signal
import time
import unittest

import case_runner
from cluster import Cluster, process_is_alive, wait_for, write_documents
from cluster import write_job


class FaultTest(unittest.TestCase):

    def start(self, **keywords):
        cluster = self.enterContext(Cluster(agents=2, slots=1, **keywords))
        write_documents(cluster.folder / "documents")
        return cluster

    def job(self, cluster, **changes):
        return write_job(cluster.folder / "job.yaml",
                         cluster.folder / "documents", **changes)

    def run_to_step(self, cluster, job_id, step, **changes):
        cluster.submit(self.job(cluster, **changes), job_id)
        cluster.wait_for_step(job_id, step)
        return cluster.trainer_pids()

    def assert_slots_are_free(self, cluster):
        done = cluster.run("submit", self.job(cluster, steps=3), "--id", "next")
        self.assertEqual(done.returncode, 0, done.stderr + cluster.logs())

    def test_a_killed_trainer_fails_the_job_with_the_reason(self):
        cluster = self.start()
        pids = self.run_to_step(cluster, "victim", 2, steps=2000)
        self.assertEqual(sorted(pids), [0, 1])
        os.kill(pids[1], signal.SIGKILL)
        killed = time.monotonic()
        job = cluster.wait_for_state("victim", "FAILED", 10)
        self.assertIn("rank 1", job["message"])
        self.assertIn("signal 9", job["message"])
        for pid in pids.values():
            self.assertFalse(process_is_alive(pid))
        self.assertLess(time.monotonic() - killed, 10)
        self.assert_slots_are_free(cluster)

    def test_a_stopped_trainer_is_ended_when_the_job_is_cancelled(self):
        cluster = self.start()
        pids = self.run_to_step(cluster, "frozen", 2, steps=2000,
                                timeouts__stop="2s")
        os.kill(pids[0], signal.SIGSTOP)
        self.assertEqual(cluster.run("cancel", "frozen").returncode, 0)
        cluster.wait_for_state("frozen", "CANCELLED", 15)
        for pid in pids.values():
            self.assertFalse(process_is_alive(pid))

    def test_a_loss_that_is_not_finite_names_step_and_samples(self):
        cluster = self.start(
            agent_env={"EVENSTEP_TRAINER_FAULT": "not_finite:rank=1:step=3"})
        cluster.submit(self.job(cluster, steps=2000), "poisoned")
        job = cluster.wait_for_state("poisoned", {"FAILED", "SUCCEEDED"})
        self.assertEqual(job["state"], "FAILED", job)
        self.assertEqual(job["reason"], "NOT_FINITE")
        self.assertIn("step 3", job["message"])
        self.assertIn("sample", job["message"])
        self.assertEqual(job["steps_done"], 3)
        self.assertEqual(cluster.trainer_pids(), {})

    def test_an_agent_that_dies_takes_its_trainers_along(self):
        cluster = self.start()
        pids = self.run_to_step(cluster, "bereft", 2, steps=2000)
        cluster.agents[1].kill()
        cluster.agents[1].wait()
        wait_for("both trainers are gone",
                 lambda: not any(map(process_is_alive, pids.values())), 15)
        cluster.start_agent(1)
        job = cluster.wait_for_state("bereft", "FAILED", 30)
        self.assertIn("node1", job["message"] + job["reason"])
        self.assert_slots_are_free(cluster)

    def test_the_coordinator_dies_right_after_it_printed_an_id(self):
        cluster = self.start()
        submitted = cluster.run("submit", self.job(cluster, steps=4),
                                "--no-wait", "--id", "promised")
        cluster.kill_coordinator()
        self.assertEqual(submitted.stdout.splitlines()[0], "promised")
        cluster.start_coordinator()
        self.assertEqual(cluster.describe("promised")["id"], "promised")
        cluster.wait_for_state("promised", "SUCCEEDED", 60)

    def test_trainers_outlive_the_coordinator_and_the_job_starts_again(self):
        cluster = self.start()
        pids = self.run_to_step(cluster, "patient", 2, steps=60)
        cluster.kill_coordinator()
        time.sleep(2)
        for pid in pids.values():
            self.assertTrue(process_is_alive(pid))
        cluster.start_coordinator()
        job = cluster.wait_for_state("patient", "SUCCEEDED", 90)
        self.assertEqual(job["attempt"], 2)
        self.assertEqual(job["steps_done"], 60)
        for pid in pids.values():
            self.assertFalse(process_is_alive(pid))

    def test_coordinator_and_agents_leave_on_sigterm_within_their_grace(self):
        cluster = self.start()
        pids = self.run_to_step(cluster, "leaving", 2, steps=2000)
        for process in [cluster.coordinator, *cluster.agents]:
            process.send_signal(signal.SIGTERM)
        for process in [cluster.coordinator, *cluster.agents]:
            self.assertEqual(process.wait(20), 0)
        for pid in pids.values():
            self.assertFalse(process_is_alive(pid))


if __name__ == "__main__":
    case_runner.main()
