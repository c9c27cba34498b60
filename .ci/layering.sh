#!/usr/bin/env bash
# The finished binaries link what the layering allows: no torch in coordinator,
# agent and CLI; no gRPC in the trainer. Public SDK headers name neither.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=build/release/bin
status=0

refuse() { # refuse BINARY PATTERN
  if ldd "$bin/$1" | grep -E "$2"; then
    echo "layering: $1 must not link $2"
    status=1
  fi
}
for name in evenstep evenstep-coordinator evenstep-worker; do
  refuse "$name" 'libtorch|libc10|libgloo'
done
refuse evenstep-trainer 'libgrpc'
if grep -rnE '#include .*(grpc|protobuf|\.pb\.h|torch|ATen)' client/include; then
  echo "layering: the SDK's headers must not include gRPC, protobuf or torch"
  status=1
fi
exit $status
