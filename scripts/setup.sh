#!/usr/bin/env bash
# Installs what Tunesmith needs to be built and tested on Debian 12 or Ubuntu 24.04, and nothing that is already there.
# Silent, and done in a fraction of a second, when nothing is missing. Safe to run again at any time.
#   1. Debian packages, as root or through sudo; with neither, the missing ones are named and the script fails.
#   2. NVRTC from its Python wheel into .deps/, when the machine has no CUDA toolkit. No GPU or driver is needed for that.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

nvrtc_folder=.deps/python/nvidia/cu13/lib # where the wheel puts libnvrtc; the Makefile names the same folder

say() { echo "setup: $*"; }
fail() {
  echo "setup: $*" >&2
  exit 1
}

# ---- packages

# A tool counts as present however it was installed; a library counts when its package is installed.
declare -A tool_package=(
  [g++]=g++ [cmake]=cmake [ninja]=ninja-build [make]=make [git]=git [pkg-config]=pkgconf [ccache]=ccache
  [clang-format-14]=clang-format-14 [clang-tidy-14]=clang-tidy-14 # the version is part of the rules: others format differently
)
libraries=(libsqlite3-dev libboost-context-dev nlohmann-json3-dev libcli11-dev libxxhash-dev libgtest-dev libbenchmark-dev)

missing_packages() {
  local tool
  for tool in "${!tool_package[@]}"; do
    command -v "$tool" >/dev/null || echo "${tool_package[$tool]}"
  done
  command -v dpkg-query >/dev/null || fail "this is neither Debian nor Ubuntu. Install the equivalents of: ${libraries[*]}"
  local installed
  installed=$(dpkg-query --show --showformat='${db:Status-Abbrev}${Package}\n' "${libraries[@]}" 2>/dev/null || true)
  local library
  for library in "${libraries[@]}"; do
    grep -q "^ii *$library\$" <<<"$installed" || echo "$library"
  done
}

install_packages() {
  local as_root=()
  if ((EUID != 0)); then
    local how="missing packages; run as root: apt-get install --no-install-recommends $*"
    command -v sudo >/dev/null || fail "$how"
    # Without a terminal nobody can type a password.
    [[ -t 0 ]] || sudo -n true 2>/dev/null || fail "$how"
    as_root=(sudo)
  fi
  command -v apt-get >/dev/null || fail "no apt-get. Install the equivalents of: $*"
  say "installing $*"
  local log
  log=$(mktemp)
  local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get --quiet --yes -o DPkg::Lock::Timeout=120)
  if ! { "${apt[@]}" update && "${apt[@]}" install --no-install-recommends "$@"; } >"$log" 2>&1; then
    cat "$log" >&2
    rm -f "$log"
    fail "apt-get could not install: $*"
  fi
  rm -f "$log"
}

require_packages() {
  local missing
  missing=$(missing_packages | sort -u)
  # shellcheck disable=SC2086  # one word per package
  if [[ -n $missing ]]; then install_packages $missing; fi
}

# at_least HAVE WANT: dotted version numbers.
at_least() { [[ $(printf '%s\n' "$2" "$1" | sort -V | head -n 1) == "$2" ]]; }

# ---- NVRTC

have_nvrtc() {
  local file
  for file in ${TUNESMITH_CUDA:+"${TUNESMITH_CUDA%%:*}"/libnvrtc.so.1[23]} "$nvrtc_folder"/libnvrtc.so.13 \
    /usr/local/cuda*/{lib64,lib}/libnvrtc.so.1[23]; do
    [[ -e $file ]] && return
  done
  # Not `ldconfig | grep -q`: under pipefail, grep leaving early would read as "not found". Not on every user's PATH either.
  [[ $(PATH=$PATH:/usr/sbin:/sbin ldconfig -p) == *libnvrtc.so.1[23]* ]]
}

# Only NVRTC: it links to libc alone. The CUDA run-time library is not needed, because Tunesmith launches through the driver,
# and neither are the CUDA headers, because kernels include none.
install_nvrtc() {
  say "no CUDA toolkit found: downloading NVRTC (about 90 MB) into .deps/"
  if ! python3 -m pip --version >/dev/null 2>&1; then install_packages python3-pip; fi
  rm -rf .deps/python .deps/python.partial
  mkdir -p .deps
  # --target keeps it away from the system's packages, so an externally managed Python does not object.
  python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-deps --no-compile \
    --only-binary :all: --require-hashes --requirement scripts/nvrtc-wheel.txt --target .deps/python.partial >&2 ||
    fail "pip could not install NVRTC (scripts/nvrtc-wheel.txt). Without it nothing can be compiled for a GPU"
  mv .deps/python.partial .deps/python
  [[ -e $nvrtc_folder/libnvrtc.so.13 ]] || fail "the NVRTC wheel has no $nvrtc_folder/libnvrtc.so.13"
}

require_packages
cmake_version=$(cmake --version | sed -n '1s/.* //p')
at_least "$cmake_version" 3.25 || fail "CMake $cmake_version found at $(command -v cmake); 3.25 or newer is needed"
gcc_version=$(g++ -dumpfullversion)
at_least "$gcc_version" 12 || fail "g++ $gcc_version found at $(command -v g++); 12 or newer is needed"
have_nvrtc || install_nvrtc
