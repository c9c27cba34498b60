#include "worker/agent/process.h"

#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace evenstep::agent {
namespace {

std::string ReadAll(int fd) {
  std::string text;
  char chunk[256];
  for (ssize_t n; (n = read(fd, chunk, sizeof(chunk))) > 0;) {
    text.append(chunk, static_cast<size_t>(n));
  }
  return text;
}

absl::StatusOr<SpawnedProcess> Shell(const std::string& script) {
  return Spawn("/bin/sh", {"-c", script});
}

class TempFolder {
 public:
  TempFolder() {
    char name[] = "/tmp/evenstep-process-XXXXXX";
    path_ = mkdtemp(name);
  }
  ~TempFolder() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST(ProcessTest, OutputAndExitStatusComeBack) {
  auto process = Shell("echo out; echo err >&2; exit 3");
  ASSERT_TRUE(process.ok()) << process.status();
  EXPECT_EQ(ReadAll(process->output.get()), "out\n");
  EXPECT_EQ(ReadAll(process->error.get()), "err\n");
  AwaitExit(process->pid);
  const ProcessEnd end = Reap(process->pid);
  EXPECT_EQ(end.exit_status, 3);
  EXPECT_EQ(end.signal, 0);
}

TEST(ProcessTest, TheSignalThatEndedAProcessIsTold) {
  auto process = Shell("kill -SEGV $$");
  ASSERT_TRUE(process.ok()) << process.status();
  AwaitExit(process->pid);
  EXPECT_EQ(Reap(process->pid).signal, SIGSEGV);
}

TEST(ProcessTest, ABinaryThatIsNotThereIsAnErrorWithItsPath) {
  const auto process = Spawn("/nonexistent/trainer", {});
  EXPECT_TRUE(absl::IsNotFound(process.status())) << process.status();
  EXPECT_NE(process.status().message().find("/nonexistent/trainer"),
            absl::string_view::npos);
}

TEST(ProcessTest, NoDescriptorButTheThreeIsInherited) {
  auto process = Shell("ls /proc/self/fd | wc -l");
  ASSERT_TRUE(process.ok()) << process.status();
  // 0, 1, 2 and the folder that `ls` itself reads.
  EXPECT_EQ(ReadAll(process->output.get()), "4\n");
  AwaitExit(process->pid);
  Reap(process->pid);
}

TEST(ProcessTest, WhatIsLeftOfTheGroupDiesWithItsLeader) {
  auto process = Shell("sleep 1000 & echo $!");
  ASSERT_TRUE(process.ok()) << process.status();
  AwaitExit(process->pid);
  Reap(process->pid);
  AwaitGroupGone(process->pid);
  // The pipe is only at its end once the grandchild is gone.
  const pid_t grandchild = std::stoi(ReadAll(process->output.get()));
  EXPECT_FALSE(ProcessStartTicks(grandchild).ok());
}

TEST(ProcessTest, AStrangerIsKilledOnlyIfItIsTheRecordedOne) {
  auto process = Shell("sleep 1000");
  ASSERT_TRUE(process.ok()) << process.status();
  EXPECT_TRUE(
      KillStranger(process->pid, process->start_ticks + 1, absl::Seconds(5))
          .ok());
  EXPECT_TRUE(ProcessStartTicks(process->pid).ok()) << "a recycled pid died";
  EXPECT_TRUE(
      KillStranger(process->pid, process->start_ticks, absl::Seconds(5)).ok());
  EXPECT_FALSE(ProcessStartTicks(process->pid).ok());
  Reap(process->pid);
}

TEST(ProcessLedgerTest, LeftoversAreEndedAndRecycledPidsAreNot) {
  TempFolder folder;
  auto left = Shell("sleep 1000");
  auto recycled = Shell("sleep 1000");
  ASSERT_TRUE(left.ok() && recycled.ok());
  std::ofstream(folder.path() + "/processes")
      << left->pid << " " << left->start_ticks << " job 1 0\n"
      << recycled->pid << " " << recycled->start_ticks - 7 << " job 1 1\n"
      << "not a line\n";
  auto ledger = ProcessLedger::Open(folder.path());
  ASSERT_TRUE(ledger.ok()) << ledger.status();
  const auto ended = ledger->EndLeftovers(absl::Seconds(5));
  ASSERT_TRUE(ended.ok()) << ended.status();
  EXPECT_EQ(*ended, 1);
  EXPECT_FALSE(ProcessStartTicks(left->pid).ok());
  EXPECT_TRUE(ProcessStartTicks(recycled->pid).ok());
  KillGroup(recycled->pid);
  Reap(left->pid);
  Reap(recycled->pid);
}

TEST(ProcessLedgerTest, TheFileHoldsWhatLives) {
  TempFolder folder;
  const auto read = [&] {
    std::ifstream file(folder.path() + "/processes");
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  auto ledger = ProcessLedger::Open(folder.path());
  ASSERT_TRUE(ledger.ok()) << ledger.status();
  ASSERT_TRUE(ledger->Add({12345, 678, "job", 2, 1}).ok());
  EXPECT_EQ(read(), "12345 678 job 2 1\n");
  ASSERT_TRUE(ledger->Remove(12345).ok());
  EXPECT_EQ(read(), "");
}

TEST(ProcessLedgerTest, TwoAgentsCannotShareAFolder) {
  TempFolder folder;
  auto first = ProcessLedger::Open(folder.path());
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_TRUE(
      absl::IsFailedPrecondition(ProcessLedger::Open(folder.path()).status()));
}

}  // namespace
}  // namespace evenstep::agent
