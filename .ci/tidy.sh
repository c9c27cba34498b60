#!/usr/bin/env bash
# clang-tidy over the sources without torch.
set -euo pipefail
cd "$(dirname "$0")/.."
.ci/setup.sh
mkdir -p build
cmake --preset release >build/configure.log
cmake --build build/release --target evenstep_proto evenstep_grpc
mapfile -t files < <(git ls-files 'base/*.cc' 'planner/*.cc' 'data/*.cc' \
  'jobspec/*.cc' 'wire/*.cc' 'rpc/*.cc' 'client/*.cc' 'coordinator/*.cc' \
  'worker/agent/*.cc' |
  grep -vE '_(test|benchmark|fuzz)\.cc$')
printf '%s\n' "${files[@]}" |
  xargs -P "$(nproc)" -n 4 clang-tidy --quiet -p build/release
echo "tidy: ${#files[@]} files, no finding"
