#!/usr/bin/env bash
# release.sh [--check] VERSION: makes the files of a release in build/release-VERSION/, from the commit that is checked out:
#   tunesmith_VERSION_ARCH.deb           for Debian 12, Ubuntu 24.04 and later; with the remote cache
#   tunesmith-VERSION-Linux-ARCH.tar.gz  the installed tree, to unpack anywhere; without the remote cache
#   tunesmith-VERSION-*.whl              the Python package
#   tunesmith-VERSION.tar.gz             the sources
#   tunesmith-VERSION.cdx.json           a bill of materials (scripts/sbom.py)
#   notes.md, SHA256SUMS                 the version's section of CHANGELOG.md; digests of the files above
# Fails if the tree has changes, if the version is not the one in version.h and the files that repeat it, or if CHANGELOG.md
# has no dated section for it. --check: checks only.
#
# Run it on Debian 12, after scripts/setup.sh: programs need the C and C++ libraries of the system that they were built on, or
# later ones. Equal commits on equal systems give equal files.
# RELEASE_ARCHS: for which architectures, "x86_64 aarch64"; default this machine's. The other one's programs are cross-compiled
#   (Debian: g++-aarch64-linux-gnu, qemu-user) against Debian's packages, which are unpacked in the work folder, not installed.
# RELEASE_WHEEL: "portable" (scripts/portable_wheel.sh: manylinux_2_28; half an hour the first time), "system" (for Python 3.11
#   and later on this system or later ones; for this architecture only) or "none". Default portable.
# RELEASE_PYTHONS: interpreters, one portable wheel each, default python3. Python 3.11 makes a wheel for itself alone; 3.12 or later
#   makes one for its version and all later ones, and the one for another architecture. "python3 python3.12" serves all.
# RELEASE_OPTIONS: more options of CMake, for trying this script out: "-DCMAKE_BUILD_TYPE=Debug".
# RELEASE_WORK: folder of the builds, default build, where a second run finds what the first one has built. The builds are its
#   subfolders, as deep as build/release, so that ccache finds their objects.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

source packaging/debian_root.sh

fail() {
  echo "release.sh: $*" >&2
  exit 1
}
say() { echo "release: $*"; }

check_only=
if [[ ${1:-} == --check ]]; then
  check_only=yes
  shift
