#!/usr/bin/env bash
# portable_wheel.sh [x86_64|aarch64]: builds a wheel for manylinux_2_28 in dist/, without containers, and uses it. zig (PyPI)
# compiles and links against the symbols of glibc 2.28; SQLite and Boost.Context are Debian's static libraries, unpacked in
# build/portable without changing the system. auditwheel checks the result. The first run takes half an hour on four cores.
# Default: this machine's architecture. For the other one, the build's programs and the test run under qemu, from Debian, too.
#
# PYTHON: the interpreter that builds, default python3. From 3.12 on, the wheel is for its version and all later ones (abi3);
# with 3.11, for that version alone, and not for the other architecture. Needs Debian with apt-get (not as root) and its mirror,
# and PyPI. It was tried on x86-64.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { echo "portable_wheel: $*"; }
fail() {
  echo "portable_wheel.sh: $*" >&2
  exit 1
}

source packaging/debian_root.sh

arch=${1:-$(uname -m)}
[[ $arch == x86_64 || $arch == aarch64 ]] || fail "architecture is '$arch'; allowed: x86_64, aarch64"
python=${PYTHON:-python3}
version=$("$python" -c 'import sys; print("{}.{}".format(*sys.version_info))')
oldest=11
[[ $arch == "$(uname -m)" ]] || oldest=12
((${version#3.} >= oldest)) || fail "Python is $version; allowed for $arch: 3.$oldest and later (set PYTHON)"
mkdir -p "build/portable/$arch" dist
folder=$PWD/build/portable
environment=$folder/environment-$version
root=$folder/$arch/root

# Installs zig and the other tools.
install_tools() {
  cmp -s packaging/wheels/requirements.txt "$environment/requirements.txt" && return
  say "installing zig and the tools of packaging/wheels/requirements.txt"
  "$python" -m venv --clear "$environment"
  "$environment/bin/pip" install --quiet --disable-pip-version-check --no-deps --require-hashes \
    -r packaging/wheels/requirements.txt
  cp packaging/wheels/requirements.txt "$environment"
}

# Unpacks the dependencies in `root`.
unpack() {
  [[ -e $root/complete ]] && return
  say "fetching the libraries"
  rm -rf "$root"
  local headers context='libboost-context-dev>^libboost-context.*-dev'
  fetch "$root" "$(debian_name "$arch")" "" libsqlite3-dev nlohmann-json3-dev libcli11-dev libxxhash-dev "$context" \
    'libboost-dev>^libboost[0-9.]*-dev' 'libpython3-dev>^libpython3\..*-dev'
  # Python.h includes a header next to its own folder.
  for headers in "$root"/usr/include/python3.*; do ln -s "../$arch-linux-gnu" "$headers/$arch-linux-gnu"; done
  touch "$root/complete"
}

# Prints the folder of Python.h. The system's Python.h is not used in place, because the C library's headers are next to it.
python_headers() {
  local own
  own=$("$environment/bin/python" -c 'import sysconfig; print(sysconfig.get_path("include"))')
  [[ $own == /usr/include/* ]] && own=$root$own
  [[ $arch == "$(uname -m)" ]] || own=$emulated/usr/include/python$emulated_python
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
  if [[ $arch != "$(uname -m)" ]]; then
    settings+=(-C "cmake.define.TUNESMITH_WHEEL_EMULATOR=$folder/$arch/emulate"
      -C "cmake.define.Python_EXECUTABLE=$folder/$arch/python")
  fi
  say "building for $arch with Python $version"
  rm -rf "$made"
  PATH=$environment/bin:$PATH "$environment/bin/python" -m pip wheel . --quiet --no-deps --no-build-isolation \
    --wheel-dir "$made" "${settings[@]}"
  # Until here, the wheel has this machine's tag; auditwheel compares it with the programs.
  found=$("$environment/bin/python" -m wheel tags --remove --platform-tag "linux_$arch" "$made"/*.whl)
  found=$("$environment/bin/auditwheel" show "$made/$found")
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
if [[ $arch == "$(uname -m)" ]]; then
  build
  scripts/try_wheel.sh "dist/$wheel" "$python"
else
  source packaging/wheels/emulation.sh
  prepare_emulation
  build
  try_emulated "dist/$wheel"
fi
