#!/usr/bin/env bash
# Headers and libraries that evenstep-trainer-cuda is built with, for machines
# without a CUDA toolkit: NVIDIA's wheels of the CUDA runtime and of NCCL, laid
# beside LibTorch. With a toolkit in CUDA_HOME or /usr/local/cuda that has NCCL
# there is nothing to do. Idempotent.
set -euo pipefail
cd "$(dirname "$0")/.."

NCCL_VERSION=2.28.9
CACHE_DIR=${EVENSTEP_CACHE_DIR:-$HOME/.cache/evenstep}
TORCH_DIR=${EVENSTEP_TORCH_DIR:-$CACHE_DIR/torch-2.11.0/torch}
WHEELS=$(dirname "$TORCH_DIR")

say() { printf 'setup-cuda: %s\n' "$*" >&2; }

for toolkit in "${CUDA_HOME:-/nonexistent}" /usr/local/cuda; do
  if [ -f "$toolkit/include/cuda_runtime_api.h" ] &&
    [ -f "$toolkit/include/nccl.h" ]; then
    say "ready (toolkit in $toolkit)"
    exit 0
  fi
done
if [ ! -f "$WHEELS/nvidia/cu13/include/cuda_runtime_api.h" ]; then
  say "no CUDA headers beside $TORCH_DIR: run deploy/setup.sh first"
  exit 1
fi
if [ ! -f "$WHEELS/nvidia/nccl/include/nccl.h" ]; then
  work=$(mktemp -d "$CACHE_DIR/unpack.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  say "fetching NCCL $NCCL_VERSION (200 MB) into $WHEELS/nvidia/nccl"
  python3 -m pip download -q --no-deps --only-binary=:all: -d "$work" \
    "nvidia-nccl-cu13==$NCCL_VERSION"
  python3 -m zipfile -e "$work"/*.whl "$work/tree"
  mv "$work/tree/nvidia/nccl" "$WHEELS/nvidia/nccl"
fi
say "ready (wheels in $WHEELS/nvidia)"
