// The SDK's public headers bring neither gRPC, protobuf, torch nor any header
// of our own other rooms along: what the compiler reads for each of them is
// listed and searched.

#include <stdio.h>

#include <array>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"

namespace evenstep::client {
namespace {

std::string Output(const std::string& command) {
  std::string output;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return output;
  std::array<char, 4096> buffer;
  size_t count = 0;
  while ((count = fread(buffer.data(), 1, buffer.size(), pipe)) > 0) {
    output.append(buffer.data(), count);
  }
  return pclose(pipe) == 0 ? output : std::string();
}

constexpr char kPublic[] = EVENSTEP_SDK_SOURCE_DIR "/client/include";

// Files that a translation unit with just this header of the folder reads.
std::vector<std::string> FilesRead(const std::string& folder,
                                   const std::string& header) {
  return absl::StrSplit(
      Output(absl::StrCat(EVENSTEP_CXX, " -std=c++20 -M -x c++ -I ", folder,
                          " ", folder, "/", header)),
      absl::ByAnyChar(" \n\\"), absl::SkipEmpty());
}

bool IsForbidden(const std::string& path) {
  for (const char* word : {"/grpc", "google/protobuf", "torch", "evenstep/v1",
                           "/rpc/", "/wire/", "/jobspec/", "/planner/"}) {
    if (absl::StrContains(path, word)) return true;
  }
  return false;
}

TEST(Headers, IncludeNeitherGrpcNorProtobufNorTorch) {
  for (const std::string header : {"evenstep/job.h", "evenstep/client.h",
                                   "evenstep/testing/fake_client.h"}) {
    const std::vector<std::string> files = FilesRead(kPublic, header);
    ASSERT_GT(files.size(), 20u) << header << " does not compile by itself";
    for (const std::string& path : files) {
      EXPECT_FALSE(IsForbidden(path)) << header << " reads " << path;
    }
  }
}

TEST(Headers, TheSearchFindsGrpcWhereItIs) {
  bool found = false;
  for (const std::string& path :
       FilesRead(EVENSTEP_SDK_SOURCE_DIR, "rpc/channel.h")) {
    found = found || IsForbidden(path);
  }
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace evenstep::client
