#!/usr/bin/env bash
# Checks on one GPU, with binaries that were built elsewhere and carried here:
# evenstep-device-check (parity with the CPU, attention, recompute, NCCL with
# one rank, training speed), then whole jobs and a profile by `evenstep`, whose
# trainer is evenstep-trainer-cuda. Needs a driver, bash, and a Python that has
# torch of the version that the binaries are built with; no build tools. Under
# 10 minutes.
#
#   tests/device/run.sh [FOLDER [WORD...]]
#
# FOLDER is what tests/device/bundle.sh made, or build/cuda/bin (the default,
# without the jobs). With words, only checks and jobs whose name contains one of
# them. Torch's libraries are those of EVENSTEP_DEVICE_PYTHON (python3),
# unless EVENSTEP_DEVICE_LIBRARIES names folders, colon-separated. Without a GPU
# it is a skip, which is counted.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
folder=$(realpath -m "${1:-build/cuda/bin}")
[ $# -gt 0 ] && shift
python=${EVENSTEP_DEVICE_PYTHON:-python3}
limit_seconds=${EVENSTEP_DEVICE_SECONDS:-300}
passed=0
failed=0
skipped=0

skip_all() {
  echo "skipped: device: $1"
  echo "0 passed, 0 failed, 1 skipped"
  exit 0
}

# Folders of torch and of the nvidia-* wheels beside it.
torch_folders() {
  "$python" - <<'PYTHON'
import glob, importlib.util, os
spec = importlib.util.find_spec("torch")
if spec:
    root = spec.submodule_search_locations[0]
    wheels = glob.glob(os.path.join(root, "..", "nvidia", "*", "lib"))
    print(":".join([os.path.join(root, "lib")] + sorted(wheels)))
PYTHON
}

# Libraries of the bundle, but the system's own where it has a newer one that
# torch may need.
link_bundled() {
  local known library
  known=$(ldconfig -p 2>/dev/null)
  for library in "$folder"/lib/*; do
    [ -e "$library" ] || continue
    case ${library##*/} in
      libstdc++.so.6 | libgcc_s.so.1)
        grep -q "${library##*/}" <<<"$known" && continue ;;
    esac
    ln -s "$library" "$work/lib/"
  done
}

