#include "base/usable_cores.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "base/testing/temp_folder.h"

namespace evenstep {
namespace {

class UsableCoresTest : public ::testing::Test {
 protected:
  UsableCoresTest() {
    files_.membership = folder_.path() + "/cgroup";
    files_.root = folder_.path() + "/mount";
    all_ = UsableCores(files_);
  }

  void Write(const std::string& name, const std::string& text) {
    const std::filesystem::path path = folder_.path() + "/" + name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  // On a thread that may use `num_cores` at most, so that the machine does not
  // matter.
  int CoresOf(int num_cores) {
    int cores = 0;
    std::thread([&] {
      cpu_set_t mask;
      sched_getaffinity(0, sizeof(mask), &mask);
      for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
        if (CPU_ISSET(cpu, &mask) && --num_cores < 0) CPU_CLR(cpu, &mask);
      }
      EXPECT_EQ(sched_setaffinity(0, sizeof(mask), &mask), 0);
      cores = UsableCores(files_);
    }).join();
    return cores;
  }

  TempFolder folder_;
  CgroupFiles files_;
  int all_ = 0;  // by affinity alone: no file is there yet
};

TEST_F(UsableCoresTest, AffinityLimitsThem) {
  EXPECT_GE(all_, 1);
  EXPECT_LE(all_, static_cast<int>(std::thread::hardware_concurrency()));
  EXPECT_EQ(CoresOf(1), 1);
  EXPECT_EQ(CoresOf(all_), all_);
}

TEST_F(UsableCoresTest, AQuotaLimitsThemRoundedUp) {
  Write("cgroup", "0::/a/b\n");
  Write("mount/a/b/cpu.max", "50000 100000\n");
  EXPECT_EQ(UsableCores(files_), 1);
  Write("mount/a/b/cpu.max", "1000000000 100000\n");
  EXPECT_EQ(UsableCores(files_), all_);
  Write("mount/a/b/cpu.max", "110000 100000\n");
  EXPECT_EQ(UsableCores(files_), std::min(all_, 2));
}

TEST_F(UsableCoresTest, TheSmallestQuotaOfAllAboveCounts) {
  Write("cgroup", "0::/a/b\n");
  Write("mount/a/b/cpu.max", "max 100000\n");
  EXPECT_EQ(UsableCores(files_), all_);
  Write("mount/a/cpu.max", "1000 100000\n");
  EXPECT_EQ(UsableCores(files_), 1);
}

TEST_F(UsableCoresTest, InAContainerTheMountIsTheProcesssOwn) {
  Write("cgroup", "0::/../../somewhere/else\n");
  Write("mount/cpu.max", "100000 100000\n");
  EXPECT_EQ(UsableCores(files_), 1);
}

TEST_F(UsableCoresTest, VersionOneHasItsQuotaInTwoFiles) {
  Write("cgroup", "3:memory:/x\n2:cpu,cpuacct:/x\n");
  Write("mount/cpu,cpuacct/x/cpu.cfs_period_us", "100000\n");
  Write("mount/cpu,cpuacct/x/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(UsableCores(files_), all_);
  Write("mount/cpu,cpuacct/x/cpu.cfs_quota_us", "70000\n");
  EXPECT_EQ(UsableCores(files_), 1);
  Write("cgroup", "2:cpuacct,cpu:/x\n");
  EXPECT_EQ(UsableCores(files_), all_);
  Write("mount/cpu/cpu.cfs_period_us", "100000\n");
  Write("mount/cpu/cpu.cfs_quota_us", "70000\n");
  EXPECT_EQ(UsableCores(files_), 1);
}

TEST_F(UsableCoresTest, WhatCannotBeReadSetsNoLimit) {
  for (const char* text : {"", "max", "0 100000", "100000 0", "x y", "-5 7",
                           "100000", "nan nan", "1e400 1"}) {
    Write("cgroup", "0::/\nnonsense\n1:cpu\n");
    Write("mount/cpu.max", text);
    EXPECT_EQ(UsableCores(files_), all_) << text;
  }
}

}  // namespace
}  // namespace evenstep
