// sdk_submit JOB_FILE [COORDINATOR]: trains a job and prints its loss.

#include <fstream>
#include <iostream>
#include <sstream>

#include "submit_and_wait.h"

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: sdk_submit JOB_FILE [COORDINATOR]\n";
    return 2;
  }
  std::ifstream file(argv[1]);
  std::stringstream text;
  if (!(text << file.rdbuf())) {
    std::cerr << "cannot read " << argv[1] << "\n";
    return 2;
  }
  evenstep::client::ClientOptions options;
  if (argc > 2) options.coordinator = argv[2];
  auto client = evenstep::client::Connect(options);
  auto job = evenstep::examples::SubmitAndWait(*client, text.str(), std::cout);
  if (!job.ok()) {
    std::cerr << job.status() << " "
              << evenstep::client::ErrorReason(job.status()) << "\n";
    return 1;
  }
  return job->state == evenstep::client::JobState::kSucceeded ? 0 : 1;
}
