#include "client/cli/data_command.h"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <stop_token>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/cli/app_fixture.h"
#include "client/cli/show/data_report.h"
#include "gmock/gmock.h"

namespace evenstep::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class DataCommandTest : public AppTest {
 protected:
  // Lengths of 3, 5 and 100 tokens, an empty file, and a masked prompt.
  DataCommandTest() : documents_(folder_ + "/documents") {
    std::filesystem::create_directories(documents_);
    Write("a", "ab");
    Write("b", "abcd");
    Write("c", std::string(99, 'c'));
    Write("empty", "");
  }

  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(documents_ + "/" + name) << text;
  }
  std::string source() const { return "text:" + documents_; }

  const std::string documents_;
};

TEST_F(DataCommandTest, InspectShowsCountsHistogramAndWhatWouldBeLeftOut) {
  EXPECT_EQ(Run({"data", "inspect", source(), "--max-length", "50"}), 0);
  EXPECT_THAT(
      out(),
      AllOf(HasSubstr("3 samples, 108 tokens, 105 of them "
                      "trained (97.2%)"),
            HasSubstr("median 5, longest 100 tokens: "),
            HasSubstr("documents/c"), HasSubstr("64-127  1        92.6%"),
            HasSubstr("1 sample (33.3%, with 92.6% of the tokens) is longer "
                      "than 50 tokens; "
                      "on_too_long: fail (the default of job files) refuses a "
                      "job, skip (the default of evenstep local) skips them, "
                      "truncate cuts them"),
            HasSubstr("1 bad sample; on_bad_sample: fail (the default of job "
                      "files) refuses a job, skip (the default of evenstep "
                      "local) skips them\n  empty: empty\n")));
}

TEST_F(DataCommandTest, InspectNamesTheFirstBadSamplesOrAllOfThem) {
  for (int i = 0; i < 7; ++i) Write(absl::StrCat("x", i), "");
  EXPECT_EQ(Run({"data", "inspect", source()}), 0);
  EXPECT_THAT(out(), HasSubstr("  empty: empty\n  x0: empty\n  x1: empty\n  "
                               "x2: empty\n  x3: empty\n  and 3 more; "
                               "--list-bad names all\n"));
  EXPECT_EQ(err(), "");
  EXPECT_EQ(Run({"data", "inspect", source(), "--list-bad"}), 0);
  EXPECT_THAT(out(), AllOf(HasSubstr("8 bad samples"),
                           HasSubstr("  x6: empty\n"), Not(HasSubstr("more"))));
  EXPECT_EQ(Run({"data", "inspect", source(), "-o", "json"}), 0);
  EXPECT_EQ(Json::parse(out())["bad"], 8);
  EXPECT_EQ(Json::parse(out())["bad_samples"].size(), 5u);
  // They are named where nothing else is there, too.
  for (const char* name : {"a", "b", "c"}) {
    std::filesystem::remove(documents_ + "/" + name);
  }
  EXPECT_EQ(Run({"data", "inspect", source()}), 5);
  EXPECT_THAT(err(), HasSubstr("x3 and 3 more: empty (`evenstep data inspect "
                               "--list-bad` names all)"));
  EXPECT_EQ(Run({"data", "inspect", source(), "--list-bad"}), 0);
  EXPECT_THAT(out(), AllOf(HasSubstr("0 samples"), HasSubstr("x6: empty")));
}

TEST_F(DataCommandTest, InspectCountsWhatIsNoData) {
  EXPECT_EQ(Run({"data", "inspect", source()}), 0);
  EXPECT_THAT(out(), Not(HasSubstr("left out")));
  Write(".hidden", "x");
  std::filesystem::create_directories(documents_ + "/out");
  Write("out/loss.csv", "step,loss\n");
  std::ofstream(documents_ + "/out/.evenstep-output") << "loss.csv\n";
  EXPECT_EQ(Run({"data", "inspect", source()}), 0);
  EXPECT_THAT(out(), AllOf(HasSubstr("3 samples, 108 tokens"),
                           HasSubstr("left out: 1 hidden entry, 1 "
                                     "entry of an earlier run\n")));
  EXPECT_EQ(Run({"data", "inspect", source(), "-o", "json"}), 0);
  EXPECT_EQ(Json::parse(out())["hidden"], 1);
  EXPECT_EQ(Json::parse(out())["own"], 1);
}

