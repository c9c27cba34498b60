#!/usr/bin/env bash
# AddressSanitizer and UBSan over everything but torch.
set -euo pipefail
cd "$(dirname "$0")/.."
cmake --preset asan -DEVENSTEP_BUILD_TORCH=OFF >/dev/null
cmake --build build/asan -j"$(nproc)"
export ASAN_OPTIONS=detect_leaks=1 UBSAN_OPTIONS=print_stacktrace=1
# Without the tests of how fast plans are made.
python3 tests/run_tests.py --build build/asan --label unit \
  --without planner_shared_batches_test
# Labelled as a fault test for its length; a twentieth of it here.
EVENSTEP_GROUP_OPENINGS=5000 build/asan/tests/trainer_group_pool_long_test
