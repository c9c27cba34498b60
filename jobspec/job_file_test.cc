#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/testing/temp_folder.h"
#include "jobspec/job_keys.h"
#include "jobspec/job_spec.h"
#include "jobspec/plan_request.h"
#include "jobspec/presets.h"
#include "planner/costs/cost_file.h"

namespace evenstep::jobspec {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kWhole[] = R"(name: headers
kind: train
model:
  name: own
  layers: 2
  width: 128
  heads: 4
  kv_heads: 2
  vocab: 257
  attention: full
  sp_modes: ulysses, kv_gather
  expand_kv_heads: true
data:
  source: text:/usr/include
  max_length: 8192
  on_too_long: skip
  on_bad_sample: skip
batch:
  samples: 6
steps: 15
seed: 18446744073709551615
optimizer:
  lr: 0.003
  warmup: 3
  weight_decay: 0.01
  clip: 0.5
  sharding: zero1
precision: bfloat16
policy: balanced
ranks: 2
look_ahead: 5
memory:
  tokens_per_rank: 16384
  recompute_layers: 1
timeouts:
  collective: 90s
  start: 2m
  stop: 2500ms
costs:
  micro_batch_fixed_ns: 100
  linear_ns_per_token: 2.5
  quadratic_ns_per_token2: 0.125
  collective_latency_ns: 7
  step_fixed_ns: 9
  collective:
    - {degree: 2, ns_per_token: 1.5}
    - {degree: 4, ns_per_token: 2.5}
)";

constexpr char kLeast[] = "name: a\ndata: {source: 'text:/d'}\n";

absl::StatusOr<JobSpec> Parse(absl::string_view yaml,
                              std::vector<std::string> overrides = {}) {
  ParseOptions options;
  options.base_dir = "/base";
  options.overrides = std::move(overrides);
  return ParseJobFile(yaml, options);
}

std::string ErrorOf(absl::string_view yaml,
                    std::vector<std::string> overrides = {}) {
  return std::string(Parse(yaml, std::move(overrides)).status().message());
}

// The declaration in job_spec.proto and VisitKeys have the same keys.
TEST(JobFileTest, EveryDeclaredKeyHasOneMember) {
  std::vector<std::string> declared;
  for (const JobKey& key : JobKeys()) declared.push_back(key.name);
  std::vector<std::string> members;
  const JobSpec spec;
  VisitKeys(spec, [&](absl::string_view name, const auto& /*member*/) {
    members.emplace_back(name);
  });
  EXPECT_THAT(members, testing::UnorderedElementsAreArray(declared));
}

// Enums are read and written by number.
TEST(JobFileTest, EveryWordReadsBackAndNoOtherDoes) {
  JobSpec spec;
  int num_words = 0;
  for (const JobKey& key : JobKeys()) {
    for (const std::string& word : key.words) {
      ASSERT_TRUE(SetKey(key, word, &spec).ok()) << key.name << " " << word;
      EXPECT_EQ(KeyText(key, spec), word);
      ++num_words;
    }
    if (key.words.empty()) continue;
    EXPECT_THAT(SetKey(key, "wrd", &spec).ToString(),
                AllOf(HasSubstr("'wrd' is unknown"), HasSubstr("known: "),
                      HasSubstr(key.words.back())));
  }
  EXPECT_EQ(num_words, 22);
  EXPECT_EQ(WordOf("precision", Precision::kFloat64), "float64");
  EXPECT_EQ(WordOf("data.on_too_long", OnTooLong::kSkip), "skip");
  EXPECT_EQ(WordOf("data.on_bad_sample", OnBadSample::kSkip), "skip");
  EXPECT_EQ(WordOf("model.kind", ModelKind::kVideo), "video");
  EXPECT_EQ(WordOf("model.attention", Attention::kFull), "full");
  EXPECT_EQ(WordOf("model.sp_modes", planner::SpMode::kSwitch), "switch");
  EXPECT_EQ(WordOf("memory.recompute", Recompute::kPlan), "plan");
  EXPECT_EQ(WordOf("optimizer.sharding", OptimizerSharding::kZero1), "zero1");
  EXPECT_EQ(WordOf("blocks", planner::BlockShape::kContiguous), "contiguous");
}

