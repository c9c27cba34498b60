#include "coordinator/server/rendezvous.h"

#include <optional>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace evenstep::coordinator {
namespace {

constexpr absl::Duration kNow = absl::Seconds(1);

v1::AttemptId Scope(int64_t generation) {
  v1::AttemptId id;
  id.set_job_id("job");
  id.set_attempt(1);
  id.set_generation(generation);
  return id;
}

class RendezvousTest : public ::testing::Test {
 protected:
  using Result = absl::StatusOr<v1::RendezvousResponse>;

  RendezvousTest() { rendezvous_.Open(Scope(1)); }

  Result Set(const std::string& key, const std::string& value,
             int64_t generation = 1) {
    v1::RendezvousRequest request;
    *request.mutable_attempt() = Scope(generation);
    request.mutable_set()->set_key(key);
    request.mutable_set()->set_value(value);
    Result result = absl::UnknownError("no answer");
    rendezvous_.Handle(request, kNow, [&](Result r) { result = r; });
    return result;
  }
  std::shared_ptr<std::optional<Result>> Get(const std::string& key,
                                             int64_t wait_ms,
                                             int64_t generation = 1) {
    v1::RendezvousRequest request;
    *request.mutable_attempt() = Scope(generation);
    request.mutable_get()->set_key(key);
    request.mutable_get()->set_wait_ms(wait_ms);
    auto result = std::make_shared<std::optional<Result>>();
    rendezvous_.Handle(request, kNow, [result](Result r) { *result = r; });
    return result;
  }

  Rendezvous rendezvous_{{.key_bytes = 8,
                          .value_bytes = 16,
                          .bytes_per_scope = 32,
                          .waiters_per_scope = 2}};
};

TEST_F(RendezvousTest, AGetWaitsForItsKeyOnly) {
  const auto waiting = Get("a", 1000);
  EXPECT_FALSE(waiting->has_value());
  ASSERT_TRUE(Set("b", "other").ok());
  EXPECT_FALSE(waiting->has_value());
  ASSERT_TRUE(Set("a", "value").ok());
  ASSERT_TRUE(waiting->has_value());
  EXPECT_EQ((**waiting)->value(), "value");
  EXPECT_TRUE((**Get("a", 0))->found());
}

TEST_F(RendezvousTest, AWaitEndsNotFoundInTime) {
  const auto waiting = Get("a", 1000);
  rendezvous_.Expire(kNow + absl::Milliseconds(999));
  EXPECT_FALSE(waiting->has_value());
  rendezvous_.Expire(kNow + absl::Milliseconds(1000));
  ASSERT_TRUE(waiting->has_value());
  EXPECT_FALSE((**waiting)->found());
  EXPECT_FALSE((**Get("a", 0))->found());
}

TEST_F(RendezvousTest, AGenerationNeverReadsAnothersKey) {
  ASSERT_TRUE(Set("a", "old").ok());
  rendezvous_.Open(Scope(2));
  EXPECT_FALSE((**Get("a", 0, 2))->found());
  ASSERT_TRUE(Set("a", "new", 2).ok());
  EXPECT_EQ((**Get("a", 0))->value(), "old");
}

TEST_F(RendezvousTest, TheEndOfAGenerationAbortsWaitsAndForgetsKeys) {
  ASSERT_TRUE(Set("a", "old").ok());
  const auto waiting = Get("b", 1000);
  rendezvous_.Close(Scope(1), "rank 1 failed");
  EXPECT_EQ((**waiting).status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ((**waiting).status().message(), "rank 1 failed");
  EXPECT_EQ((**Get("a", 0)).status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(Set("a", "x").status().code(), absl::StatusCode::kAborted);
  rendezvous_.Open(Scope(1));
  EXPECT_FALSE((**Get("a", 0))->found());
}

TEST_F(RendezvousTest, AnotherValueUnderAKeyIsRefused) {
  ASSERT_TRUE(Set("a", "1").ok());
  EXPECT_TRUE(Set("a", "1").ok());
  EXPECT_EQ(Set("a", "2").status().code(), absl::StatusCode::kAlreadyExists);
}

TEST_F(RendezvousTest, SizesAreBounded) {
  EXPECT_EQ(Set("", "v").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Set("123456789", "v").status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Set("a", std::string(17, 'x')).status().code(),
            absl::StatusCode::kInvalidArgument);
  ASSERT_TRUE(Set("a", std::string(16, 'x')).ok());
  EXPECT_EQ(Set("b", std::string(16, 'x')).status().code(),
            absl::StatusCode::kResourceExhausted);
  const auto one = Get("p", 9), two = Get("q", 9), three = Get("r", 9);
  EXPECT_EQ((**three).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(RendezvousTest, ShutdownAnswersEverybody) {
  const auto waiting = Get("b", 1000);
  rendezvous_.CloseAll(absl::UnavailableError("leaving"));
  EXPECT_EQ((**waiting).status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace evenstep::coordinator
