#include "client/cli/generate_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "CLI/CLI.hpp"
#include "base/testing/temp_folder.h"
#include "data/safetensors.h"

namespace evenstep::cli {
namespace {

using ::testing::HasSubstr;

TEST(GenerateCommandTest, WeightsThatAreNotThereAreNamed) {
  std::ostringstream out;
  std::ostringstream err;
  Environment environment(out, err);
  GenerateCommand command;
  command.weights = "/nonexistent/model.safetensors";
  EXPECT_NE(Generate(environment, GlobalOptions(), command), kExitOk);
  EXPECT_THAT(err.str(), HasSubstr("no such weights file: /nonexistent"));
}

TEST(GenerateCommandTest, WeightsInSeveralFilesAreNotCalledMissing) {
  TempFolder folder;
  std::ofstream(folder.path() + "/model.safetensors.index.json") << "{}";
  std::ostringstream out;
  std::ostringstream err;
  Environment environment(out, err);
  GenerateCommand command;
  command.weights = folder.path();
  EXPECT_NE(Generate(environment, GlobalOptions(), command), kExitOk);
  EXPECT_THAT(err.str(), HasSubstr("the weights are in several files"));
}

TEST(GenerateCommandTest, WeightsOfARunThatWasKilledAreNamed) {
  TempFolder folder;
  const std::string path = folder.path() + "/unfinished/job/model.safetensors";
  std::filesystem::create_directories(folder.path() + "/unfinished/job");
  const std::string bytes(8, '\1');
  ASSERT_TRUE(data::WriteSafetensors(path, {{"w", "F64", {1}, bytes}},
                                     {{"evenstep.steps", "12"}})
                  .ok());
  std::ostringstream out;
  std::ostringstream err;
  Environment environment(out, err);
  GenerateCommand command;
  command.weights = folder.path();
  EXPECT_EQ(Generate(environment, GlobalOptions(), command), kExitUsage);
  EXPECT_THAT(err.str(), HasSubstr("there is no model.safetensors"));
  EXPECT_THAT(err.str(), HasSubstr("left weights after 12 steps; to use them: "
                                   "evenstep generate " +
                                   path));
}

void WriteWeights(const std::string& path, const std::string& header,
                  size_t bytes) {
  std::ofstream(path) << static_cast<char>(header.size())
                      << std::string(7, '\0') << header
                      << std::string(bytes, '\0');
}

TEST(GenerateCommandTest, ATrainerThatIsNotThereIsNamed) {
  TempFolder folder;
  GenerateCommand command;
  command.weights = folder.path() + "/model.safetensors";
  command.trainer = "/elsewhere/my-trainer";
  WriteWeights(command.weights,
               R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4);
  std::istringstream in("a prompt");
  std::ostringstream out;
  std::ostringstream err;
  Environment environment(out, err);
  environment.in = &in;
  EXPECT_NE(Generate(environment, GlobalOptions(), command), kExitOk);
  EXPECT_THAT(err.str(), HasSubstr("/elsewhere/my-trainer"));
}

TEST(GenerateCommandTest, AFileOfTheUserIsNotReplaced) {
  TempFolder folder;
  GenerateCommand command;
  command.weights = folder.path() + "/model.safetensors";
  command.prompt = "x";
  command.trainer = "/elsewhere/my-trainer";
  WriteWeights(command.weights,
               R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4);
  const std::string note = folder.path() + "/todo.md";
  std::ofstream(note) << "mine";
  for (std::string* const flag : {&command.out, &command.logits}) {
    *flag = note;
    std::ostringstream out;
    std::ostringstream err;
    Environment environment(out, err);
    EXPECT_EQ(Generate(environment, GlobalOptions(), command), kExitUsage);
    EXPECT_THAT(err.str(), HasSubstr("holds todo.md, which no earlier run"));
    flag->clear();
  }
}

TEST(GenerateCommandTest, AReaderAtATerminalIsAskedForThePrompt) {
  TempFolder folder;
  GenerateCommand command;
  command.weights = folder.path() + "/model.safetensors";
  command.trainer = "/elsewhere/my-trainer";
  WriteWeights(command.weights,
               R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4);
  for (const bool is_terminal : {false, true}) {
    std::istringstream in("a prompt");
    std::ostringstream out;
    std::ostringstream err;
    Environment environment(out, err);
    environment.in = &in;
    environment.in_is_terminal = is_terminal;
    EXPECT_NE(Generate(environment, GlobalOptions(), command), kExitOk);
    EXPECT_EQ(err.str().find("end it with Ctrl-D") != std::string::npos,
              is_terminal);
  }
}

TEST(GenerateCommandTest, FlagsOfTheOtherKindAreRefused) {
  TempFolder folder;
  GenerateCommand command;
  command.weights = folder.path() + "/model.safetensors";
  WriteWeights(command.weights,
               R"({"__metadata__":{"evenstep.model.kind":"video"},)"
               R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
               4);
  CLI::App app;
  AddGenerateFlags(&app, &command);
  app.parse("w --temperature 0.5 --frames 3", false);
  command.weights = folder.path() + "/model.safetensors";
  std::ostringstream out;
  std::ostringstream err;
  Environment environment(out, err);
  EXPECT_EQ(Generate(environment, GlobalOptions(), command), kExitUsage);
  EXPECT_THAT(err.str(),
              HasSubstr("--temperature is of text, and the weights"));
}

// A name in a file is what its writer likes.
TEST(GenerateCommandTest, MessagesAboutAFileDoNotCommandTheTerminal) {
  TempFolder folder;
  GenerateCommand command;
  command.weights = folder.path() + "/model.safetensors";
  WriteWeights(command.weights,
               R"({"\u001b[2J\u009b":{"dtype":"F32","shape":[1],)"
               R"("data_offsets":[0,8]}})",
               8);
  std::ostringstream out;
  std::ostringstream err;
  Environment environment(out, err);
  EXPECT_NE(Generate(environment, GlobalOptions(), command), kExitOk);
  EXPECT_THAT(err.str(), HasSubstr("tensor '\\x1b[2J\\u009b' (F32 [1])"));
}

}  // namespace
}  // namespace evenstep::cli
