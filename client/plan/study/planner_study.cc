// The 32-H200 study (study.h), as Markdown on stdout:
//   planner_study [SEEDS]
// Progress goes to stderr. `make bench-study` writes build/bench/study.md.

#include <iostream>
#include <string>

#include "base/parse_value.h"
#include "client/plan/study/study.h"

int main(int argc, char** argv) {
  evenstep::plan::StudyConstants constants;
  const bool valid =
      argc == 1 ||
      (argc == 2 && evenstep::ParseValue(argv[1], &constants.num_seeds).ok() &&
       constants.num_seeds >= 1);
  if (!valid) {
    std::cerr << "usage: planner_study [SEEDS]\n";
    return 2;
  }
  auto say = [](const std::string& text) { std::cerr << text << std::endl; };
  std::cout << ToMarkdown(RunAsPublished(constants, say)) << "\n"
            << ToMarkdown(RunEqualSamples(constants, say));
  return std::cout.good() ? 0 : 1;
}