TEST(JobFileTest, EveryKeyReachesItsField) {
  const auto spec = Parse(kWhole);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->name, "headers");
  EXPECT_EQ(spec->model.layers, 2);
  EXPECT_EQ(spec->model.width, 128);
  EXPECT_EQ(spec->model.heads, 4);
  EXPECT_EQ(spec->model.kv_heads, 2);
  EXPECT_EQ(spec->data.source, "text:/usr/include");
  EXPECT_EQ(spec->data.max_length, 8192);
  EXPECT_EQ(spec->data.on_too_long, OnTooLong::kSkip);
  EXPECT_EQ(spec->data.on_bad_sample, OnBadSample::kSkip);
  EXPECT_EQ(spec->batch_samples, 6);
  EXPECT_EQ(spec->steps, 15);
  EXPECT_EQ(spec->seed, 18446744073709551615ULL);
  EXPECT_EQ(spec->optimizer.lr, 0.003);
  EXPECT_EQ(spec->optimizer.warmup, 3);
  EXPECT_EQ(spec->optimizer.weight_decay, 0.01);
  EXPECT_EQ(spec->optimizer.clip, 0.5);
  EXPECT_EQ(spec->optimizer.sharding, OptimizerSharding::kZero1);
  EXPECT_EQ(spec->precision, Precision::kBFloat16);
  EXPECT_EQ(spec->model.attention, Attention::kFull);
  EXPECT_EQ(spec->model.sp_modes,
            (std::vector<planner::SpMode>{planner::SpMode::kUlysses,
                                          planner::SpMode::kKvGather}));
  EXPECT_TRUE(spec->model.expand_kv_heads);
  EXPECT_EQ(spec->model.name, "own");
  EXPECT_EQ(spec->policy, planner::Policy::kBalanced);
  EXPECT_EQ(spec->ranks, 2);
  EXPECT_EQ(spec->look_ahead, 5);
  EXPECT_EQ(spec->memory.tokens_per_rank, 16384);
  EXPECT_EQ(spec->memory.recompute_layers, 1);
  EXPECT_EQ(spec->timeouts.collective, absl::Seconds(90));
  EXPECT_EQ(spec->timeouts.start, absl::Minutes(2));
  EXPECT_EQ(spec->timeouts.stop, absl::Milliseconds(2500));
  ASSERT_TRUE(spec->costs.has_value());
  EXPECT_EQ(spec->costs->micro_batch_fixed_ns, 100);
  EXPECT_EQ(spec->costs->linear_ns_per_token, 2.5);
  EXPECT_EQ(spec->costs->quadratic_ns_per_token2, 0.125);
  EXPECT_EQ(spec->costs->collective_latency_ns, 7);
  EXPECT_EQ(spec->costs->step_fixed_ns, 9);
  ASSERT_EQ(spec->costs->collective.size(), 2u);
  EXPECT_EQ(spec->costs->collective[1].degree, 4);
  EXPECT_EQ(spec->costs->collective[1].ns_per_token, 2.5);
}

TEST(JobFileTest, LeastFileHasTheDefaultsAndAsManyKvHeadsAsHeads) {
  const auto spec = Parse(kLeast);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->model.kv_heads, spec->model.heads);
  EXPECT_EQ(spec->model.vocab, 257);
  EXPECT_EQ(spec->policy, planner::Policy::kEven);
  EXPECT_EQ(spec->look_ahead, 4);
  EXPECT_EQ(spec->optimizer.sharding, OptimizerSharding::kNone);
  EXPECT_EQ(spec->precision, Precision::kFloat32);
  EXPECT_EQ(spec->model.attention, Attention::kCausal);
  EXPECT_FALSE(spec->costs.has_value());
  EXPECT_FALSE(spec->timeouts.collective.has_value());
}

TEST(JobFileTest, WrittenFileReadsBackToTheSameJob) {
  for (const char* text : {kWhole, kLeast}) {
    const auto spec = Parse(text);
    ASSERT_TRUE(spec.ok()) << spec.status();
    const std::string written = FormatJobFile(*spec);
    const auto again = Parse(written);
    ASSERT_TRUE(again.ok()) << again.status() << written;
    EXPECT_EQ(FormatJobFile(*again), written);
  }
  EXPECT_THAT(FormatJobFile(*Parse(kWhole)),
              AllOf(HasSubstr("  samples: 6\n"), HasSubstr("policy: balanced"),
                    HasSubstr("  collective: 1m30s\n"),
                    HasSubstr("    - {degree: 4, ns_per_token: 2.5}\n")));
}

