"""The checks on one GPU; a skip with the reason where there is none."""

import os
import pathlib
import re
import subprocess
import tempfile
import unittest

import case_runner

SCRIPT = pathlib.Path(__file__).resolve().parents[1] / "device" / "run.sh"


def run_checks(*arguments, **environment):
    return subprocess.run([SCRIPT, *arguments], text=True, capture_output=True,
                          env=os.environ | environment, check=False)


def counts(output):
    """Passed, failed and skipped of the last line."""
    return [int(word) for word in re.findall(r"\d+", output.splitlines()[-1])]


class DeviceTest(unittest.TestCase):

    def test_what_needs_a_gpu(self):
        run = run_checks()
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        passed, failed, _ = counts(run.stdout)
        self.assertEqual(failed, 0)
        if passed == 0:
            self.skipTest(re.search(r"^skipped: device: (.*)$", run.stdout,
                                    re.M)[1])

    def test_checks_that_fail_are_no_skip(self):
        with tempfile.TemporaryDirectory() as name:
            checks = pathlib.Path(name) / "evenstep-device-check"
            checks.write_text("#!/bin/sh\necho 1 passed, 1 failed\nexit 1\n")
            checks.chmod(0o755)
            run = run_checks(name, EVENSTEP_DEVICE_PRETEND="1",
                             EVENSTEP_DEVICE_LIBRARIES="/nowhere")
        self.assertNotEqual(run.returncode, 0, run.stdout + run.stderr)
        self.assertEqual(counts(run.stdout), [1, 1, 1])


if __name__ == "__main__":
    case_runner.main()
