// docs/job.md names every key.

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "jobspec/job_keys.h"

namespace evenstep::jobspec {
namespace {

TEST(JobReferenceTest, EveryKeyStandsInTheDocument) {
  const char* const source = std::getenv("EVENSTEP_SOURCE_DIR");
  const auto text = ReadWholeFile(
      absl::StrCat(source == nullptr ? "." : source, "/docs/job.md"), 1 << 20);
  ASSERT_TRUE(text.ok()) << text.status();
  for (const JobKey& key : JobKeys()) {
    EXPECT_TRUE(absl::StrContains(*text, absl::StrCat("`", key.name, "`")))
        << key.name;
  }
}

}  // namespace
}  // namespace evenstep::jobspec
