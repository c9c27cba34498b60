#!/usr/bin/env bash
# Builds all but torch with clang, for its warnings and -Wthread-safety.
set -euo pipefail
cd "$(dirname "$0")/.."
cmake --preset release -B build/clang -DCMAKE_CXX_COMPILER=clang++ \
  -DEVENSTEP_BUILD_TORCH=OFF >/dev/null
cmake --build build/clang -j"$(nproc)"
