"""The checks on one GPU; a skip with the reason where there is none."""

import pathlib
import re
import subprocess
import unittest

import case_runner

SCRIPT = pathlib.Path(__file__).resolve().parents[1] / "device" / "run.sh"


class DeviceTest(unittest.TestCase):

    def test_what_needs_a_gpu(self):
        run = subprocess.run([SCRIPT], text=True, capture_output=True,
                             check=False)
        skipped = re.search(r"^skipped: device: (.*)$", run.stdout, re.M)
        if skipped:
            self.skipTest(skipped[1])
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)


if __name__ == "__main__":
    case_runner.main()