TEST(JobFileTest, StrangeNamesSurviveTheRoundTrip) {
  JobSpec spec = *Parse(kLeast);
  for (const char* name : {"null", "true", "1.5", "a: b", "#x", "\"q'", "- l",
                           " spaces ", "\xc3\xa9", "[1]", "*a", "&b"}) {
    spec.name = name;
    const auto again = Parse(FormatJobFile(spec));
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(again->name, name);
  }
}

TEST(JobFileTest, UnknownKeysAreErrorsAtEveryLevelWithLineAndNames) {
  EXPECT_THAT(
      ErrorOf("name: a\nrank: 2\n"),
      AllOf(StartsWith("job.yaml:2: unknown key 'rank'"),
            HasSubstr("did you mean 'ranks'"), HasSubstr("look_ahead")));
  EXPECT_THAT(
      ErrorOf("model:\n  layer: 2\n"),
      AllOf(StartsWith("job.yaml:2: unknown key 'model.layer'"),
            HasSubstr("did you mean 'layers'"),
            HasSubstr(
                "known: kind, name, layers, width, heads, kv_heads, vocab")));
  EXPECT_THAT(ErrorOf("timeouts: {colective: 1s}\n"),
              HasSubstr("did you mean 'collective'"));
  EXPECT_THAT(ErrorOf("costs: {linear: 1}\n"),
              HasSubstr("job.yaml:1: unknown key 'linear'"));
  EXPECT_THAT(ErrorOf("costs:\n  collective: [{degre: 2}]\n"),
              HasSubstr("unknown key 'degre'; did you mean 'degree'? known: "
                        "degree, ns_per_token"));
  EXPECT_THAT(ErrorOf("model.layers: 2\n"),
              HasSubstr("dots are for --set, a file has sections: model: "
                        "{layers: ...}"));
  EXPECT_THAT(ErrorOf("lr: 0.1\n"),
              HasSubstr("unknown key 'lr'; did you mean 'optimizer.lr'?"));
  EXPECT_THAT(ErrorOf("name = x\n"), HasSubstr("'key = value' is TOML"));
}

TEST(JobFileTest, WrongShapesAndTypesNameLineAndKey) {
  EXPECT_THAT(ErrorOf("- a\n"), HasSubstr("expected 'key: value' lines"));
  EXPECT_THAT(
      ErrorOf("model: 3\n"),
      HasSubstr("job.yaml:1: model: expected a map with kind, name, layers"));
  EXPECT_THAT(ErrorOf("name: [a]\n"), HasSubstr("name: expected a single"));
  EXPECT_THAT(ErrorOf("name:\n"), HasSubstr("name: expected a single"));
  EXPECT_THAT(ErrorOf("\nsteps: 1.5\n"),
              StartsWith("job.yaml:2: steps: '1.5' is not a whole number"));
  EXPECT_THAT(ErrorOf("seed: -1\n"), HasSubstr("seed: '-1'"));
  EXPECT_THAT(ErrorOf("policy: evn\n"), HasSubstr("job.yaml:1: policy: "));
  EXPECT_THAT(ErrorOf("data:\n  on_too_long: cut\n"),
              HasSubstr("job.yaml:2: data.on_too_long: 'cut' is unknown"));
  EXPECT_THAT(ErrorOf("timeouts: {start: 60}\n"), HasSubstr("a duration"));
}

TEST(JobFileTest, ElasticBatchesAreRefusedWithTheReasonAndTheCommand) {
  EXPECT_THAT(ErrorOf("name: a\nbatch: elastic\n"),
              AllOf(StartsWith("job.yaml:2: batch: elastic: which samples"),
                    HasSubstr("`evenstep plan --batch elastic`")));
  EXPECT_THAT(ErrorOf(kLeast, {"batch=elastic"}),
              AllOf(StartsWith("--set batch: elastic: which samples"),
                    HasSubstr("`evenstep plan --batch elastic`")));
}