TEST_F(DataCommandTest, TokenizedFilesAreResults) {
  std::filesystem::remove(documents_ + "/empty");
  ASSERT_EQ(Run({"data", "tokenize", source(), "--out", documents_ + "/t"}), 0);
  EXPECT_EQ(Run({"data", "inspect", source(), "-o", "json"}), 0);
  EXPECT_EQ(Json::parse(out())["samples"], 3);
  EXPECT_EQ(Json::parse(out())["bad"], 0);
  EXPECT_EQ(Json::parse(out())["own"], 2);
}

TEST_F(DataCommandTest, InspectCutsLatentsByThePatch) {
  ASSERT_EQ(Run({"data", "make-latents", folder_ + "/clips", "--clips", "4"}),
            0);
  const std::string latents = "latents:" + folder_ + "/clips";
  EXPECT_EQ(Run({"data", "inspect", latents, "-o", "json"}), 0);
  const Json pixels = Json::parse(out());
  EXPECT_EQ(pixels["patch"], 1);
  EXPECT_EQ(Run({"data", "inspect", latents, "--patch", "2", "-o", "json"}), 0);
  const Json patches = Json::parse(out());
  EXPECT_EQ(patches["patch"], 2);
  EXPECT_EQ(4 * patches["tokens"].get<int64_t>(), pixels["tokens"]);
  std::ofstream(job_file_) << "name: a\nmodel: {kind: video, channels: 3, "
                              "patch: 2}\ndata: {source: \"latents:clips\"}\n";
  EXPECT_EQ(Run({"data", "inspect", job_file_, "-o", "json"}), 0);
  EXPECT_EQ(Json::parse(out())["tokens"], patches["tokens"]);
  EXPECT_EQ(Run({"data", "inspect", job_file_}), 0);
  EXPECT_THAT(out(), HasSubstr("patches of 2 x 2 latent pixels, "));
  EXPECT_EQ(Run({"data", "inspect", source(), "--patch", "2"}), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("--patch is of latents:PATH"));
}

TEST_F(DataCommandTest, InspectTakesTheRulesOfAJobFile) {
  std::ofstream(job_file_) << "name: a\ndata:\n  source: text:documents\n"
                              "  max_length: 4\n  on_too_long: truncate\n";
  EXPECT_EQ(Run({"data", "inspect", job_file_}), 0);
  EXPECT_THAT(out(), AllOf(HasSubstr("2 samples (66.7%, with 97.2% of the "
                                     "tokens) are longer than 4 tokens: cut, "
                                     "by 97 of 108 tokens"),
                           HasSubstr("Warning: 89.8% of the tokens"),
                           HasSubstr("1 bad sample: the job is refused "
                                     "unless it says on_bad_sample: skip")));
  EXPECT_EQ(Run({"data", "inspect", job_file_, "-o", "json"}), 0);
  const Json json = Json::parse(out());
  EXPECT_EQ(json["samples"], 3);
  EXPECT_EQ(json["bad"], 1);
  EXPECT_EQ(json["rules"]["too_long"], 2);
  EXPECT_EQ(json["rules"]["tokens_cut"], 97);
  EXPECT_EQ(json["histogram"][0]["from"], 2);
  EXPECT_EQ(json["histogram"].size(), 6u);  // empty ones between them too
}

