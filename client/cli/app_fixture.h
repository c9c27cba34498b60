#ifndef EVENSTEP_CLIENT_CLI_APP_FIXTURE_H_
#define EVENSTEP_CLIENT_CLI_APP_FIXTURE_H_

// What the command line's tests share: a coordinator in memory, and a run that
// keeps what was written to stdout and stderr. One thread.

#include <errno.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/app.h"
#include "client/cli/show/to_json.h"
#include "evenstep/testing/fake_client.h"
#include "gtest/gtest.h"

namespace evenstep::cli {

using client::FakeClient;
using client::Job;
using client::JobState;

inline constexpr char kJobFile[] =
    "name: small\ndata:\n  source: text:/data/books\nsteps: 2\nranks: 2\n";

inline std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// The golden file's text. EVENSTEP_UPDATE_GOLDEN=1 writes it anew.
inline std::string Golden(const std::string& name, const std::string& actual) {
  const char* source = getenv("EVENSTEP_SOURCE_DIR");
  const std::string path = absl::StrCat(source == nullptr ? "." : source,
                                        "/client/cli/testdata/", name);
  if (getenv("EVENSTEP_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(path) << actual;
  }
  return ReadFile(path);
}

inline client::StepSummary Step(int64_t step, double loss) {
  client::StepSummary summary;
  summary.step = step;
  summary.loss = loss;
  summary.step_seconds = 0.5;
  summary.predicted_seconds = 0.25;
  summary.trained_tokens = 6000;
  summary.idle_share = 0.125;
  summary.predicted_imbalance = 0.0625;
  summary.padding_ratio = 0.03125;
  summary.gate_seconds = 0.0009765625;
  summary.gradient_norm = 1.5;
  summary.plan_lead = 3;
  summary.policy = "even";
  summary.lower_bound_seconds = 0.25;
  summary.num_micro_batches = 4;
  summary.highest_degree = 2;
  summary.slowest_cpu_seconds = 0.5;
  summary.mean_cpu_seconds = 0.4375;
  summary.predicted_activation_bytes = 13 << 18;
  summary.peak_activation_bytes = 3 << 20;
  summary.peak_tensor_bytes = 8 << 20;
  summary.groups_live = 1;
  return summary;
}

inline Job FullJob() {
  Job job;
  job.id = "books-1";
  job.name = "books";
  job.policy = "even";
  job.ranks = 2;
  job.num_steps = 100;
  job.job_yaml = "name: books\nsteps: 100\noptimizer:\n  lr: 0.003\n";
  job.state = JobState::kRunning;
  job.submitted = absl::FromUnixSeconds(1700000000);
  job.started = absl::FromUnixSeconds(1700000010);
  job.attempt = 1;
  job.generation = 1;
  job.placements = {{"node-0", 0, 1}, {"node-1", 1, 1}};
  job.steps_done = 12;
  job.recent_steps = {Step(10, 4.5), Step(11, 4.25)};
  job.totals.step_seconds = 6;
  job.totals.idle_share = 0.125;
  job.totals.coordination_share = 0.00390625;
  job.totals.trained_tokens = 72000;
  job.totals.padding_ratio = 0.03125;
  job.totals.steps_with_plan_lead = 8;
  job.totals.steps_after_fourth = 8;
  job.data = client::DataSummary{1000, 20, 3, 0, 4096, 1234567};
  job.costs =
      client::Costs{1000, 250.5, 0.5, 2000, {{2, 75.5}}, 3000, 0, {}, {}, {}};
  return job;
}

// A file that takes `room` writes and then fails with `error`.
class FailingBuffer : public std::streambuf {
 public:
  FailingBuffer(int room, int error) : room_(room), error_(error) {}
  int num_writes() const { return num_writes_; }

 protected:
  std::streamsize xsputn(const char*, std::streamsize size) override {
    if (++num_writes_ <= room_) return size;
    errno = error_;
    return 0;
  }
  int overflow(int c) override {
    const char letter = static_cast<char>(c);
    return xsputn(&letter, 1) == 1 ? c : EOF;
  }

 private:
  const int room_;
  const int error_;
  int num_writes_ = 0;
};

class AppTest : public ::testing::Test {
 protected:
  AppTest() {
    setenv("TZ", "UTC", 1);
    clock_.Advance(absl::Seconds(1700000099));
    folder_ = ::testing::TempDir() + "app_test_" +
              ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::create_directories(folder_);
    job_file_ = folder_ + "/job.yaml";
    std::ofstream(job_file_) << kJobFile;
    // A submitted job trains two steps and succeeds.
    fake_.ScriptSubmit([](FakeClient& fake, const Job& job) {
      client::JobEvent event;
      event.state = JobState::kRunning;
      event.attempt = 1;
      fake.AddEvent(job.id, event);
      fake.AddStep(job.id, Step(0, 5.5));
      fake.AddStep(job.id, Step(1, 5.25));
      event.state = JobState::kSucceeded;
      fake.AddEvent(job.id, event);
    });
  }
  ~AppTest() override { std::filesystem::remove_all(folder_); }

  int Run(const std::vector<std::string>& words) {
    out_.str("");
    err_.str("");
    Environment environment(stdout_ == nullptr ? out_ : *stdout_, err_);
    environment.out_is_terminal = terminal_;
    environment.err_is_terminal = terminal_;
    environment.colour = terminal_;
    environment.columns = [] { return 80; };
    environment.connect = [this](const client::ClientOptions& options) {
      coordinator_ = options.coordinator;
      return client::Borrow(fake_);
    };
    environment.interrupted = interrupt_.get_token();
    environment.clock = &clock_;
    return RunCli(words, environment);
  }

  std::string out() const { return out_.str(); }
  std::string err() const { return err_.str(); }

  FakeClient fake_;
  FakeClock clock_;
  std::stop_source interrupt_;
  bool terminal_ = false;
  std::string folder_;
  std::string job_file_;
  std::string coordinator_;
  std::ostringstream out_;
  std::ostream* stdout_ = nullptr;  // in the place of out_
  std::ostringstream err_;
};

}  // namespace evenstep::cli

#endif  // EVENSTEP_CLIENT_CLI_APP_FIXTURE_H_
