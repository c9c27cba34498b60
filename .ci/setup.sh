#!/usr/bin/env bash
# Installs what the checks need beyond deploy/setup.sh.
set -euo pipefail
packages=(clang clang-format clang-tidy dpkg-dev libclang-rt-14-dev)
missing=()
for name in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$name" 2>/dev/null |
    grep -q 'install ok installed' || missing+=("$name")
done
if [ ${#missing[@]} -eq 0 ]; then exit 0; fi
as_root=()
if [ "$(id -u)" -ne 0 ]; then as_root=(sudo); fi
"${as_root[@]}" apt-get update -qq
DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -y -qq \
  --no-install-recommends "${missing[@]}" >/dev/null
