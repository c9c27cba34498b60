#!/usr/bin/env bash
# Compiles and links what needs CUDA, and looks that it is linked with torch's
# CUDA half, NCCL, and no gRPC. Without headers it is a skip, which is counted.
# Nothing is started: that takes a GPU (tests/device/run.sh).
set -euo pipefail
cd "$(dirname "$0")/.."
if ! reason=$(deploy/setup-cuda.sh 2>&1); then
  echo "skipped: cuda: $(tail -n 1 <<<"$reason")"
  echo "0 passed, 0 failed, 1 skipped"
  exit 0
fi
mkdir -p build
cmake --preset release -B build/cuda -DEVENSTEP_BUILD_CUDA=ON \
  >build/cuda-configure.log 2>&1 || { cat build/cuda-configure.log; exit 1; }
cmake --build build/cuda -j"$(nproc)" \
  --target evenstep-trainer-cuda evenstep-device-check
for binary in evenstep-trainer-cuda evenstep-device-check; do
  needed=$(readelf -d "build/cuda/bin/$binary" | grep NEEDED)
  for library in libtorch_cuda libc10_cuda libnccl libcudart; do
    grep -q "$library" <<<"$needed" || {
      echo "$binary does not need $library"
      exit 1
    }
  done
  if grep -q grpc <<<"$needed"; then
    echo "$binary needs gRPC"
    exit 1
  fi
done
echo "cuda: compiled and linked; not run, since that takes a GPU"
