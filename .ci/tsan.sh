#!/usr/bin/env bash
# ThreadSanitizer over everything but torch.
set -euo pipefail
cd "$(dirname "$0")/.."
cmake --preset tsan >/dev/null
cmake --build build/tsan -j"$(nproc)"
# Debian's gRPC is not instrumented: its own locks are invisible. Abseil's must
# not be, since they are ours.
abseil=$(.ci/tsan_abseil.sh)
export LD_LIBRARY_PATH="$abseil"
export TSAN_OPTIONS="suppressions=$PWD/.ci/tsan.supp halt_on_error=1 second_deadlock_stack=1"
python3 tests/run_tests.py --build build/tsan --label unit
# Labelled as a fault test for its length; a twentieth of it here.
EVENSTEP_GROUP_OPENINGS=5000 build/tsan/tests/trainer_group_pool_long_test
