"""A job never has two live attempts, whatever is stopped, killed or doubled."""

import contextlib
import signal
import threading
import time
import unittest

import case_runner
from cluster import Cluster, process_is_alive, wait_for, write_documents
from cluster import write_job


class AttemptWatch:
    """Looks all the time at which attempts' trainers live, in all folders."""

    def __init__(self, folder):
        self.folder = folder
        self.seen = set()
        self.together = set()  # pairs that lived at one moment
        self.done = threading.Event()
        self.thread = threading.Thread(target=self._watch)

    def live(self):
        found = set()
        for ledger in self.folder.glob("*/processes"):
            for line in ledger.read_text().splitlines():
                pid, _, job, attempt, _ = line.split()
                if process_is_alive(int(pid)):
                    found.add((job, int(attempt)))
        return found

    def _watch(self):
        while not self.done.wait(0.02):
            with contextlib.suppress(OSError, ValueError):
                live = self.live()
                self.seen |= live
                for job, attempt in live:
                    self.together |= {(job, attempt, other) for name, other
                                      in live if name == job and
                                      other > attempt}

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *unused):
        self.done.set()
        self.thread.join()


class LiveAttemptTest(unittest.TestCase):

    def start(self, agents, *flags):
        cluster = self.enterContext(
            Cluster(agents=agents, slots=1, coordinator_flags=flags))
        write_documents(cluster.folder / "documents")
        return cluster

    def submit(self, cluster, job_id, **changes):
        cluster.submit(write_job(cluster.folder / "job.yaml",
                                 cluster.folder / "documents", **changes),
                       job_id)

    def agent_of_rank(self, cluster, job_id, rank):
        for placement in cluster.describe(job_id)["placements"]:
            if placement["first_rank"] == rank:
                return int(placement["node"].removeprefix("node"))
        raise AssertionError(f"no rank {rank}")

    def stop_an_agent_over_a_restart(self, cluster, job_id):
        """Returns the stopped agent's number; its trainer goes on."""
        self.submit(cluster, job_id, steps=100000)
        cluster.wait_for_step(job_id, 2)
        index = self.agent_of_rank(cluster, job_id, 1)
        cluster.agents[index].send_signal(signal.SIGSTOP)
        self.addCleanup(cluster.agents[index].send_signal, signal.SIGCONT)
        cluster.kill_coordinator()
        cluster.start_coordinator()
        return index

    def test_an_agent_stopped_over_a_restart_comes_back(self):
        cluster = self.start(2)
        with AttemptWatch(cluster.folder) as watch:
            index = self.stop_an_agent_over_a_restart(cluster, "job")
            time.sleep(7)  # longer than the lease
            self.assertEqual(cluster.describe("job")["attempt"], 1,
                             cluster.logs())
            cluster.agents[index].send_signal(signal.SIGCONT)
            wait_for("attempt 2 runs",
                     lambda: cluster.describe("job")["attempt"] == 2 and
                     cluster.describe("job")["steps_done"] >= 2, 60)
        self.assertEqual(watch.together, set(), cluster.logs())
        self.assertEqual(watch.seen, {("job", 1), ("job", 2)})

    # Its trainers end themselves; the job then runs elsewhere. Meanwhile
    # another agent asks for the name of the one that is stopped.
    def test_a_stopped_agent_is_waited_for_and_its_name_is_its_own(self):
        cluster = self.start(3, "--reconnect-budget=3s")
        with AttemptWatch(cluster.folder) as watch:
            index = self.stop_an_agent_over_a_restart(cluster, "job")
            cluster.start_agent(3, node=f"node{index}")
            wait_for("the name is refused", lambda: "node_name_in_use" in
                     cluster.log("agent3"), 10)
            wait_for("the name is free after the lease", lambda:
                     "coordinator_connected" in cluster.log("agent3"), 20)
            self.assertEqual(cluster.describe("job")["attempt"], 1,
                             cluster.logs())
            wait_for("attempt 2 runs",
                     lambda: cluster.describe("job")["attempt"] == 2 and
                     cluster.describe("job")["steps_done"] >= 2, 90)
            cluster.agents[index].send_signal(signal.SIGCONT)
            time.sleep(2)
            self.assertEqual(cluster.describe("job")["attempt"], 2)
        self.assertEqual(watch.together, set(), cluster.logs())
        self.assertEqual(watch.seen, {("job", 1), ("job", 2)})

    def test_a_start_on_a_stopped_agent_is_queued_again_and_runs_later(self):
        cluster = self.start(2)
        wait_for("both agents are connected", lambda: cluster.metrics().get(
            'evenstep_nodes{state="connected"}') == 2)
        cluster.agents[1].send_signal(signal.SIGSTOP)
        self.addCleanup(cluster.agents[1].send_signal, signal.SIGCONT)
        with AttemptWatch(cluster.folder) as watch:
            self.submit(cluster, "job", steps=4)
            cluster.wait_for_state("job", "STARTING", 15)
            cluster.wait_for_state("job", "QUEUED", 15)
            self.assertEqual(watch.seen, set(), "nothing was started")
            cluster.agents[1].send_signal(signal.SIGCONT)
            cluster.wait_for_state("job", "SUCCEEDED", 60)
        self.assertEqual(watch.together, set(), cluster.logs())
        shown = cluster.run("events", "job", "-o", "json").stdout
        self.assertIn("START_LOST", shown)
        self.assertIn("node1", shown)


if __name__ == "__main__":
    case_runner.main()
