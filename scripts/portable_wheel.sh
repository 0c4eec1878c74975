#!/usr/bin/env bash
# portable_wheel.sh: builds a wheel for manylinux_2_28 in dist/, without containers, and uses it in a fresh environment. zig (PyPI)
# compiles and links against the symbols of glibc 2.28; SQLite and Boost.Context are Debian's static libraries, unpacked in
# build/portable without changing the system. auditwheel checks the result. The first run takes half an hour on four cores.
#
# PYTHON: the interpreter that builds, default python3. From 3.12 on, the wheel is for its version and all later ones (abi3);
# with 3.11, for that version alone. Needs Debian with apt-get (not as root) and its mirror, and PyPI. It was tried on x86-64.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { echo "portable_wheel: $*"; }
fail() {
  echo "portable_wheel.sh: $*" >&2
  exit 1
}

arch=$(uname -m)
python=${PYTHON:-python3}
version=$("$python" -c 'import sys; print("{}.{}".format(*sys.version_info))')
((${version#3.} >= 11)) || fail "Python is $version; allowed: 3.11 and later (set PYTHON)"
mkdir -p "build/portable/$arch" dist
folder=$PWD/build/portable
environment=$folder/environment-$version
root=$folder/$arch/root

# Installs zig and the other tools.
install_tools() {
  cmp -s packaging/wheels/requirements.txt "$environment/requirements.txt" && return
  say "installing zig and the tools of packaging/wheels/requirements.txt"
  "$python" -m venv --clear "$environment"
  "$environment/bin/pip" install --quiet --disable-pip-version-check -r packaging/wheels/requirements.txt
  cp packaging/wheels/requirements.txt "$environment"
}

# Unpacks the dependencies in `root`, with apt's state in folders next to it.
unpack() {
  local at=$folder/$arch
  [[ -e $at/unpacked ]] && return
  rm -rf "$at"/{root,packages,state,cache}
  mkdir -p "$at"/{root,packages,state/partial,cache/archives/partial}
  local apt=(-qq -o "Dir::State::lists=$at/state" -o "Dir::Cache=$at/cache" -o Dir::State::status=/dev/null
    -o APT::Sandbox::User= -o Debug::NoLocking=1)
  say "fetching the libraries"
  apt-get "${apt[@]}" update
  depends() { apt-cache "${apt[@]}" depends "$1" | sed -n 's/^ *Depends: *//p' | grep -m 1 -E "$2"; }
  local context
  context=$(depends libboost-context-dev '^libboost-context.*-dev')
  local packages=(libsqlite3-dev nlohmann-json3-dev libcli11-dev libxxhash-dev "$context" "$(depends "$context" '^libboost[0-9.]*-dev')"
    "$(depends libpython3-dev '^libpython3\..*-dev')")
  (cd "$at/packages" && apt-get "${apt[@]}" download "${packages[@]}")
  local package headers
  for package in "$at"/packages/*.deb; do dpkg --extract "$package" "$root"; done
  # Python.h includes a header next to its own folder.
  for headers in "$root"/usr/include/python3.*; do ln -s "../$arch-linux-gnu" "$headers/$arch-linux-gnu"; done
  touch "$at/unpacked"
}

# Prints the folder of Python.h. That of the system's Python is not used where it lies, next to the C library's headers.
python_headers() {
  local own
  own=$("$environment/bin/python" -c 'import sysconfig; print(sysconfig.get_path("include"))')
  [[ $own == /usr/include/* ]] && own=$root$own
  [[ -e $own/Python.h ]] || fail "$own has no Python.h (Debian: python3-dev)"
  echo "$own"
}

# Leaves the wheel in dist/ and its name in `wheel`.
build() {
  local made=$folder/$arch/wheel api=cp${version/./} headers settings found
  [[ $version == 3.11 ]] && api=
  headers=$(python_headers)
  local left_out='tunesmith/include;tunesmith/lib;tunesmith/share/bash-completion;tunesmith/share/zsh;tunesmith/share/doc'
  # zig has stripped what it linked.
  settings=(-C "build-dir=$folder/$arch/build-$version" -C "wheel.py-api=$api" -C "wheel.exclude=$left_out" -C install.strip=false
    -C "cmake.args=-DCMAKE_TOOLCHAIN_FILE=$PWD/packaging/wheels/zig.cmake" -C cmake.define.TUNESMITH_PYTHON_SELF_CONTAINED=ON
    -C "cmake.define.TUNESMITH_WHEEL_ARCH=$arch" -C "cmake.define.TUNESMITH_WHEEL_ROOT=$root"
    -C "cmake.define.Python_INCLUDE_DIR=$headers" -C "cmake.define.CMAKE_PREFIX_PATH=/usr")
  say "building for $arch with Python $version"
  rm -rf "$made"
  PATH=$environment/bin:$PATH "$environment/bin/python" -m pip wheel . --quiet --no-deps --no-build-isolation \
    --wheel-dir "$made" "${settings[@]}"
  found=$("$environment/bin/auditwheel" show "$made"/*.whl)
  # Older tags are contained in this one.
  grep -qE "\"manylinux_2_(1?[0-9]|2[0-8])_$arch\"" <<<"$found" || fail "the wheel needs more than manylinux_2_28: $found"
  wheel=$("$environment/bin/python" -m wheel tags --remove --platform-tag "manylinux_2_28_$arch" "$made"/*.whl)
  mv -f "$made/$wheel" dist/
  say "dist/$wheel ($(du -h "dist/$wheel" | cut -f1))"
}

install_tools
TUNESMITH_ZIG=$("$environment/bin/python" -c 'import pathlib, ziglang; print(pathlib.Path(ziglang.__file__).parent / "zig")')
CCACHE_COMPILERCHECK="string:zig $("$TUNESMITH_ZIG" version)" # not the script that calls it
export TUNESMITH_ZIG CCACHE_COMPILERCHECK
unpack
build
scripts/try_wheel.sh "dist/$wheel" "$python"
