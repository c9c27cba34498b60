#!/usr/bin/env bash
# AddressSanitizer and UBSan over the trainer with torch: every test of
# worker/trainer and of the custom model, but those named below; those of comm and
# link are built without torch too, and run in asan.sh. Torch itself is not
# instrumented and keeps what it allocates once, so leaks are not looked for. An
# allocation that no machine can hold fails as malloc does: a test asks for one.
set -euo pipefail
cd "$(dirname "$0")/.."
build=build/asan-torch
cmake --preset asan -B "$build" -DEVENSTEP_BUILD_TORCH=ON >/dev/null

# Left out, each with its reason.
declare -A left_out=(
  [trainer_parity_random_test]="minutes; trainer_parity_test runs this code"
  [trainer_parity_policies_test]="minutes; trainer_parity_test runs this code"
  [trainer_clip_parity_random_test]="minutes; trainer_clip_parity_test runs this code"
  [trainer_clip_parity_policies_test]="minutes; trainer_clip_parity_test runs this code"
  [trainer_planned_memory_test]="minutes; trainer_run_profile_test counts bytes too"
  [trainer_planned_clip_memory_test]="minutes; trainer_run_profile_test counts bytes too"
  [trainer_process_test]="minutes, of processes that start; trainer_train_test runs the loop"
)
names() { ctest --test-dir "$1" -N | sed -nE 's/^ *Test +#[0-9]+: (\w+)$/\1/p'; }
tests=()
for name in $(names "$build/worker/trainer") examples_custom_model_test; do
  if [ -n "${left_out[$name]:-}" ]; then
    echo "asan_torch: left out $name: ${left_out[$name]}"
  else
    tests+=("$name")
  fi
done
cmake --build "$build" -j"$(nproc)" --target "${tests[@]}"
export ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1
export UBSAN_OPTIONS=print_stacktrace=1
python3 tests/run_tests.py --build "$build" \
  --only "^($(IFS='|'; echo "${tests[*]}"))\$"
