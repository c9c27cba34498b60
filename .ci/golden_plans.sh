#!/usr/bin/env bash
# The same plans whatever the flags: builds the planner without optimisation, and
# with all that may change how doubles are rounded, and compares recorded digests.
set -euo pipefail
cd "$(dirname "$0")/.."
check() {
  local name=$1 flags=$2
  cmake --preset release -B "build/golden-$name" -DEVENSTEP_BUILD_TORCH=OFF \
    -DCMAKE_CXX_FLAGS_RELEASE="$flags" >/dev/null
  cmake --build "build/golden-$name" -j"$(nproc)" \
    --target planner_golden_plans_test
  "build/golden-$name/tests/planner_golden_plans_test" --gtest_brief=1
}
check plain "-O0 -ffp-contract=off"
# gcc 12 warns of its own vector headers, which xxHash includes.
check fused "-O2 -march=native -ffp-contract=fast \
-Wno-error=uninitialized -Wno-error=maybe-uninitialized"
