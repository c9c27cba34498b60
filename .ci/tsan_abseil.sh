#!/usr/bin/env bash
# Debian's abseil, built again with ThreadSanitizer: in the packaged library a
# lock is invisible, and every use of absl::Mutex would be reported; so is the
# count of a status's owners. The source package comes from the mirror that the
# machine is set up with, at the version that is installed, with lists of its
# own: the machine's are not changed. Prints the folders of the libraries,
# colon-separated. Exit status 75: the source cannot be had here; the last line
# of stderr says why.
set -euo pipefail
readonly no_source=75
cache=${EVENSTEP_CACHE_DIR:-$HOME/.cache/evenstep}
version=$(dpkg-query -W -f='${Version}' libabsl-dev)
codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
home=$cache/abseil-tsan-status-$version
folders() {
  find "$home/build/absl" -name 'lib*.so' -printf '%h\n' | sort -u | paste -sd:
}
give_up() {
  echo "$*" >&2
  exit "$no_source"
}

# A deb-src entry for every mirror of this release of Debian.
list_sources() {
  local key=/usr/share/keyrings/debian-archive-keyring.gpg mirror suite
  apt-get indextargets --format '$(REPO_URI) $(CODENAME)' \
    'Created-By: Packages' | sort -u |
    while read -r mirror suite; do
      case $suite in
        "$codename" | "$codename"-updates | "$codename"-security) ;;
        *) continue ;;
      esac
      printf 'Types: deb-src\nURIs: %s\nSuites: %s\nComponents: main\n' \
        "$mirror" "$suite"
      # Without the file apt takes the keys that the machine trusts.
      if [ -f "$key" ]; then printf 'Signed-By: %s\n' "$key"; fi
      printf '\n'
    done
}

fetch() {
  rm -rf "$home"
  mkdir -p "$home/lists/partial"
  command -v dpkg-source >/dev/null || give_up "dpkg-dev is not installed"
  list_sources >"$home/src.sources"
  [ -s "$home/src.sources" ] || give_up "apt knows no mirror of '$codename'"
  local apt=(timeout 300 apt-get -qq -o Acquire::Retries=3
    -o APT::Sandbox::User=root -o "Dir::Etc::sourcelist=$home/src.sources"
    -o Dir::Etc::sourceparts=/dev/null -o "Dir::State::lists=$home/lists")
  "${apt[@]}" update || give_up "the mirror's lists of sources cannot be had"
  cd "$home"
  "${apt[@]}" source "abseil=$version" ||
    give_up "the mirror has no source of abseil $version"
}

build() {
  cd "$home"/abseil-*/
  cmake -G Ninja -S . -B "$home/build" -DCMAKE_CXX_STANDARD=17 \
    -DBUILD_SHARED_LIBS=ON -DCMAKE_BUILD_TYPE=RelWithDebInfo \
    -DCMAKE_CXX_COMPILER_LAUNCHER=ccache \
    -DCMAKE_CXX_FLAGS="-fsanitize=thread" \
    -DCMAKE_SHARED_LINKER_FLAGS="-fsanitize=thread"
  cmake --build "$home/build" -j"$(nproc)" --target synchronization status
  touch "$home/.complete"
}

# Two runs at once would build in the same folder.
mkdir -p "$cache"
exec 9>"$cache/abseil-tsan.lock"
flock 9
if [ ! -f "$home/.complete" ]; then
  fetch >&2
  build >&2
fi
folders
