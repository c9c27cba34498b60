#!/usr/bin/env bash
# Debian's abseil, built again with ThreadSanitizer: in the packaged library a
# lock is invisible, and every use of absl::Mutex would be reported; so is the
# count of a status's owners. The source
# package comes from the mirror that the machine is set up with, at the version
# that is installed. Prints the folders of the libraries, colon-separated.
set -euo pipefail
cache=${EVENSTEP_CACHE_DIR:-$HOME/.cache/evenstep}
version=$(dpkg-query -W -f='${Version}' libabsl-dev)
home=$cache/abseil-tsan-status-$version
folders() {
  find "$home/build/absl" -name 'lib*.so' -printf '%h\n' | sort -u | paste -sd:
}
if [ -f "$home/.complete" ]; then
  folders
  exit 0
fi
rm -rf "$home"
mkdir -p "$home/lists/partial"
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' \
  'Codename: bookworm' | sort -u | head -n 1)
cat >"$home/src.sources" <<END
Types: deb-src
URIs: $mirror
Suites: bookworm bookworm-updates
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
END
apt=(apt-get -qq -o "Dir::Etc::sourcelist=$home/src.sources"
  -o Dir::Etc::sourceparts=/dev/null -o "Dir::State::lists=$home/lists")
{
  "${apt[@]}" update
  cd "$home"
  "${apt[@]}" source "abseil=$version"
  cd abseil-*/
  cmake -G Ninja -S . -B "$home/build" -DCMAKE_CXX_STANDARD=17 \
    -DBUILD_SHARED_LIBS=ON -DCMAKE_BUILD_TYPE=RelWithDebInfo \
    -DCMAKE_CXX_COMPILER_LAUNCHER=ccache \
    -DCMAKE_CXX_FLAGS="-fsanitize=thread" \
    -DCMAKE_SHARED_LINKER_FLAGS="-fsanitize=thread"
  cmake --build "$home/build" -j"$(nproc)" --target synchronization status
} >&2
touch "$home/.complete"
folders
