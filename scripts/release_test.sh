#!/usr/bin/env bash
# release_test.sh [FOLDER [SYSTEM...]]: installs the files of a release (default: of the present version, build/release-VERSION,
# which scripts/release.sh makes) in bare systems and uses them. SYSTEM: bookworm (Debian 12) or noble (Ubuntu 24.04); default
# both. In each, without a compiler:
#   - the .deb and the unpacked .tar.gz: `tunesmith doctor` says what is missing and finds the shipped records; kernels' sources
# and with the distribution's compiler, CMake and Python:
#   - the same and the wheel run a softmax on the CPU, checked against float64
#   - api/examples/consumer is built against the .deb and against the .tar.gz
# Needs root, debootstrap and the mirrors of both distributions; the wheel's dependencies come from PyPI. Bare systems are kept in
# build/trees for the next run. If Ubuntu's keyring is not installed, its packages are taken without signatures, for this test only.
# shellcheck disable=SC2016  # scripts for the bare systems are not expanded here
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { echo "release_test: $*"; }
fail() {
  echo "release_test.sh: $*" >&2
  exit 1
}

version=$(sed -n 's/^#define TUNESMITH_VERSION "\(.*\)"/\1/p' core/include/tunesmith/version.h)
folder=${1:-build/release-$version}
systems=("${@:2}")
((${#systems[@]})) || systems=(bookworm noble)
[[ -f $folder/SHA256SUMS ]] || fail "$folder has no SHA256SUMS; scripts/release.sh $version makes it"
[[ $EUID == 0 ]] && command -v debootstrap >/dev/null || fail "needs root and debootstrap"
(cd "$folder" && sha256sum --check --quiet SHA256SUMS) || fail "files of $folder differ from SHA256SUMS"
trees=$PWD/build/trees
mkdir -p "$trees"

# make_tree SYSTEM: packs a bare system in build/trees, unless it is there.
make_tree() {
  local system=$1 options=(--variant=minbase) source=() keyring=/usr/share/keyrings/ubuntu-archive-keyring.gpg
  [[ ! -f $trees/$system.tar ]] || return 0
  say "making a bare $system"
  if [[ $system == noble ]]; then
    options+=("--components=main,universe")
    if [[ -e $keyring ]]; then options+=("--keyring=$keyring"); else options+=(--no-check-gpg); fi
    source=(http://archive.ubuntu.com/ubuntu)
    # All of Ubuntu's releases are made alike; the debootstrap of Debian 12 does not know this one.
    [[ -e /usr/share/debootstrap/scripts/noble ]] || source+=(gutsy)
  fi
  rm -rf "${trees:?}/$system"
  debootstrap "${options[@]}" "$system" "$trees/$system" "${source[@]}" >"$trees/$system.log" ||
    { tail "$trees/$system.log" >&2; fail "debootstrap failed"; }
  tar --create --file "$trees/$system.tar.partial" --directory "$trees/$system" .
  mv "$trees/$system.tar.partial" "$trees/$system.tar"
  rm -rf "${trees:?}/$system"
}

# inside SYSTEM SCRIPT: runs a script in the unpacked system, with /proc, which ends with it.
inside() {
  unshare --mount bash -euc 'mount -t proc proc "$0/proc"; exec chroot "$0" /bin/bash -euo pipefail -c "$1"' "$trees/$1" "$2"
}

# What each script begins with.
bare='
  cd /opt
  export PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C
  use_without_compiler() {
    "$1" --version
    "$1" source softmax --rows 8 --cols 128 --arch sm_90a >softmax.cu
    grep -q __global__ softmax.cu || { echo "the source of a kernel lacks the kernel"; exit 1; }
    if "$1" doctor >doctor.txt; then echo "doctor: kernels can run without a compiler?"; cat doctor.txt; exit 1; fi
    grep -q "apt-get install g++" doctor.txt && grep -q "nvidia-cuda-nvrtc" doctor.txt && grep -q "shipped.db, 3" doctor.txt ||
      { echo "doctor does not say what is missing, or does not find the shipped records"; cat doctor.txt; exit 1; }
  }
  use_with_compiler() {
    "$1" doctor --device host >doctor.txt || { cat doctor.txt; exit 1; }
    "$1" run softmax --rows 8 --cols 128 --device host --mode off --cache /opt/cache.db
  }
  build_consumer() {
    cmake -S consumer -B "$@" >cmake.log || { cat cmake.log; exit 1; }
    cmake --build "$1" >cmake.log || { cat cmake.log; exit 1; }
    "$1/consumer"
  }
  apt() { apt-get -qq -o Dpkg::Use-Pty=0 "$@" >apt.log 2>&1 || { cat apt.log; exit 1; }; }
  export DEBIAN_FRONTEND=noninteractive
'
test_system() {
  local system=$1 root=$trees/$1
  make_tree "$system"
  rm -rf "$root"
  mkdir -p "$root"
  tar --extract --file "$trees/$system.tar" --directory "$root"
  local arch
  arch=$(uname -m)
  find "$folder" \( -name "*_$(dpkg --print-architecture).deb" -o -name "*-Linux-$arch.tar.gz" -o -name "*_$arch.whl" \) \
    -exec cp -t "$root/opt" {} +
  cp -r api/examples/consumer "$root/opt"
  cp api/python/tests/fresh_environment.py "$root/opt"
  cp /etc/resolv.conf "$root/etc/"
  local name
  name=$(sed -n 's/^PRETTY_NAME="\(.*\)"/\1/p' "$root/etc/os-release")

  say "$name, bare"
  inside "$system" "$bare"'
    mkdir unpacked && tar -xzf tunesmith-*-Linux-*.tar.gz -C unpacked --strip-components=1
    use_without_compiler /opt/unpacked/bin/tunesmith
    apt update
    apt install --no-install-recommends ./tunesmith_*.deb
    use_without_compiler tunesmith'
  say "$name, with a compiler"
  inside "$system" "$bare"'
    apt install --no-install-recommends g++ cmake make python3-venv
    python3 -c "import sys; print(sys.version_info.minor)" >python.txt'
  # Dependencies come through this system's pip, which may have a proxy or certificates of its own.
  local wheel
  for wheel in "$root"/opt/tunesmith-*.whl; do
    [[ ! -e $wheel ]] || python3 -m pip download --quiet --disable-pip-version-check --only-binary :all: --implementation cp \
      --python-version "3.$(<"$root/opt/python.txt")" --dest "$root/opt/dependencies" numpy nanobind-backend
  done
  inside "$system" "$bare"'
    use_with_compiler /opt/unpacked/bin/tunesmith
    use_with_compiler tunesmith
    build_consumer with-deb
    used=
    for wheel in tunesmith-*.whl; do
      [[ -e $wheel ]] || { used=none; break; }
      python3 -m venv environment
      if ! environment/bin/pip install --quiet --disable-pip-version-check --no-index --find-links dependencies "$wheel" numpy >pip.log 2>&1; then
        grep -q "not a supported wheel on this platform" pip.log || { cat pip.log; exit 1; }
        echo "$wheel is not for $(python3 --version)"
        continue
      fi
      TUNESMITH_CACHE= environment/bin/python fresh_environment.py
      use_with_compiler /opt/environment/bin/tunesmith
      used=$wheel
    done
    [[ -n $used ]] || { echo "no wheel is for $(python3 --version); see RELEASE_PYTHONS in release.sh"; exit 1; }
    apt remove tunesmith
    build_consumer with-tree -DCMAKE_PREFIX_PATH=/opt/unpacked'
  rm -rf "$root"
  say "$name: the release works"
}

for system in "${systems[@]}"; do
  [[ $system == bookworm || $system == noble ]] || fail "system is '$system'; allowed: bookworm, noble"
  test_system "$system"
done
