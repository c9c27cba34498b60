#include "base/usable_cores.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace evenstep {
namespace {

constexpr double kNoQuota = std::numeric_limits<double>::infinity();

int CoresByAffinity() {
  // Twice as many as the kernel's mask may need, until it fits.
  for (int num_cpus = CPU_SETSIZE; num_cpus <= 1 << 20; num_cpus *= 2) {
    std::vector<cpu_set_t> mask((num_cpus + CPU_SETSIZE - 1) / CPU_SETSIZE);
    const size_t bytes = mask.size() * sizeof(cpu_set_t);
    if (sched_getaffinity(0, bytes, mask.data()) == 0) {
      return CPU_COUNT_S(bytes, mask.data());
    }
    if (errno != EINVAL) break;
  }
  return static_cast<int>(std::thread::hardware_concurrency());
}

// The first words of a small file; none if it cannot be read.
std::vector<std::string> WordsOf(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> words;
  std::string word;
  while (words.size() < 2 && file >> word) words.push_back(word);
  return words;
}

double Quota(absl::string_view quota, absl::string_view period) {
  double used_us = 0;
  double period_us = 0;
  if (!absl::SimpleAtod(quota, &used_us) ||
      !absl::SimpleAtod(period, &period_us) || !(used_us > 0) ||
      !(period_us > 0)) {
    return kNoQuota;  // "max", or -1
  }
  return used_us / period_us;
}

// In cores.
double QuotaOfFolder(const std::string& folder) {
  const auto max = WordsOf(folder + "/cpu.max");
  double quota = max.size() == 2 ? Quota(max[0], max[1]) : kNoQuota;
  const auto used = WordsOf(folder + "/cpu.cfs_quota_us");
  const auto period = WordsOf(folder + "/cpu.cfs_period_us");
  if (!used.empty() && !period.empty()) {
    quota = std::min(quota, Quota(used[0], period[0]));
  }
  return quota;
}

// The least quota of `path` below `mount` and its parents. In a container the
// path may name a folder outside of the mount: then the mount is the process's.
double QuotaAlong(const std::string& mount, absl::string_view path) {
  double quota = QuotaOfFolder(mount);
  std::string folder = mount;
  for (absl::string_view part : absl::StrSplit(path, '/', absl::SkipEmpty())) {
    if (part == "..") continue;
    absl::StrAppend(&folder, "/", part);
    quota = std::min(quota, QuotaOfFolder(folder));
  }
  return quota;
}

double SmallestQuota(const CgroupFiles& files) {
  double quota = kNoQuota;
  std::ifstream membership(files.membership);
  std::string line;
  while (std::getline(membership, line)) {
    // ID:CONTROLLERS:PATH; version 2 has no controllers.
    const std::vector<std::string> fields =
        absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (fields.size() != 3) continue;
    if (fields[1].empty()) {
      quota = std::min(quota, QuotaAlong(files.root, fields[2]));
      continue;
    }
    const std::vector<std::string> controllers = absl::StrSplit(fields[1], ',');
    if (std::find(controllers.begin(), controllers.end(), "cpu") ==
        controllers.end()) {
      continue;
    }
    for (const std::string& mount : {fields[1], std::string("cpu")}) {
      quota = std::min(
          quota, QuotaAlong(absl::StrCat(files.root, "/", mount), fields[2]));
    }
  }
  return quota;
}

}  // namespace

int UsableCores(const CgroupFiles& files) {
  const double cores =
      std::min<double>(CoresByAffinity(), std::ceil(SmallestQuota(files)));
  return std::max(1, static_cast<int>(cores));
}

}  // namespace evenstep