# run_job NAME TRAINER JOB [ARGUMENT...]: leaves $work/NAME.
run_job() {
  local name=$1 trainer=$2 job=$3 begin=$SECONDS
  shift 3
  EVENSTEP_TRAINER=$folder/$trainer EVENSTEP_THREADS_PER_RANK=$threads \
    timeout 120 "$folder/evenstep" local "$job" --output "$work/$name" "$@" \
    >"$work/$name.log" 2>&1
  local status=$?
  tail -n 12 "$work/$name.log"
  if [ "$status" -ne 0 ]; then
    tail -n 20 "$work/$name/logs"/*.log
    find "$work/$name" -name 'rank-*.log' -exec tail -n 20 {} +
  fi
  echo "job $name: exit $status after $((SECONDS - begin)) s"
  return "$status"
}

# wanted NAME: no words, or one that NAME contains.
wanted() {
  local word
  [ ${#words[@]} -eq 0 ] && return
  for word in "${words[@]}"; do
    [[ $1 == *"$word"* ]] && return
  done
  return 1
}

check() {
  local name=$1
  shift
  wanted "$name" || return
  if "$@"; then
    echo "ok      $name"
    passed=$((passed + 1))
  else
    echo "FAILED  $name"
    failed=$((failed + 1))
  fi
}

# The same job in float64 on the CPU and on the GPU: the same losses, of which
# summary.json has all digits. One thread and two on the CPU differ by 5e-16.
same_losses() {
  run_job cpu evenstep-trainer tests/device/parity-job.yaml &&
    run_job gpu evenstep-trainer-cuda tests/device/parity-job.yaml &&
    "$python" - "$work/cpu/summary.json" "$work/gpu/summary.json" <<'PYTHON'
import json, sys
cpu, gpu = (json.load(open(path))["losses"] for path in sys.argv[1:])
off = [abs(a - b) / a for a, b in zip(cpu, gpu)]
print(f"  {len(cpu)} steps, loss {cpu[0]:.17g} to {cpu[-1]:.17g}; relative "
      f"differences {' '.join(f'{d:.1e}' for d in off)}")
sys.exit(0 if len(cpu) == len(gpu) > 0 and max(off) < 1e-12 else 1)
PYTHON
}

half_precision_job() {
  run_job half evenstep-trainer-cuda tests/device/speed-job.yaml &&
    "$python" - "$work/half/summary.json" <<'PYTHON'
import json, statistics, sys
steps = json.load(open(sys.argv[1]))["steps"][2:]
for key in sorted(steps[-1]):
    values = [step[key] for step in steps
              if isinstance(step[key], (int, float))]
    if values:
        print(f"  {key}: median {statistics.median(values):.6g}, last {values[-1]:.6g}")
sys.exit(0 if steps[-1]["loss"] < steps[0]["loss"] else 1)
PYTHON
}

# Costs of the job's model in bfloat16, within a minute; at most 10 % off on
# micro-batches that they were not fitted to.
profile() {
  EVENSTEP_TRAINER=$folder/evenstep-trainer-cuda \
    timeout 60 "$folder/evenstep" profile tests/device/speed-job.yaml \
    --out "$work/costs.yaml" &&
    "$python" - "$work/costs.yaml" <<'PYTHON'
import re, sys
error = float(re.search(r"held_out_error: *([-+.\deE]+)",
                        open(sys.argv[1]).read())[1])
print(f"  held-out error {error:.1%}")
sys.exit(0 if error <= 0.1 else 1)
PYTHON
}

# Steps of the job as the profile and then its steps predict them: at most 10 %
# off in the mean, after two steps that choose kernels.
job_with_profile() {
  [ -f "$work/costs.yaml" ] || { echo "no profile was made"; return 1; }
  run_job planned evenstep-trainer-cuda tests/device/speed-job.yaml \
    --costs "$work/costs.yaml" &&
    "$python" - "$work/planned/summary.json" <<'PYTHON'
import json, sys
print("  step  predicted s  measured s  tokens  micro-batches")
errors = []
for step in json.load(open(sys.argv[1]))["steps"]:
    measured, predicted = step["step_seconds"], step["predicted_seconds"]
    errors.append(abs(predicted / measured - 1))
    print(f"  {step['step']:4}  {predicted:11.4f}  {measured:10.4f}  "
          f"{step['trained_tokens']:6}  {step['num_micro_batches']}"
          f"  {predicted / measured - 1:+.1%}")
error = sum(errors[2:]) / len(errors[2:])
print(f"  mean error from step 2 on {error:.1%}")
sys.exit(0 if error <= 0.1 else 1)
PYTHON
}

[ -e /dev/nvidiactl ] || [ -n "${EVENSTEP_DEVICE_PRETEND:-}" ] ||
  skip_all "no GPU here (/dev/nvidiactl is not there)"
[ -x "$folder/evenstep-device-check" ] ||
  skip_all "no $folder/evenstep-device-check: .ci/cuda.sh builds it"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/lib"
threads=$(nproc)
link_bundled
libraries=${EVENSTEP_DEVICE_LIBRARIES:-$(torch_folders)}
export LD_LIBRARY_PATH="$work/lib:$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"

words=("$@")
timeout "$limit_seconds" "$folder/evenstep-device-check" "$@" |
  tee "$work/check.log"
status=${PIPESTATUS[0]}
if [ "$status" -eq 124 ]; then
  echo "device: not over after $limit_seconds s"
  failed=1
elif last=$(tail -n 1 "$work/check.log"); [[ $last =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed ]]; then
  passed=${BASH_REMATCH[1]}
  failed=${BASH_REMATCH[2]}
else
  echo "device: evenstep-device-check ended with $status"
  failed=1
fi
if [ -x "$folder/evenstep" ]; then
  check "a job on the GPU has the losses of one on the CPU" same_losses
  check "a job in bfloat16" half_precision_job
  check "a profile of a model on the GPU" profile
  check "a job planned with a profile" job_with_profile
elif [ $# -eq 0 ]; then
  echo "skipped: device: jobs, since $folder has no evenstep: bundle.sh adds it"
  skipped=1
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
