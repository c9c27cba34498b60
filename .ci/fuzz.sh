#!/usr/bin/env bash
# Runs every libFuzzer target for a bounded time over its corpus.
set -euo pipefail
cd "$(dirname "$0")/.."
cmake --preset release -B build/fuzz -DCMAKE_CXX_COMPILER=clang++ \
  -DEVENSTEP_BUILD_TORCH=OFF -DEVENSTEP_FUZZ=ON >/dev/null
cmake --build build/fuzz -j"$(nproc)" --target evenstep_fuzz_targets
for target in build/fuzz/fuzz/*_fuzz; do
  found=build/fuzz/found/$(basename "$target")
  mkdir -p "$found"
  corpus=()
  if [ -f "$target.corpus" ]; then corpus=("$(cat "$target.corpus")"); fi
  echo "fuzz: $(basename "$target")"
  "$target" -max_total_time="${EVENSTEP_FUZZ_SECONDS:-15}" \
    -rss_limit_mb=2048 -max_len=65536 -verbosity=0 \
    -artifact_prefix="$found-" "$found" "${corpus[@]}"
done