fi
(($# == 1)) || fail "usage: release.sh [--check] VERSION"
version=$1
[[ $version =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]] || fail "version is '$version'; expected MAJOR.MINOR.PATCH"
wheel=${RELEASE_WHEEL:-portable}
[[ $wheel =~ ^(portable|system|none)$ ]] || fail "RELEASE_WHEEL is '$wheel'; expected portable, system or none"

read -ra archs <<<"${RELEASE_ARCHS:-$(uname -m)}"
for arch in "${archs[@]}"; do
  [[ $arch == x86_64 || $arch == aarch64 ]] || fail "RELEASE_ARCHS is '${archs[*]}'; expected x86_64, aarch64 or both"
done

# ---- checks

# same FILE PATTERN: the first text in parentheses of PATTERN in FILE is the version.
same() {
  local found
  found=$(sed -nE "s/$2/\\1/p" "$1" | head -n 1)
  [[ $found == "$version" ]] || fail "$1 has version '$found', not '$version'"
}

# The lines of the version's section, without its heading.
section() { awk -v heading="## [$version]" 'index($0, "## [") == 1 {inside = index($0, heading) == 1; next} inside' CHANGELOG.md; }

check() {
  [[ -z $(git status --porcelain) ]] || fail "the tree has changes: $(git status --porcelain | head -n 3 | tr '\n' ' ')"
  local header=core/include/tunesmith/version.h # CMake, the wheel and the Conan recipe read it from here
  same $header '^#define TUNESMITH_VERSION "(.*)"$'
  [[ $(sed -nE 's/^#define TUNESMITH_VERSION_M[A-Z]+ //p' $header | paste -sd.) == "${version%.*}" ]] ||
    fail "$header: TUNESMITH_VERSION_MAJOR and TUNESMITH_VERSION_MINOR differ from $version"
  same packaging/vcpkg/ports/tunesmith/vcpkg.json '^ *"version": "(.*)",$'
  same CITATION.cff '^version: (.*)$'
  local date
  date=$(sed -nE "s/^## \\[${version//./\\.}\\] - ([0-9]{4}-[0-9]{2}-[0-9]{2})\$/\\1/p" CHANGELOG.md)
  [[ -n $date ]] || fail "CHANGELOG.md has no section '## [$version] - YYYY-MM-DD'"
  [[ -n $(section | tr -d '[:space:]') ]] || fail "the section of $version in CHANGELOG.md is empty"
  [[ $(sed -n 's/^date-released: //p' CITATION.cff) == "$date" ]] || fail "CITATION.cff has another date than CHANGELOG.md, $date"
}

check
[[ -z $check_only ]] || exit 0
# require TOOL PACKAGE
require() { command -v "$1" >/dev/null || fail "$1 was not found; apt-get install $2"; }
require dpkg-shlibdeps dpkg-dev
for arch in "${archs[@]}"; do
  [[ $arch == "$(uname -m)" ]] || { require "$arch-linux-gnu-g++" "g++-${arch/_/-}-linux-gnu"; require "qemu-$arch" qemu-user; }
done

# ---- builds

SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
commit=$(git rev-parse HEAD)
out=$PWD/build/release-$version
work=${RELEASE_WORK:-$PWD/build}
jobs=${RELEASE_JOBS:-$(nproc)}
umask 022
rm -rf "$out"
mkdir -p "$out" "$work"
builds=() # "ARCHIVE=FOLDER", for the bill of materials

# unpack_root ARCH FOLDER: unpacks the libraries of another architecture.
unpack_root() {
  [[ -e $2/complete ]] && return
  say "fetching the libraries for $1"
  rm -rf "$2"
  fetch "$2" "$(debian_name "$1")" "" libsqlite3-dev nlohmann-json3-dev libcli11-dev libxxhash-dev libhiredis-dev libssl-dev libssl3 \
    zlib1g-dev zlib1g 'libboost-context-dev>^libboost-context.*-dev' 'libboost-dev>^libboost[0-9.]*-dev'
  # As on a system, /lib is /usr/lib, and links to absolute paths stay inside.
  if [[ ! -L $2/lib ]]; then
    cp -a "$2/lib/." "$2/usr/lib/"
    rm -rf "${2:?}/lib"
    ln -s usr/lib "$2/lib"
  fi
  local link
  find "$2" -type l -lname '/*' | while read -r link; do ln -sfn "$2$(readlink "$link")" "$link"; done
  touch "$2/complete"
}

# build ARCH NAME OPTION...: builds in the folder release-ARCH-NAME of `work`.
build() {
  local arch=$1 folder=$work/release-$1-$2 root=$work/release-$1-root options=("${@:3}") more=()
  read -ra more <<<"${RELEASE_OPTIONS:-}"
  if [[ $arch != "$(uname -m)" ]]; then
    unpack_root "$arch" "$root"
    options+=("-DCMAKE_TOOLCHAIN_FILE=$PWD/packaging/cross.cmake" "-DTUNESMITH_CROSS_ARCH=$arch" "-DTUNESMITH_CROSS_ROOT=$root")
  fi
  say "building $2 for $arch"
  cmake -S . -B "$folder" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX=/usr -DTUNESMITH_BUILD_TESTS=OFF \
    -DTUNESMITH_BUILD_BENCH=OFF -DTUNESMITH_STATIC_DEPENDENCIES=ON "${options[@]}" "${more[@]}" >"$folder.log" 2>&1 &&
    cmake --build "$folder" -j "$jobs" >>"$folder.log" 2>&1 || { tail -40 "$folder.log" >&2; fail "$folder.log has the output"; }
}

# pack FOLDER ARCHIVE: packs a folder as it would be packed at any time and place.
pack() {
  tar --create --directory "$(dirname "$1")" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
    "$(basename "$1")" | gzip --no-name --best >"$2"
}

make_deb() { # ARCH
  build "$1" deb -DTUNESMITH_REMOTE=ON
  local folder=$work/release-$1-deb log=$work/release-$1-cpack.log deb
  rm -rf "$folder-package"
  cpack --config "$folder/CPackConfig.cmake" -G DEB -B "$folder-package" >"$log" 2>&1 ||
    { cat "$log" >&2; fail "cpack could not make the .deb"; }
  deb=$(basename "$folder-package"/*.deb)
  mv "$folder-package/$deb" "$out/"
  builds+=("$deb=$folder")
}

make_tree() { # ARCH
  build "$1" tree -DTUNESMITH_REMOTE=OFF
  local folder=$work/release-$1-tree tree=tunesmith-$version-Linux-$1
  rm -rf "$folder-package"
  cmake --install "$folder" --prefix "$folder-package/$tree" --strip >/dev/null
  pack "$folder-package/$tree" "$out/$tree.tar.gz"
  builds+=("$tree.tar.gz=$folder")
}

make_wheels() { # ARCH
  local python wheels=0
  if [[ $wheel == system ]]; then
    make_system_wheel "$1"
    return
  fi
  for python in ${RELEASE_PYTHONS:-python3}; do
    [[ $1 == "$(uname -m)" ]] || "$python" -c 'import sys; sys.exit(sys.version_info < (3, 12))' || continue
    make_portable_wheel "$1" "$python"
    wheels=$((wheels + 1))
  done
  ((wheels)) || fail "RELEASE_PYTHONS is '${RELEASE_PYTHONS:-python3}'; the wheel for $1 needs Python 3.12 or later"
}

# add_wheel BUILD: takes the wheel that is in dist/ and was built in this folder.
add_wheel() {
  local file
  file=$(basename dist/*.whl)
  cp "dist/$file" "$out/"
  builds+=("$file=$1")
}

make_portable_wheel() { # ARCH PYTHON
  local version log
  version=$("$2" -c 'import sys; print("{}.{}".format(*sys.version_info))')
  log=$work/release-$1-wheel-$version.log
  say "building the portable wheel for $1 with Python $version"
  rm -rf dist
  PYTHON=$2 scripts/portable_wheel.sh "$1" >"$log" 2>&1 || { tail -40 "$log" >&2; fail "$log has the output"; }
  add_wheel "build/portable/$1/build-$version"
}

make_system_wheel() { # ARCH
  [[ $1 == "$(uname -m)" ]] || fail "RELEASE_WHEEL=system is for this machine's architecture, not $1"
  say "building the wheel for this system"
  rm -rf dist
  # The environment stays, so that the bill of materials finds the versions of its packages.
  local log=$work/release-$1-wheel.log environment=$work/release-$1-wheel-environment requirements
  requirements=$(sed -nE 's/^requires = \[(.*)\]$/\1/p' pyproject.toml | tr -d '",')
  [[ -x $environment/bin/pip ]] || python3 -m venv "$environment"
  # shellcheck disable=SC2086  # one word per package
  "$environment/bin/pip" install --quiet --disable-pip-version-check $requirements ninja >"$log" 2>&1 &&
    PATH=$environment/bin:$PATH CXX=${CXX:-c++} "$environment/bin/pip" wheel . --quiet --disable-pip-version-check --no-deps \
      --no-build-isolation --wheel-dir dist >>"$log" 2>&1 || { tail -40 "$log" >&2; fail "$log has the output"; }
  add_wheel build/wheel
}

make_source() {
  git archive --format=tar --prefix="tunesmith-$version/" HEAD | gzip --no-name --best >"$out/tunesmith-$version.tar.gz"
}

for arch in "${archs[@]}"; do
  make_deb "$arch"
  make_tree "$arch"
  [[ $wheel == none ]] || make_wheels "$arch"
done
make_source
python3 scripts/sbom.py "$version" "$commit" "$SOURCE_DATE_EPOCH" "${builds[@]}" >"$out/tunesmith-$version.cdx.json"
section >"$out/notes.md"
(cd "$out" && LC_ALL=C sha256sum -- * >"$work/SHA256SUMS" && mv "$work/SHA256SUMS" .)
say "$out:"
(cd "$out" && du -h -- *)
