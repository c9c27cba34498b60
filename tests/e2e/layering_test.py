"""What the finished binaries link, and what the SDK's headers name."""

import pathlib
import re
import subprocess
import unittest

import case_runner
from cluster import BIN

ROOT = pathlib.Path(__file__).resolve().parents[2]


class LayeringTest(unittest.TestCase):

    def libraries(self, binary):
        return subprocess.run(["ldd", BIN / binary], text=True, check=True,
                              capture_output=True).stdout

    def test_coordinator_agent_and_cli_link_no_torch(self):
        for binary in ("evenstep", "evenstep-coordinator", "evenstep-worker"):
            linked = self.libraries(binary)
            self.assertIn("libgrpc++", linked)
            self.assertNotRegex(linked, r"libtorch|libc10|libgloo")

    def test_the_trainer_links_no_grpc(self):
        for binary in ("evenstep-trainer", "gpt2-trainer"):
            linked = self.libraries(binary)
            self.assertIn("libtorch_cpu", linked)
            self.assertNotIn("libgrpc", linked)

    def test_public_headers_name_neither_grpc_nor_protobuf_nor_torch(self):
        headers = list((ROOT / "client/include").rglob("*.h"))
        self.assertGreater(len(headers), 1)
        for header in headers:
            for line in re.findall(r"#include.*", header.read_text()):
                self.assertNotRegex(line, r"grpc|protobuf|\.pb\.h|torch|ATen")


if __name__ == "__main__":
    case_runner.main()