TEST_F(DataCommandTest, InspectShowsWhatIsHeldOutOfTraining) {
  for (int i = 0; i < 40; ++i) Write(absl::StrCat("more", i), "abc");
  std::filesystem::remove(documents_ + "/empty");
  std::ofstream(job_file_) << "name: a\ndata:\n  source: text:documents\n"
                              "  max_length: 50\n  on_too_long: skip\n"
                              "evaluation: {share: 0.25, samples: 2}\n";
  ASSERT_EQ(Run({"data", "inspect", job_file_, "-o", "json"}), 0) << err();
  const Json json = Json::parse(out());
  const Json& held_out = json["held_out"];
  const Json& job = held_out["job"];
  EXPECT_TRUE(held_out["source"].is_null());
  EXPECT_GT(held_out["samples"], 2);
  // Of what the rules leave.
  EXPECT_EQ(held_out["samples"].get<int>() + job["num_samples"].get<int>(), 42);
  EXPECT_EQ(held_out["tokens"].get<int>() + job["total_tokens"].get<int>(),
            40 * 4 + 3 + 5);
  EXPECT_EQ(job["evaluation_samples"], 2);
  EXPECT_EQ(job["num_too_long"], 1);
  EXPECT_EQ(Run({"data", "inspect", job_file_}), 0);
  EXPECT_THAT(out(),
              AllOf(HasSubstr(absl::StrCat(held_out["samples"].get<int>(),
                                           " samples are held out, ")),
                    HasSubstr("a job's data: "),
                    HasSubstr("; 1 skipped as too long; 2 more for "
                              "evaluation, ")));
}

TEST_F(DataCommandTest, InspectShowsWhatIsLeftOutOfAnEvaluationsOwnSource) {
  std::filesystem::create_directories(folder_ + "/held_out");
  std::ofstream(folder_ + "/held_out/short") << "ab";
  std::ofstream(folder_ + "/held_out/long") << std::string(80, 'a');
  std::ofstream(folder_ + "/held_out/empty").close();
  std::ofstream(folder_ + "/held_out/masked.jsonl")
      << "{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}]}\n";
  const std::string job =
      "name: a\ndata:\n  source: text:documents\n  max_length: 50\n"
      "  on_bad_sample: skip\n  on_too_long: ";
  const std::string evaluation = "\nevaluation: {source: text:held_out}\n";
  std::ofstream(job_file_) << job << "skip" << evaluation;
  EXPECT_EQ(Run({"data", "inspect", job_file_}), 0);
  EXPECT_THAT(out(), AllOf(HasSubstr("2 samples of text:"),
                           HasSubstr("held_out are held out, "),
                           HasSubstr("; 1 more for evaluation, 3 tokens (1 "
                                     "skipped as too long; 1 skipped as bad; "
                                     "1 without a loss)")));
  std::ofstream(job_file_) << job << "fail" << evaluation;
  EXPECT_EQ(Run({"data", "inspect", job_file_, "-o", "json"}), 0);
  EXPECT_THAT(Json::parse(out())["held_out"]["refused"].get<std::string>(),
              HasSubstr("1 sample of text:"));
  EXPECT_EQ(Run({"data", "inspect", job_file_, "--max-length", "101"}), 0);
  EXPECT_THAT(out(), HasSubstr("3 samples of text:"));
  EXPECT_EQ(Run({"data", "inspect", source(), "-o", "json"}), 0);
  EXPECT_TRUE(Json::parse(out())["held_out"].is_null());
}

TEST_F(DataCommandTest, NamesOfFilesDoNotCommandTheTerminal) {
  Write("\x1b[2J", std::string(300, 'a'));
  EXPECT_EQ(Run({"data", "inspect", source()}), 0);
  EXPECT_THAT(out(), HasSubstr("documents/\\x1b[2J"));
}

TEST_F(DataCommandTest, InspectCountsMaskedTokensAsNotTrained) {
  Write("d.jsonl",
        "{\"prompt\": \"abc\", \"completion\": \"d\"}\n"
        "{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}]}\n");
  EXPECT_EQ(Run({"data", "inspect", source() + "/d.jsonl"}), 0);
  EXPECT_THAT(out(),
              AllOf(HasSubstr("2 samples"), HasSubstr("2 of them trained"),
                    HasSubstr("1 sample without a trained token")));
}

