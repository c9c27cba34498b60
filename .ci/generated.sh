#!/usr/bin/env bash
# Compares docs/metrics.md and docs/cli.md with the code and the binaries; --fix
# writes them anew. Needs the release build's binaries.
set -euo pipefail
cd "$(dirname "$0")/.."
nice cmake --preset release >/dev/null
nice cmake --build --preset release --target evenstep evenstep-coordinator \
  evenstep-worker >/dev/null
exec python3 .ci/generated.py "$@"
