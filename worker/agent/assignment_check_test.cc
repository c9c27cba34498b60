#include "worker/agent/assignment_check.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "base/testing/temp_folder.h"
#include "gtest/gtest.h"
#include "wire/job_spec_proto.h"

namespace evenstep::agent {
namespace {

v1::Assignment Legal() {
  v1::Assignment assignment;
  assignment.mutable_attempt()->set_job_id("job");
  assignment.mutable_attempt()->set_attempt(1);
  assignment.set_first_rank(2);
  assignment.set_num_ranks(1);
  for (const auto& [first, count] : {std::pair(0, 2), std::pair(2, 1)}) {
    v1::Placement* placement = assignment.add_placements();
    placement->set_first_rank(first);
    placement->set_num_ranks(count);
  }
  assignment.mutable_spec()->mutable_data()->set_source("text:/tmp");
  return assignment;
}

TEST(CheckAssignmentTest, ALegalOneIsAccepted) {
  EXPECT_TRUE(CheckAssignment(Legal(), "/").ok());
}

TEST(CheckAssignmentTest, AJobIdThatIsAPathIsRefused) {
  for (const char* id : {"", "../../etc", "a/b", "-x", "A"}) {
    v1::Assignment assignment = Legal();
    assignment.mutable_attempt()->set_job_id(id);
    EXPECT_TRUE(absl::IsInvalidArgument(CheckAssignment(assignment, "/")))
        << id;
  }
}

TEST(CheckAssignmentTest, RanksMustBeAPlacements) {
  v1::Assignment assignment = Legal();
  assignment.set_num_ranks(2);
  EXPECT_TRUE(absl::IsInvalidArgument(CheckAssignment(assignment, "/")));
  assignment = Legal();
  assignment.mutable_placements(1)->set_first_rank(3);  // a gap
  EXPECT_TRUE(absl::IsInvalidArgument(CheckAssignment(assignment, "/")));
}

TEST(CheckAssignmentTest, MissingDataAreNamedBeforeAnyRankStarts) {
  v1::Assignment assignment = Legal();
  for (const char* source : {"text:/tmp/not-there", "text:/not-there/*.txt"}) {
    assignment.mutable_spec()->mutable_data()->set_source(source);
    const absl::Status missing = CheckAssignment(assignment, "/");
    EXPECT_TRUE(absl::IsNotFound(missing)) << missing;
    EXPECT_NE(missing.message().find("/not-there"), absl::string_view::npos);
  }
  assignment.mutable_spec()->mutable_data()->set_source("text:/tmp/[a-z]*");
  EXPECT_TRUE(CheckAssignment(assignment, "/").ok());
}

TEST(CheckAssignmentTest, EverySourceIsLookedForByItsFiles) {
  char name[] = "/tmp/evenstep-root-XXXXXX";
  const std::string root = mkdtemp(name);
  v1::Assignment assignment = Legal();
  v1::DataSpec* const data = assignment.mutable_spec()->mutable_data();
  data->set_source("synthetic:lognormal(median=60, sigma=1);seed=1");
  EXPECT_TRUE(CheckAssignment(assignment, root).ok());
  data->set_source("megatron:" + root + "/pair");
  EXPECT_TRUE(absl::IsNotFound(CheckAssignment(assignment, root)));
  std::ofstream(root + "/pair.idx") << "x";
  EXPECT_TRUE(absl::IsNotFound(CheckAssignment(assignment, root)));
  std::filesystem::create_symlink("/etc/passwd", root + "/pair.bin");
  EXPECT_TRUE(absl::IsPermissionDenied(CheckAssignment(assignment, root)));
  std::filesystem::remove(root + "/pair.bin");
  std::ofstream(root + "/pair.bin") << "x";
  EXPECT_TRUE(CheckAssignment(assignment, root).ok());
  data->set_tokenizer("/etc/passwd");
  EXPECT_TRUE(absl::IsPermissionDenied(CheckAssignment(assignment, root)));
  data->set_tokenizer(root + "/none.model");
  EXPECT_TRUE(absl::IsNotFound(CheckAssignment(assignment, root)));
  data->clear_tokenizer();
  v1::JobSpec* const spec = assignment.mutable_spec();
  spec->mutable_model()->set_weights("/etc/passwd");
  EXPECT_TRUE(absl::IsPermissionDenied(CheckAssignment(assignment, root)));
  spec->mutable_model()->set_weights(root + "/none.safetensors");
  EXPECT_TRUE(absl::IsNotFound(CheckAssignment(assignment, root)));
  spec->mutable_model()->set_weights(root);
  EXPECT_TRUE(CheckAssignment(assignment, root).ok());
  spec->mutable_evaluation()->set_source("text:/etc");
  EXPECT_TRUE(absl::IsPermissionDenied(CheckAssignment(assignment, root)));
  spec->mutable_evaluation()->set_source("text:" + root + "/none");
  EXPECT_TRUE(absl::IsNotFound(CheckAssignment(assignment, root)));
  std::filesystem::remove_all(root);
}

TEST(CheckDataPathTest, WhatExistsIsNoPatternWhateverItsName) {
  const TempFolder folder;
  const std::string root = folder.path() + "/root";
  std::filesystem::create_directories(root + "/x");
  std::filesystem::create_directories(folder.path() + "/outside/sub");
  for (const char* name : {"/[x]", "/a*", "/b?"}) {
    const std::string path = root + name;
    EXPECT_TRUE(CheckDataPath("text:" + path, root).ok()) << "a pattern";
    std::filesystem::create_symlink("../outside", path);
    for (const char* rest : {"", "/sub", "/not-there", "/*.conf"}) {
      for (const char* kind : {"text:", "latents:"}) {
        const std::string source = absl::StrCat(kind, path, rest);
        EXPECT_TRUE(absl::IsPermissionDenied(CheckDataPath(source, root)))
            << source;
      }
    }
  }
  std::filesystem::create_directory(root + "/[in]");
  EXPECT_TRUE(CheckDataPath("text:" + root + "/[in]", root).ok());
  EXPECT_TRUE(CheckDataPath("text:" + root + "/[in]/*.txt", root).ok());
}

TEST(CheckDataPathTest, ALinkToNothingIsRefused) {
  const TempFolder root;
  std::filesystem::create_symlink("/not/there/yet", root.path() + "/[x]");
  for (const char* path : {"/[x]", "/[x]/sub"}) {
    const std::string source = absl::StrCat("text:", root.path(), path);
    EXPECT_TRUE(absl::IsPermissionDenied(CheckDataPath(source, root.path())))
        << source;
  }
}

TEST(CheckDataPathTest, AFolderOfWeightsLinksToNothingOutsideTheRoot) {
  const TempFolder root;
  const std::string source = "weights:" + root.path() + "/snapshot";
  std::filesystem::create_directories(root.path() + "/snapshot");
  std::filesystem::create_directories(root.path() + "/blobs");
  std::ofstream(root.path() + "/blobs/1") << "x";
  std::filesystem::create_symlink("../blobs/1",
                                  root.path() + "/snapshot/model.safetensors");
  EXPECT_TRUE(CheckDataPath(source, root.path()).ok());
  std::filesystem::create_symlink("/etc/passwd",
                                  root.path() + "/snapshot/config.json");
  EXPECT_TRUE(absl::IsPermissionDenied(CheckDataPath(source, root.path())));
}

TEST(CheckAssignedInputsTest, WhatIsNoWeightsFileIsNamedBeforeAnyRankStarts) {
  char name[] = "/tmp/evenstep-root-XXXXXX";
  const std::string root = mkdtemp(name);
  jobspec::JobSpec spec;
  spec.name = "job";
  spec.model.kv_heads = 4;
  spec.data.source = "text:/tmp";
  spec.model.weights = root + "/model.safetensors";
  std::ofstream(spec.model.weights) << "version https://git-lfs.github.com/";
  v1::Assignment assignment = Legal();
  *assignment.mutable_spec() = wire::ToProto(spec);
  const absl::Status status = CheckAssignedInputs(assignment);
  EXPECT_NE(
      status.message().find("model.weights: " + spec.model.weights +
                            ": it is not a safetensors file but a Git LFS "
                            "pointer"),
      absl::string_view::npos)
      << status;
  spec.model.weights.clear();
  *assignment.mutable_spec() = wire::ToProto(spec);
  EXPECT_TRUE(CheckAssignedInputs(assignment).ok());
  std::filesystem::remove_all(root);
}

TEST(CheckDataPathTest, DataMustStayBelowTheRoot) {
  char name[] = "/tmp/evenstep-root-XXXXXX";
  const std::string root = mkdtemp(name);
  std::filesystem::create_directory(root + "/in");
  std::filesystem::create_symlink("/etc", root + "/link");
  EXPECT_TRUE(CheckDataPath("text:" + root + "/in", root).ok());
  EXPECT_TRUE(CheckDataPath("text:" + root + "/in/*.h", root).ok());
  EXPECT_TRUE(CheckDataPath("text:" + root + "/not/there", root).ok());
  for (const char* path :
       {"/etc", "/in/../../etc", "/link", "/link/*", "/*/../../etc"}) {
    const std::string source =
        absl::StrCat("text:", path == std::string("/etc") ? "" : root, path);
    EXPECT_TRUE(absl::IsPermissionDenied(CheckDataPath(source, root)))
        << source;
  }
  EXPECT_TRUE(
      absl::IsPermissionDenied(CheckDataPath("text:" + root + "-other", root)));
  EXPECT_TRUE(absl::IsInvalidArgument(CheckDataPath("text:relative", root)));
  std::filesystem::remove_all(root);
}

}  // namespace
}  // namespace evenstep::agent