TEST_F(DataCommandTest, TokenizedTextIsTheSameDataAsMegatron) {
  const std::string prefix = folder_ + "/pair";
  EXPECT_EQ(Run({"data", "tokenize", source(), "--out", prefix}), 5);
  EXPECT_THAT(err(), HasSubstr("1 bad sample"));
  EXPECT_THAT(err(), HasSubstr("empty: empty; --skip-bad leaves them out"));
  EXPECT_FALSE(std::filesystem::exists(prefix + ".bin.partial"));
  EXPECT_EQ(Run({"data", "tokenize", source(), "--out", prefix, "--skip-bad"}),
            0);
  EXPECT_THAT(out(), HasSubstr("3 documents, 108 tokens"));
  EXPECT_EQ(Run({"data", "inspect", "megatron:" + prefix, "-o", "json"}), 0);
  const Json json = Json::parse(out());
  EXPECT_EQ(json["samples"], 3);
  EXPECT_EQ(json["tokens"], 108);
  EXPECT_EQ(json["longest"], 100);
}

TEST_F(DataCommandTest, TokenizeReplacesOnlyWhatARunWrote) {
  for (const char* ending : {".bin", ".idx"}) {
    const std::string prefix = folder_ + "/mine" + ending;
    std::ofstream(prefix + ending) << "mine";
    EXPECT_EQ(
        Run({"data", "tokenize", source(), "--out", prefix, "--skip-bad"}),
        kExitUsage);
    EXPECT_THAT(err(), HasSubstr(", which no earlier run wrote there and this "
                                 "one would replace; choose another --out"));
    EXPECT_EQ(std::filesystem::file_size(prefix + ending), 4u);
  }
  for (int run = 0; run < 2; ++run) {
    EXPECT_EQ(Run({"data", "tokenize", source(), "--out", folder_ + "/own",
                   "--skip-bad"}),
              0)
        << err();
  }
}

TEST_F(DataCommandTest, AnInterruptedTokenizeLeavesNothing) {
  std::ostringstream out;
  std::ostringstream err;
  Environment environment(out, err);
  std::stop_source stop;
  stop.request_stop();
  environment.interrupted = stop.get_token();
  TokenizeDataCommand command;
  command.source = source();
  command.out = folder_ + "/cut";
  command.skip_bad = true;
  EXPECT_EQ(TokenizeData(environment, GlobalOptions(), command),
            kExitInterrupted);
  for (const char* ending : {".bin", ".bin.partial", ".idx"}) {
    EXPECT_FALSE(std::filesystem::exists(command.out + ending)) << ending;
  }
}

TEST_F(DataCommandTest, MasksAreNotLostInMegatronsFiles) {
  Write("d.jsonl", "{\"prompt\": \"abc\", \"completion\": \"d\"}\n");
  EXPECT_EQ(Run({"data", "tokenize", source() + "/d.jsonl", "--out",
                 folder_ + "/pair"}),
            5);
  EXPECT_THAT(err(), HasSubstr("d.jsonl:1 has 2 trained tokens of 5"));
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/pair.idx"));
}

TEST_F(DataCommandTest, InspectNamesBadSamplesAndLogsNothing) {
  EXPECT_EQ(Run({"data", "inspect", source()}), 0);
  EXPECT_THAT(out(), HasSubstr("\n  empty: empty\n"));
  EXPECT_EQ(Run({"data", "inspect", source(), "-o", "json"}), 0);
  EXPECT_EQ(Json::parse(out())["bad_samples"][0], "empty: empty");
  testing::internal::CaptureStderr();
  EXPECT_EQ(Run({"data", "inspect", source()}), 0);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(Run({"data", "tokenize", source(), "--out", folder_ + "/t"}), 5);
  EXPECT_THAT(err(), HasSubstr("documents: empty: empty; --skip-bad leaves"));
}

TEST_F(DataCommandTest, ASourceThatIsNoneIsExplained) {
  EXPECT_EQ(Run({"data", "inspect", "text:"}), kExitUsage);
  EXPECT_EQ(err(),
            "evenstep: 'text:' names nothing after the colon; it is "
            "text:PATH, a folder, a glob or a file\n");
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"data", "inspect", "txt:web"},
                                             {"local", "--data", "txt:web"}}) {
    EXPECT_EQ(Run(words), kExitUsage);
    EXPECT_THAT(err(), HasSubstr("; did you mean 'text:web'?"));
  }
  EXPECT_EQ(Run({"data", "inspect", "nothing"}), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("no such job file, and 'nothing' is "
                               "none of text:PATH"));
}

