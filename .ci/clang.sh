#!/usr/bin/env bash
# Builds all but torch with clang, for its warnings and -Wthread-safety; its plans
# must be those of the other builds.
set -euo pipefail
cd "$(dirname "$0")/.."
cmake --preset release -B build/clang -DCMAKE_CXX_COMPILER=clang++ \
  -DEVENSTEP_BUILD_TORCH=OFF >/dev/null
cmake --build build/clang -j"$(nproc)"
build/clang/tests/planner_golden_plans_test --gtest_brief=1
.ci/golden_plans.sh
