"""What the finished binaries link, what the SDK's headers name, and which code
may look at the wall clock."""

import pathlib
import re
import subprocess
import unittest

import case_runner
from cluster import BIN

ROOT = pathlib.Path(__file__).resolve().parents[2]

# What follows the wall clock. A wait or an age that does so changes with the
# machine's date: Clock::Monotonic and the waits of base/clock.h do not.
# (absl::SleepFor and timers of EventLoop are monotonic.)
WALL_CLOCK = re.compile(
    r"absl::Now\(|system_clock|CLOCK_REALTIME|gettimeofday|std::time\("
    r"|ToChronoTime\(|[.>]Wall\(\)"
    r"|(?:Await|Wait|LockWhen|WaitForNotification)With(?:Timeout|Deadline)\(")

# Who may, and why.
WALL_CLOCK_ALLOWED = {
    "base/clock.cc": "is the wall clock, for those below",
    "base/log.cc": "time stamps of log lines",
    "worker/agent/attempt.cc": "time stamps of trainers' lines",
    "coordinator/server/job_registry.cc": "time stamps of events",
    "coordinator/server/attempt_reports.cc": "time stamps of log lines",
    "coordinator/server/attempt_supervisor.cc":
        "time in the queue, over restarts: a metric alone",
    "coordinator/server/coordinator.cc":
        "ages over restarts, bounded by the monotonic clock (VerifiedNow)",
    # A deadline of the SDK is an absolute time of its public header.
    "client/cli/commands.cc": "deadlines of the SDK",
    "client/cli/events_command.cc": "deadlines of the SDK",
    "client/cli/follow_job.cc": "deadlines of the SDK",
    "client/cli/local/local_command.cc": "deadlines of the SDK",
    "client/grpc_client.cc": "deadlines of the SDK",
    "client/retry.cc": "deadlines of the SDK",
}


def wall_clock_uses(text):
    return [line.strip() for line in text.splitlines()
            if WALL_CLOCK.search(line.split("//")[0])]


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

    def test_a_custom_model_includes_public_headers_alone(self):
        public = list((ROOT / "worker/trainer/include").rglob("*.h"))
        self.assertGreater(len(public), 5)
        example = [path for path in (ROOT / "examples/custom_model").glob("*")
                   if path.suffix in (".h", ".cc")
                   and not path.name.endswith("_test.cc")]
        for path in public + example:
            for header in re.findall(r'#include "(.*)"', path.read_text()):
                self.assertRegex(header, "^(evenstep/trainer/|absl/|gpt2.h$)",
                                 path)

    def product_sources(self):
        folders = ("base", "planner", "data", "jobspec", "wire", "rpc",
                   "coordinator", "worker", "client")
        for folder in folders:
            for path in sorted((ROOT / folder).rglob("*")):
                name = str(path.relative_to(ROOT))
                if (path.suffix in (".h", ".cc") and "/testing/" not in name
                        and not name.endswith("_test.cc")
                        and "fixture" not in name and "fake_" not in path.name):
                    yield name, path.read_text()

    def test_nothing_waits_on_the_wall_clock(self):
        users = {name: uses for name, text in self.product_sources()
                 if (uses := wall_clock_uses(text))}
        allowed = set(WALL_CLOCK_ALLOWED)
        self.assertEqual({n: u for n, u in users.items() if n not in allowed},
                         {}, "use Clock::Monotonic, or waits of base/clock.h")
        self.assertEqual(allowed - set(users), set(),
                         "these no longer need to be allowed")

    def test_a_wait_on_the_wall_clock_would_be_found(self):
        for line in ("const absl::Time end = absl::Now() + grace;",
                     "mutex_.AwaitWithTimeout(absl::Condition(&c), t);",
                     "cv.WaitWithDeadline(&mutex, end);",
                     "done.WaitForNotificationWithTimeout(timeout);",
                     "mutex.LockWhenWithTimeout(condition, timeout);",
                     "context.set_deadline(std::chrono::system_clock::now());",
                     "if (clock_.Wall() > end) return;"):
            self.assertEqual(wall_clock_uses("int a;\n  " + line), [line])
        for line in ("// absl::Now() would be wrong", "clock.Monotonic();",
                     "changed_.WaitFor(mutex_, timeout, done);"):
            self.assertEqual(wall_clock_uses(line), [])


if __name__ == "__main__":
    case_runner.main()
