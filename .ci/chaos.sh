#!/usr/bin/env bash
# Random messages of broken agents and trainers: chaos.sh [RUNS] [SEED]. Without
# a seed another one each day, which the tests print.
set -euo pipefail
cd "$(dirname "$0")/.."
export EVENSTEP_CHAOS_RUNS=${1:-200}
export EVENSTEP_CHAOS_SEED=${2:-$(date +%j)}
if [ ! -f build/release/CMakeCache.txt ]; then
  cmake --preset release >/dev/null
fi
cmake --build build/release -j"$(nproc)" --target message_chaos_test \
  trainer_chaos_test >/dev/null
for test in message_chaos_test trainer_chaos_test; do
  log=build/release/$test.log
  # The coordinator and the agent warn of each message that they refuse.
  if ! build/release/tests/$test >"$log" 2>"$log.warnings"; then
    tail -50 "$log.warnings" "$log"
    exit 1
  fi
  cat "$log"
done
