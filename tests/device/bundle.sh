#!/usr/bin/env bash
# Collects what tests/device/run.sh runs on a machine with a GPU into one
# folder: the stripped binaries, and in lib/ the libraries that they need and
# such a machine may lack. Torch, CUDA and NCCL are not among them: those come
# with that machine's Python torch of the same version. Nor is the C library.
#
#   tests/device/bundle.sh FOLDER
#
# The binaries are those of .ci/cuda.sh (build/cuda/bin) and of make build
# (build/release/bin, or EVENSTEP_RELEASE_BIN).
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=${1:?usage: tests/device/bundle.sh FOLDER}
LIMIT_KB=$((50 * 1024))
release=${EVENSTEP_RELEASE_BIN:-build/release/bin}

CUDA_BINARIES="evenstep-device-check evenstep-trainer-cuda"
OTHER_BINARIES="evenstep evenstep-coordinator evenstep-worker evenstep-trainer"
# Of the C library, which is the machine's own.
SYSTEM='^(ld-linux.*|lib(c|m|dl|rt|pthread|resolv|util|anl))\.so'

rm -rf "$folder"
mkdir -p "$folder/lib"
for binary in $CUDA_BINARIES; do
  strip -o "$folder/$binary" "build/cuda/bin/$binary"
done
for binary in $OTHER_BINARIES; do
  strip -o "$folder/$binary" "$release/$binary"
done

# What is not in a folder of the system belongs to torch, CUDA or NCCL.
for binary in "$folder"/evenstep*; do
  ldd "$binary" | awk '$3 ~ "^/(usr/)?lib/" { print $1, $3 }'
done | sort -u | while read -r name path; do
  [[ $name =~ $SYSTEM ]] || strip -o "$folder/lib/$name" "$path"
done

kb=$(du -sk "$folder" | cut -f1)
echo "bundle: $(find "$folder/lib" -type f | wc -l) libraries, $kb kB in $folder"
if [ "$kb" -gt "$LIMIT_KB" ]; then
  echo "bundle: more than $LIMIT_KB kB"
  exit 1
fi
