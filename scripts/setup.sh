#!/usr/bin/env bash
# Installs the missing dependencies for building and testing Tunesmith on Debian 12 or Ubuntu 24.04. If nothing is missing, it
# prints nothing and takes a fraction of a second. It can be repeated at any time.
#   1. Debian packages, as root or with sudo; otherwise it lists the missing ones and fails.
#   2. Python wheels in .deps/: clang-tidy 23, which no release has, and NVRTC if there is no CUDA toolkit. NVRTC needs no GPU
#      and no driver.
#   3. With the argument `tests`, on Debian, a browser without a window, for one test. It is optional.
#   4. With the argument `docs`, Doxygen.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

nvrtc_folder=.deps/python/nvidia/cu13/lib # the wheel's folder of libnvrtc; also in scripts/environment.sh
clang_tidy=.deps/clang-tidy/clang_tidy/data/bin/clang-tidy # also in scripts/tidy.sh
no_browser=.deps/no-browser # exists if the optional browser could not be installed

say() { echo "setup: $*"; }
fail() {
  echo "setup: $*" >&2
  exit 1
}

# ---- packages

# A tool is present if it is on PATH; a library is present if its package is installed.
declare -A tool_package=(
  [g++]=g++ [cmake]=cmake [ninja]=ninja-build [make]=make [git]=git [pkg-config]=pkgconf [ccache]=ccache
  [clang-format-14]=clang-format-14 # other versions format differently
  [redis-server]=redis-server       # for the tests of the remote cache
)
libraries=(libsqlite3-dev libboost-context-dev nlohmann-json3-dev libcli11-dev libxxhash-dev libgtest-dev libbenchmark-dev
  libhiredis-dev libssl-dev zlib1g-dev python3-dev python3-venv)

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
    # Without a terminal, sudo cannot ask for a password.
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

# The test of `tunesmith report --html` in a browser is skipped without one. Debian packages a browser that has no window (100 MB to
# download with its libraries, 306 MB installed); Ubuntu has none outside a snap. Optional: a failure is a message and a file, so
# that later runs do not wait for the download.
install_browser() {
  if command -v chromium-headless-shell >/dev/null || command -v chromium >/dev/null; then return; fi
  grep -qx 'ID=debian' /etc/os-release 2>/dev/null || return 0
  ((EUID == 0)) || sudo -n true 2>/dev/null || return 0 # not worth a password
  [[ ! -e $no_browser ]] || return 0
  if (install_packages chromium-headless-shell); then return; fi
  say "no browser: the test that shows the report in one will be skipped. To try again, delete $no_browser"
  mkdir -p "$(dirname "$no_browser")"
  touch "$no_browser"
}

require_packages() {
  local missing
  missing=$(missing_packages | sort -u)
  # shellcheck disable=SC2086  # one word per package
  if [[ -n $missing ]]; then install_packages $missing; fi
}

# at_least HAVE WANT: compares dotted version numbers.
at_least() { [[ $(printf '%s\n' "$2" "$1" | sort -V | head -n 1) == "$2" ]]; }

# ---- wheels

# install_wheel FOLDER REQUIREMENTS: installs the packages of a requirements file with hashes into a folder.
install_wheel() {
  if ! python3 -m pip --version >/dev/null 2>&1; then install_packages python3-pip; fi
  rm -rf "$1" "$1.partial"
  mkdir -p "$(dirname "$1")"
  # --target does not touch the system's packages, so it works with an externally managed Python.
  python3 -m pip install --quiet --retries 1 --disable-pip-version-check --root-user-action=ignore --no-deps --no-compile \
    --only-binary :all: --require-hashes --requirement "$2" --target "$1.partial" >&2 || return
  mv "$1.partial" "$1"
}

have_nvrtc() {
  local file
  for file in ${TUNESMITH_CUDA:+"${TUNESMITH_CUDA%%:*}"/libnvrtc.so.1[23]} "$nvrtc_folder"/libnvrtc.so.13 \
    /usr/local/cuda*/{lib64,lib}/libnvrtc.so.1[23]; do
    [[ -e $file ]] && return
  done
  # Not `ldconfig | grep -q`, which fails with pipefail if grep exits early. ldconfig is not on every user's PATH.
  [[ $(PATH=$PATH:/usr/sbin:/sbin ldconfig -p) == *libnvrtc.so.1[23]* ]]
}

# Installs only NVRTC, which depends on nothing but libc. Tunesmith launches through the driver, so it does not need the CUDA
# runtime, and kernels include no CUDA headers.
install_nvrtc() {
  say "no CUDA toolkit found: downloading NVRTC (about 90 MB) into .deps/"
  install_wheel .deps/python scripts/nvrtc-wheel.txt ||
    fail "pip could not install NVRTC (scripts/nvrtc-wheel.txt), which is needed to compile for a GPU"
  [[ -e $nvrtc_folder/libnvrtc.so.13 ]] || fail "the NVRTC wheel has no $nvrtc_folder/libnvrtc.so.13"
}

# Version 23 does not analyze the system's headers, which takes 14 three quarters of its time. Without PyPI, Debian's 14 is
# used, which has most of the checks.
install_clang_tidy() {
  say "downloading clang-tidy (about 45 MB) into .deps/"
  install_wheel .deps/clang-tidy scripts/clang-tidy-wheel.txt && [[ -x $clang_tidy ]] && return
  say "pip could not install clang-tidy (scripts/clang-tidy-wheel.txt); using clang-tidy 14, which is five times slower"
  command -v clang-tidy-14 >/dev/null || install_packages clang-tidy-14
}

require_packages
cmake_version=$(cmake --version | sed -n '1s/.* //p')
at_least "$cmake_version" 3.25 || fail "CMake $cmake_version found at $(command -v cmake); 3.25 or newer is needed"
gcc_version=$(g++ -dumpfullversion)
at_least "$gcc_version" 12 || fail "g++ $gcc_version found at $(command -v g++); 12 or newer is needed"
have_nvrtc || install_nvrtc
[[ -x $clang_tidy ]] || install_clang_tidy
[[ ${1:-} != tests ]] || install_browser
[[ ${1:-} != docs ]] || command -v doxygen >/dev/null || install_packages doxygen
