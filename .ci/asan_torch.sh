#!/usr/bin/env bash
# AddressSanitizer and UBSan over the training engine: parity of plans with one
# process, recompute, optimizer, ranks as threads. Torch itself is not
# instrumented and keeps what it allocates once, so leaks are not looked for.
set -euo pipefail
cd "$(dirname "$0")/.."
tests=(trainer_step_runner_test trainer_decoder_test trainer_adamw_test
  trainer_planted_errors_test trainer_parity_test)
cmake --preset asan -B build/asan-torch -DEVENSTEP_BUILD_TORCH=ON >/dev/null
cmake --build build/asan-torch -j"$(nproc)" --target "${tests[@]}"
export ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1
for test in "${tests[@]}"; do
  "build/asan-torch/tests/$test"
done