TEST(JobFileTest, BrokenRulesNameTheLineOfTheirKey) {
  EXPECT_THAT(ErrorOf("name: a\ndata: {source: 'text:/d'}\nranks: 0\n"),
              StartsWith("job.yaml:3: ranks: 0 is not in 1 to "));
  EXPECT_THAT(ErrorOf("name: a\n"),
              HasSubstr("job.yaml:1: data.source: is required"));
  EXPECT_THAT(ErrorOf(kLeast, {"model.heads=3"}),
              HasSubstr("128 is not a multiple of 3 heads"));
}

TEST(JobFileTest, OverridesApplyOverTheFileBeforeTheRules) {
  const auto spec = Parse(kWhole, {"ranks=4", "data.source=text:rel/*.txt",
                                   "optimizer.lr=1e-3", "policy=even"});
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->ranks, 4);
  EXPECT_EQ(spec->data.source, "text:/base/rel/*.txt");
  EXPECT_EQ(spec->optimizer.lr, 1e-3);
  EXPECT_EQ(spec->policy, planner::Policy::kEven);
  // The file alone breaks a rule that the override mends.
  EXPECT_TRUE(
      Parse("name: a\nranks: 0\n", {"ranks=1", "data.source=text:/d"}).ok());
}

TEST(JobFileTest, WrongOverridesAreNamedAsSuch) {
  EXPECT_THAT(ErrorOf(kLeast, {"ranks"}),
              HasSubstr("--set ranks: expected key=value"));
  EXPECT_THAT(ErrorOf(kLeast, {"rank=2"}),
              AllOf(HasSubstr("--set rank: unknown key"),
                    HasSubstr("did you mean 'ranks'")));
  EXPECT_THAT(ErrorOf(kLeast, {"ranks=two"}),
              HasSubstr("--set ranks: 'two' is not"));
  EXPECT_THAT(ErrorOf(kLeast, {"steps=0"}),
              StartsWith("--set steps: 0 is not in 1 to "));
  EXPECT_THAT(
      ErrorOf(kLeast, {"model=3"}),
      HasSubstr("--set model: unknown key; it is a section, with kind"));
}

// A message names the flag that was given, not the override made of it.
TEST(JobFileTest, AnOverrideOfAFlagIsCalledByItsFlag) {
  ParseOptions options;
  options.overrides = {"ranks=0", "steps=ten", "name=x"};
  options.override_names = {"--ranks"};
  EXPECT_THAT(ParseJobFile(kLeast, options).status().ToString(),
              HasSubstr("--set steps: 'ten' is not"));
  options.overrides = {"ranks=0"};
  EXPECT_EQ(ParseJobFile(kLeast, options).status().ToString(),
            "INVALID_ARGUMENT: --ranks: 0 is not in 1 to 16384");
  options.overrides = {"costs=/nonexistent/costs.yaml"};
  options.override_names = {"--costs"};
  EXPECT_THAT(ParseJobFile(kLeast, options).status().ToString(),
              HasSubstr(": --costs: cannot open /nonexistent/costs.yaml"));
}

TEST(JobFileTest, AFolderThatIsNotUtf8IsNamedAndNotTheKey) {
  ParseOptions options;
  options.base_dir = "/data/caf\xe9";
  options.overrides = {"data.source=text:docs"};
  EXPECT_THAT(ParseJobFile(kLeast, options).status().ToString(),
              HasSubstr("relative to /data/caf?, a folder whose name is not "
                        "UTF-8"));
}

TEST(JobFileTest, RelativeDataPathsBecomeAbsolute) {
  EXPECT_EQ(Parse("name: a\ndata: {source: 'text:x/../y'}\n")->data.source,
            "text:/base/y");
  EXPECT_EQ(Parse("name: a\ndata: {source: 'text:/z/**/*.h'}\n")->data.source,
            "text:/z/**/*.h");
  EXPECT_EQ(Parse("name: a\ndata: {source: 'megatron:x/y'}\n")->data.source,
            "megatron:/base/x/y");
  EXPECT_EQ(Parse("name: a\ndata: {source: 'synthetic:short'}\n")->data.source,
            "synthetic:short");
  EXPECT_EQ(Parse("name: a\ndata: {source: 'synthetic:l.txt'}\n")->data.source,
            "synthetic:/base/l.txt");
  EXPECT_EQ(Parse("name: a\ndata: {source: 'text:x', tokenizer: m.model}\n")
                ->data.tokenizer,
            "/base/m.model");
}

