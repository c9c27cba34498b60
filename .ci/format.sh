#!/usr/bin/env bash
# clang-format over all sources; --fix rewrites them.
set -euo pipefail
cd "$(dirname "$0")/.."
.ci/setup.sh
mapfile -t files < <(git ls-files '*.h' '*.cc')
if [ "${1:-}" = --fix ]; then
  clang-format -i "${files[@]}"
else
  clang-format --dry-run --Werror "${files[@]}"
fi
