#include "data/weights_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/testing/temp_folder.h"

namespace evenstep::data {
namespace {

using ::testing::HasSubstr;

TEST(WeightsFileTest, APathIsItselfAndAFolderItsFile) {
  const TempFolder folder;
  EXPECT_EQ(*SafetensorsFileOf("/no/where.safetensors"),
            "/no/where.safetensors");
  const std::string file = folder.path() + "/model.safetensors";
  std::ofstream(file) << "x";
  EXPECT_EQ(*SafetensorsFileOf(folder.path()), file);
}

TEST(WeightsFileTest, AnIndexOfDataIsNotTakenForWeights) {
  const TempFolder folder;
  std::ofstream(folder.path() + "/.evenstep-index-0123.bin") << "x";
  EXPECT_EQ(SafetensorsFileOf(folder.path()).status().message(),
            folder.path() + ": there is no model.safetensors in this folder");
}

TEST(WeightsFileTest, APartOfSeveralIsNamed) {
  for (const char* const name :
       {"model-00001-of-00002.safetensors", "x-3-of-12.safetensors"}) {
    const absl::Status status = SafetensorsFileOf(name).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_THAT(status.ToString(), HasSubstr("it is part "));
    EXPECT_THAT(status.ToString(), HasSubstr("max_shard_size"));
  }
  for (const char* const name :
       {"model-00001-of-00001.safetensors", "out-of-order.safetensors",
        "notes-1-of-2.txt", "-of-.safetensors"}) {
    EXPECT_TRUE(SafetensorsFileOf(name).ok()) << name;
  }
}

TEST(WeightsFileTest, WhatAFolderHasInsteadIsNamed) {
  const TempFolder folder;
  EXPECT_THAT(SafetensorsFileOf(folder.path()).status().ToString(),
              HasSubstr("there is no model.safetensors in this folder"));
  std::ofstream(folder.path() + "/pytorch_model.bin") << "x";
  EXPECT_THAT(SafetensorsFileOf(folder.path()).status().ToString(),
              HasSubstr("but pytorch_model.bin; weights are read from "
                        "safetensors alone"));
  std::ofstream(folder.path() + "/adapter.safetensors") << "x";
  EXPECT_THAT(SafetensorsFileOf(folder.path()).status().ToString(),
              HasSubstr("but adapter.safetensors; name that file"));
  std::ofstream(folder.path() + "/model.safetensors.index.json") << "{}";
  EXPECT_THAT(SafetensorsFileOf(folder.path()).status().ToString(),
              HasSubstr("the weights are in several files"));
}

}  // namespace
}  // namespace evenstep::data