TEST_F(DataCommandTest, DataInThePlaceOfAJobFileAreKnown) {
  Write("a.jsonl", "{\"text\": \"abc\"}\n");
  const std::string file = documents_ + "/a.jsonl";
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{
           {"submit"}, {"local"}, {"profile"}}) {
    std::vector<std::string> command = words;
    command.push_back(file);
    EXPECT_EQ(Run(command), kExitUsage) << words[0];
    EXPECT_THAT(err(), AllOf(HasSubstr(file + " is a file of data, not a job "
                                              "file (YAML)"),
                             HasSubstr("evenstep local --data text:" + file)))
        << words[0];
    command.back() = documents_;
    EXPECT_EQ(Run(command), kExitUsage) << words[0];
    EXPECT_THAT(err(), HasSubstr("documents is a folder, not a job file"));
  }
}

TEST_F(DataCommandTest, ABarePathIsText) {
  Write("a.jsonl", "{\"text\": \"abc\"}\n");
  for (const std::string& path :
       {documents_, documents_ + "/a.jsonl", documents_ + "/*.jsonl"}) {
    ASSERT_EQ(Run({"data", "inspect", path, "-o", "json"}), 0) << err();
    EXPECT_EQ(Json::parse(out())["source"], "text:" + path);
  }
  ASSERT_EQ(Run({"plan", "--data", documents_, "--gpus", "2"}), 0) << err();
}

TEST_F(DataCommandTest, JsonThatIsLeftOutIsNamedWithWhatIsInIt) {
  Write("qa.json", "[{\"question\": \"a\", \"answer\": \"b\"}]");
  Write("package.json", "{\"name\": \"x\"}");
  EXPECT_EQ(Run({"data", "inspect", source()}), 0);
  EXPECT_THAT(out(),
              HasSubstr("left out: 2 JSON files without records\n"
                        "  package.json: JSON without records: an object with "
                        "`name`\n"
                        "  qa.json: JSON without records: a list of objects "
                        "with `question`, `answer`; rename `question` to "
                        "`prompt` and `answer` to `completion`\n"));
  EXPECT_EQ(Run({"data", "inspect", source(), "-o", "json"}), 0);
  EXPECT_EQ(Json::parse(out())["json_files"].size(), 2u);
}

TEST_F(DataCommandTest, ASourceThatIsMostlyNotReadIsWarnedOf) {
  Write("train.parquet", "PAR1" + std::string(2000, '\0'));
  EXPECT_EQ(Run({"data", "inspect", source()}), 0);
  EXPECT_THAT(out(), HasSubstr("Warning: most of the data is not read: 2 files "
                               "of 0.002 MB, the largest train.parquet, "));
}

TEST_F(DataCommandTest, WrongUsesAreSaid) {
  EXPECT_EQ(Run({"data"}), kExitUsage);
  EXPECT_EQ(Run({"data", "inspect"}), kExitUsage);
  EXPECT_EQ(Run({"data", "inspect", "text:/no/such"}), kExitUsage);
  EXPECT_EQ(Run({"data", "tokenize", "text:/no/such", "--out", "x"}),
            kExitUsage);
  EXPECT_EQ(
      Run({"data", "make-latents", folder_, "--seed", "18446744073709551616"}),
      kExitUsage);
  EXPECT_THAT(err(), HasSubstr("from 0 to 2^64 - 1"));
  EXPECT_EQ(Run({"data"}), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("inspect, tokenize, make-latents"));
  EXPECT_EQ(Run({"data", "inspect", "/no/such/job.yaml"}), kExitUsage);
  EXPECT_EQ(Run({"data", "inspect", source(), "--max-lenght", "3"}),
            kExitUsage);
  EXPECT_THAT(err(), HasSubstr("--max-length"));
}

}  // namespace
}  // namespace evenstep::cli