TEST(JobFileTest, CostsMayBeTheNameOfAFile) {
  TempFolder folder;
  planner::TimeModel costs = *Parse(kWhole)->costs;
  ASSERT_TRUE(WriteFileAtomically(folder.path() + "/costs.yaml",
                                  planner::FormatTime(costs, ""))
                  .ok());
  ParseOptions options;
  options.base_dir = folder.path();
  const std::string file =
      "name: a\ndata: {source: 'text:/d'}\ncosts: costs.yaml\n";
  const auto spec = ParseJobFile(file, options);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(*spec->costs, costs);
  options.overrides = {"costs=none.yaml"};
  EXPECT_THAT(std::string(ParseJobFile(file, options).status().message()),
              AllOf(HasSubstr("--set costs: "), HasSubstr("none.yaml")));
}

// One grammar: what `evenstep plan --costs` reads has a `time` map, and costs
// of a job may say all of it.
TEST(JobFileTest, CostsMayBeACostFileOfPlan) {
  TempFolder folder;
  const std::string time = planner::FormatTime(*Parse(kWhole)->costs, "  ");
  ASSERT_TRUE(WriteFileAtomically(
                  folder.path() + "/costs.yaml",
                  absl::StrCat("model: {num_layers: 2, width: 8, heads: 2}\n"
                               "time:\n",
                               time,
                               "  collective_across:\n"
                               "    - {degree: 2, ns_per_token: 9}\n"
                               "memory: {tokens_per_rank: 10}\n"))
                  .ok());
  ParseOptions options;
  options.base_dir = folder.path();
  const auto spec = ParseJobFile(
      "name: a\ndata: {source: 'text:/d'}\ncosts: costs.yaml\n", options);
  ASSERT_TRUE(spec.ok()) << spec.status();
  ASSERT_EQ(spec->costs->collective_across.size(), 1u);
  EXPECT_EQ(spec->costs->collective_across[0].ns_per_token, 9);
  const std::string written = FormatJobFile(*spec);
  const auto again = Parse(written);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again->costs, *spec->costs);
}

TEST(JobFileTest, PresetsAreWholeJobFilesThatFit) {
  EXPECT_THAT(PresetNames(), testing::Contains("tiny"));
  for (const std::string& name : PresetNames()) {
    const auto spec = Parse(*PresetJobFile(name));
    ASSERT_TRUE(spec.ok()) << spec.status();
    EXPECT_EQ(spec->name, name);
    EXPECT_TRUE(CheckJobFits(*spec).ok()) << CheckJobFits(*spec);
  }
  EXPECT_THAT(PresetJobFile("tny").status().ToString(),
              HasSubstr("did you mean 'tiny'"));
}

TEST(JobFileTest, DamagedFilesNeverCrashAndGoodOnesObeyTheRules) {
  std::mt19937 random(3);
  const std::string whole = kWhole;
  for (int round = 0; round < 2000; ++round) {
    std::string text = whole.substr(0, random() % (whole.size() + 1));
    for (int flips = random() % 4; flips > 0 && !text.empty(); --flips) {
      text[random() % text.size()] = static_cast<char>(random() % 256);
    }
    const auto spec = Parse(text);
    if (!spec.ok()) continue;
    EXPECT_TRUE(ValidateJobSpec(*spec).ok());
  }
}

TEST(JobFileTest, TextThatIsNotUtf8IsRefused) {
  EXPECT_THAT(ErrorOf("name: a\xff\ndata: {source: 'text:/d'}\n"),
              AllOf(StartsWith("job.yaml:1: "), HasSubstr("not UTF-8")));
  EXPECT_THAT(ErrorOf(kLeast, {"data.source=text:/d/\xff"}),
              AllOf(StartsWith("--set"), HasSubstr("not UTF-8")));
  ParseOptions options;
  options.base_dir = "/\xff";
  EXPECT_THAT(
      ParseJobFile("name: a\ndata: {source: 'text:d'}\n", options)
          .status()
          .ToString(),
      AllOf(HasSubstr("relative to /?, a folder"), HasSubstr("not UTF-8")));
}

}  // namespace
}  // namespace evenstep::jobspec
