#!/usr/bin/env bash
# Installs what Evenstep is built with on Debian 12: packages from apt, and one
# pinned LibTorch (the PyPI wheel, used without Python). Idempotent: a second
# run finds everything in place and downloads nothing.
#
#   deploy/setup.sh            install what is missing
#   deploy/setup.sh --check    say what is missing, change nothing
#
# EVENSTEP_CACHE_DIR (default ~/.cache/evenstep) holds LibTorch, so that several
# checkouts share one copy. A LibTorch that is elsewhere can be named instead,
# with EVENSTEP_TORCH_DIR (the folder that has include/ and lib/).
set -euo pipefail

TORCH_VERSION=2.11.0
CUDART_VERSION=13.0.96
CUPTI_VERSION=13.0.85
CACHE_DIR=${EVENSTEP_CACHE_DIR:-$HOME/.cache/evenstep}
TORCH_HOME=$CACHE_DIR/torch-$TORCH_VERSION

PACKAGES=(g++ cmake ninja-build ccache mold pkg-config python3 python3-pip
  protobuf-compiler protobuf-compiler-grpc libprotobuf-dev libgrpc++-dev
  libabsl-dev prometheus-cpp-dev libgif-dev libgloo-dev libsqlite3-dev libgtest-dev
  libgmock-dev libbenchmark-dev libcli11-dev libspdlog-dev libyaml-cpp-dev
  nlohmann-json3-dev libsentencepiece-dev libxxhash-dev zlib1g-dev libzstd-dev)

say() { printf 'setup: %s\n' "$*" >&2; }

missing_packages() {
  local name
  for name in "${PACKAGES[@]}"; do
    dpkg-query -W -f='${Status}' "$name" 2>/dev/null |
      grep -q 'install ok installed' || printf '%s\n' "$name"
  done
}

install_packages() {
  local missing as_root=()
  mapfile -t missing < <(missing_packages)
  if [ ${#missing[@]} -eq 0 ]; then return; fi
  say "installing ${#missing[@]} Debian packages: ${missing[*]}"
  if [ "$(id -u)" -ne 0 ]; then as_root=(sudo); fi
  "${as_root[@]}" apt-get update -qq
  DEBIAN_FRONTEND=noninteractive "${as_root[@]}" \
    apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

torch_ready() { [ -f "$TORCH_HOME/.complete" ]; }

# The wheels are zip files; Python's own zipfile module unpacks them.
install_torch() {
  if [ -n "${EVENSTEP_TORCH_DIR:-}" ] || torch_ready; then return; fi
  local work
  mkdir -p "$CACHE_DIR"
  work=$(mktemp -d "$CACHE_DIR/unpack.XXXXXX")
  say "fetching LibTorch $TORCH_VERSION (530 MB) into $TORCH_HOME"
  python3 -m pip download -q --no-deps --only-binary=:all: \
    --python-version 3.11 --implementation cp \
    --platform manylinux_2_28_x86_64 --platform manylinux_2_25_x86_64 \
    --platform manylinux2014_x86_64 -d "$work/wheels" \
    "torch==$TORCH_VERSION" "nvidia-cuda-runtime==$CUDART_VERSION" \
    "nvidia-cuda-cupti==$CUPTI_VERSION"
  local wheel
  for wheel in "$work"/wheels/*.whl; do
    python3 -m zipfile -e "$wheel" "$work/tree"
    rm "$wheel"
  done
  rm -rf "$TORCH_HOME"
  mv "$work/tree" "$TORCH_HOME"
  rm -rf "$work"
  touch "$TORCH_HOME/.complete"
}

check_only() {
  local missing
  mapfile -t missing < <(missing_packages)
  if [ ${#missing[@]} -gt 0 ]; then say "missing packages: ${missing[*]}"; fi
  if [ -z "${EVENSTEP_TORCH_DIR:-}" ] && ! torch_ready; then
    say "missing LibTorch $TORCH_VERSION in $TORCH_HOME"
    return 1
  fi
  [ ${#missing[@]} -eq 0 ]
}

main() {
  if [ "${1:-}" = --check ]; then check_only; return; fi
  if [ "$(uname -m)" != x86_64 ]; then
    say "only x86_64 has a pinned LibTorch; this is $(uname -m)"
    return 1
  fi
  install_packages
  install_torch
  say "ready (LibTorch: ${EVENSTEP_TORCH_DIR:-$TORCH_HOME/torch})"
}

main "$@"
