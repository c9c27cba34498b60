"""Tiny jobs beside busy loops: times that are mostly the neighbours' must not
end a job.

    EVENSTEP_BUSY_JOBS=200 python3 tests/e2e/busy_machine_test.py

runs that many; each takes one to three seconds.
"""

import os
import subprocess
import sys
import unittest

import case_runner
from cluster import Cluster, wait_for, write_job

JOBS = int(os.environ.get("EVENSTEP_BUSY_JOBS", "6"))
SECONDS = 60 + 12 * JOBS
# Ends by itself, should nobody be left to end it.
BUSY_LOOP = f"""
import time
end = time.monotonic() + {SECONDS}
while time.monotonic() < end:
    pass
"""


class BusyMachineTest(unittest.TestCase):

    def start_busy_loops(self, count):
        for _ in range(count):
            process = subprocess.Popen([sys.executable, "-c", BUSY_LOOP])
            self.addCleanup(process.wait)
            self.addCleanup(process.kill)

    def submit_all(self, cluster):
        documents = cluster.folder / "documents"
        documents.mkdir()
        for index in range(60):
            (documents / f"doc{index:02}.txt").write_text("x" * (2 + index))
        for index in range(JOBS):
            job = write_job(
                cluster.folder / "job.yaml", documents, seed=index, steps=20,
                batch__samples=2, data__max_length=64,
                memory__tokens_per_rank=64, optimizer__warmup=0)
            cluster.submit(job, f"busy-{index}")

    def test_tiny_jobs_beside_busy_loops_all_succeed(self):
        cluster = self.enterContext(Cluster(agents=1, slots=4))
        self.start_busy_loops(3)
        self.submit_all(cluster)
        wait_for(f"{JOBS} jobs to end", lambda: self.ended(cluster) >= JOBS,
                 SECONDS, every=0.5)
        failed = []
        for index in range(JOBS):
            job = cluster.describe(f"busy-{index}")
            if job["state"] != "SUCCEEDED" or job["steps_done"] != 20:
                failed.append((job["id"], job["state"], job.get("message")))
        self.assertEqual(failed, [], f"{len(failed)} of {JOBS}")
        refused = {name: value for name, value in cluster.metrics().items()
                   if name.startswith("evenstep_estimates_refused_total")}
        print(f"{JOBS} jobs succeeded; estimates refused: {refused}")

    @staticmethod
    def ended(cluster):
        return sum(value for name, value in cluster.metrics().items()
                   if name.startswith("evenstep_jobs_finished_total"))


if __name__ == "__main__":
    case_runner.main()
