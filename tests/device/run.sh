#!/usr/bin/env bash
# Checks on one GPU, with a binary that was built elsewhere and carried here:
# parity of CPU and CUDA, varlen flash attention, recompute (memory and time),
# bf16, NCCL with one rank, and a short benchmark. Needs a driver, the libraries
# that torch's wheel names, and bash; no build tools. Under 10 minutes.
#
#   tests/device/run.sh [FOLDER]     FOLDER holds evenstep-device-check
#                                    (default build/cuda/bin)
#
# EVENSTEP_DEVICE_LIBRARIES adds folders, colon-separated, in which torch's
# libraries stand on this machine. Without a GPU it is a skip, which is counted.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
folder=${1:-build/cuda/bin}
limit_seconds=${EVENSTEP_DEVICE_SECONDS:-540}

skip() {
  echo "skipped: device: $1"
  echo "0 passed, 0 failed, 1 skipped"
  exit 0
}

[ -e /dev/nvidiactl ] || skip "no GPU here (/dev/nvidiactl is not there)"
[ -x "$folder/evenstep-device-check" ] ||
  skip "no $folder/evenstep-device-check: .ci/cuda.sh builds it"
export LD_LIBRARY_PATH="${EVENSTEP_DEVICE_LIBRARIES:-}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
timeout "$limit_seconds" "$folder/evenstep-device-check"
status=$?
if [ "$status" -eq 124 ]; then
  echo "device: not over after $limit_seconds s"
  echo "0 passed, 1 failed"
fi
exit "$status"
