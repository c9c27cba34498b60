#include "data/held_out.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

namespace evenstep::data {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<Dataset> Whole() {
  DatasetOptions options;
  options.source = "synthetic:lognormal(median=20, sigma=1);documents=1000";
  options.max_length = 1 << 20;
  return *OpenDataset(options);
}

std::set<std::string> Names(const Dataset& dataset) {
  std::set<std::string> names;
  for (int64_t i = 0; i < dataset.summary().num_samples; ++i) {
    names.insert(dataset.Name(i));
  }
  return names;
}

TEST(HeldOutTest, EveryDocumentIsInExactlyOnePart) {
  const auto split = SplitHeldOut(Whole(), 0.1, 7);
  ASSERT_TRUE(split.ok()) << split.status();
  std::set<std::string> names = Names(*split->training);
  const std::set<std::string> held_out = Names(*split->held_out);
  EXPECT_GT(held_out.size(), 70u);
  EXPECT_LT(held_out.size(), 130u);
  for (const std::string& name : held_out) {
    EXPECT_TRUE(names.insert(name).second) << name;
  }
  EXPECT_EQ(names, Names(*Whole()));
  const DatasetSummary& a = split->training->summary();
  const DatasetSummary& b = split->held_out->summary();
  EXPECT_EQ(a.total_tokens + b.total_tokens, Whole()->summary().total_tokens);
  EXPECT_EQ(std::max(a.longest, b.longest), Whole()->summary().longest);
}

TEST(HeldOutTest, SplitsAreTheSameEverywhereAndOfTheirSeed) {
  const auto one = SplitHeldOut(Whole(), 0.1, 7);
  const auto same = SplitHeldOut(Whole(), 0.1, 7);
  const auto other = SplitHeldOut(Whole(), 0.1, 8);
  EXPECT_EQ(Names(*one->held_out), Names(*same->held_out));
  EXPECT_NE(Names(*one->held_out), Names(*other->held_out));
  EXPECT_EQ(one->training->summary().content_key,
            same->training->summary().content_key);
  EXPECT_NE(one->training->summary().content_key,
            other->training->summary().content_key);
  EXPECT_EQ(one->held_out->Read(3)->tokens, same->held_out->Read(3)->tokens);
  EXPECT_FALSE(one->held_out->Read(1000).ok());
}

TEST(HeldOutTest, EvaluatedDocumentsAreDrawnAndComeOnce) {
  const auto split = SplitHeldOut(Whole(), 0.1, 7);
  const Dataset& held_out = *split->held_out;
  const EvaluatedDocuments all = ChooseEvaluated(held_out, 0, 7);
  // A document of one token has no loss.
  EXPECT_EQ(all.num_tokens + all.num_untrained,
            held_out.summary().total_tokens);
  const std::set<int64_t> once(all.documents.begin(), all.documents.end());
  EXPECT_EQ(static_cast<int64_t>(once.size()) + all.num_untrained,
            held_out.summary().num_samples);
  const EvaluatedDocuments some = ChooseEvaluated(held_out, 5, 7);
  EXPECT_EQ(some.documents, std::vector<int64_t>(all.documents.begin(),
                                                 all.documents.begin() + 5));
  EXPECT_NE(ChooseEvaluated(held_out, 5, 8).documents, some.documents);
}

TEST(HeldOutTest, WhatIsLeftOutIsCountedOnce) {
  DatasetOptions options;
  options.source = "synthetic:lognormal(median=20, sigma=1);documents=1000";
  options.max_length = 40;
  options.on_too_long = OnTooLong::kSkip;
  const auto split = SplitHeldOut(*OpenDataset(options), 0.1, 7);
  EXPECT_GT(split->training->summary().num_too_long, 0);
  EXPECT_EQ(split->held_out->summary().num_too_long, 0);
}

TEST(HeldOutTest, NoShareHoldsNothingOutAndWrongOnesAreRefused) {
  const auto none = SplitHeldOut(Whole(), 0, 7);
  EXPECT_EQ(none->held_out, nullptr);
  EXPECT_EQ(none->training->summary().num_samples, 1000);
  EXPECT_FALSE(SplitHeldOut(Whole(), 1, 7).ok());
  EXPECT_FALSE(SplitHeldOut(Whole(), -0.1, 7).ok());
  EXPECT_THAT(SplitHeldOut(Whole(), 1e-9, 7).status().ToString(),
              HasSubstr("1000 to train on and 0 to evaluate on"));
}

}  // namespace
}  // namespace evenstep::data
