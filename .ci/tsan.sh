#!/usr/bin/env bash
# ThreadSanitizer over what has threads, without torch: sockets, streams, event
# loops, the coordinator, the agent, ranks as threads.
set -euo pipefail
cd "$(dirname "$0")/.."
.ci/setup.sh
mkdir -p build
tests=(base_test base_signals_test write_queue_test stream_test server_test
  coordinator_unit_test coordinator_test coordinator_server_test
  trainer_listener_test process_test slow_checks_test outbox_test agent_test
  agent_faults_test client_grpc_test trainer_in_process_communicator_test
  trainer_nccl_communicator_test trainer_nccl_session_test
  trainer_flight_recorder_test trainer_emulated_link_test
  trainer_group_pool_test trainer_group_tree_test trainer_host_device_test
  trainer_abort_switch_test trainer_agent_link_test trainer_gate_test
  trainer_plan_book_test message_chaos_test trainer_chaos_test)
# Debian's gRPC is not instrumented: its own locks are invisible. Abseil's must
# not be, since they are ours.
status=0
abseil=$(.ci/tsan_abseil.sh 2>build/tsan-abseil.log) || status=$?
if [ "$status" -eq 75 ]; then
  echo "skipped: tsan: no instrumented abseil: $(tail -n 1 build/tsan-abseil.log)"
  echo "0 passed, 0 failed, 1 skipped"
  exit 0
elif [ "$status" -ne 0 ]; then
  tail -n 40 build/tsan-abseil.log
  exit 1
fi
cmake --preset tsan >/dev/null
cmake --build build/tsan -j"$(nproc)" \
  --target "${tests[@]}" fake_trainer trainer_group_pool_long_test
export LD_LIBRARY_PATH="$abseil"
export TSAN_OPTIONS="suppressions=$PWD/.ci/tsan.supp halt_on_error=1 second_deadlock_stack=1"
python3 tests/run_tests.py --build build/tsan \
  --only "^($(IFS='|'; echo "${tests[*]}"))\$"
# Labelled as a fault test for its length; a twentieth of it here.
EVENSTEP_GROUP_OPENINGS=5000 build/tsan/tests/trainer_group_pool_long_test
