#!/usr/bin/env bash
# package_test.sh BUILD_FOLDER CXX: installs a build, moves the installed tree, and checks that
#   - find_package(tunesmith) works for api/examples/consumer, copied out of the tree, and the program gives the right result;
#   - find_package rejects a version that is too new;
#   - pkg-config's flags build the same program;
#   - the installed command line runs and finds its library, and the examples of score_mod and mask_mod are there;
#   - both find the installed tuning results in the moved tree;
#   - cpack's .tar.gz and .deb hold a command line that runs, and a library for the same program;
#   - FetchContent configures a program with the checkout as a part of it;
#   - the Conan recipe in packaging/ has the folders of the library. (release_script_test.sh checks versions.)
set -euo pipefail # so no `| grep -q`, which ends before its input does
source_folder=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=$1
cxx=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

step() { echo "-- $*"; }
fail() {
  echo "package_test.sh: $*" >&2
  exit 1
}
prefix=$scratch/moved

step "install"
cmake --install "$build" --prefix "$scratch/installed" >"$scratch/install.log" || { cat "$scratch/install.log"; exit 1; }
mv "$scratch/installed" "$prefix"
[[ -f $prefix/include/tunesmith/tunesmith.h ]] || fail "no public headers were installed"
[[ -z $(find "$prefix" -name '*.a') ]] || fail "static libraries of the tree were installed"
if grep -rlF -e "$source_folder" -e "$build" "$prefix" --include='*.cmake' --include='*.pc' --include='*.h'; then
  fail "these installed files name the source or build folder"
fi

step "find_package"
cp -r "$source_folder/api/examples/consumer" "$scratch/consumer"
configure=(cmake -G Ninja -S "$scratch/consumer" -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_PREFIX_PATH="$prefix")
"${configure[@]}" -B "$scratch/consumer-build"
cmake --build "$scratch/consumer-build"
"$scratch/consumer-build/consumer"

step "a version that is too new"
sed -i 's/find_package(tunesmith /find_package(tunesmith 99.0 /' "$scratch/consumer/CMakeLists.txt"
if "${configure[@]}" -B "$scratch/rejected" >"$scratch/rejected.log" 2>&1; then fail "version 99.0 was found"; fi
grep -q "tunesmith" "$scratch/rejected.log" || fail "the error does not name tunesmith"

step "pkg-config"
PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name tunesmith.pc)")
export PKG_CONFIG_PATH
read -ra flags <<<"$(pkg-config --cflags --libs tunesmith)"
"$cxx" -std=c++20 "$scratch/consumer/main.cpp" "${flags[@]}" -o "$scratch/with-pkg-config"
LD_LIBRARY_PATH=$(pkg-config --variable=libdir tunesmith) "$scratch/with-pkg-config"

step "command line"
"$prefix/bin/tunesmith" source softmax --rows 16 --cols 1000 --dtype f32 --arch sm_90a >"$scratch/softmax.cu"
grep -q "softmax" "$scratch/softmax.cu" || fail "the installed command line printed no source"

step "completion"
completion=$prefix/share/bash-completion/completions/tunesmith
bash -c 'source "$1"; COMP_WORDS=(tunesmith run soft); COMP_CWORD=2; _tunesmith; [[ ${COMPREPLY[*]} == "softmax softmax_backward" ]]' \
  completion "$completion" || fail "the installed completion does not work"
[[ -f $prefix/share/zsh/site-functions/_tunesmith ]] || fail "no completion for zsh was installed"

step "examples of score_mod and mask_mod"
for text in "$source_folder"/api/examples/mods/*.cu; do
  cmp "$text" "$prefix/share/tunesmith/mods/$(basename "$text")" || fail "$(basename "$text") was not installed"
done
"$prefix/bin/tunesmith" source attention --seq-q 64 --head-dim 64 --arch sm_90a \
  --mask-mod "$prefix/share/tunesmith/mods/document_mask.cu" >"$scratch/attention.cu"
grep -q "query_document" "$scratch/attention.cu" || fail "the installed example is not in the source"

step "shipped records"
unset TUNESMITH_SYSTEM_CACHE
shipped=$(readlink -f "$prefix")/share/tunesmith/shipped.db
[[ -f $shipped ]] || fail "no shipped.db was installed"
[[ $(stat -c %s "$shipped") -le $((4 << 20)) ]] || fail "shipped.db is larger than 4 MiB"
"$prefix/bin/tunesmith" doctor | grep -F "$shipped" >/dev/null || fail "the installed command line does not find $shipped"
cat >"$scratch/place.cpp" <<'CPP'
#include <cstdio>

#include "tunesmith/tunesmith.h"

int main() { std::puts(tunesmith::EngineOptions::default_shipped_cache().c_str()); }
CPP
"$cxx" -std=c++20 "$scratch/place.cpp" "${flags[@]}" -o "$scratch/place"
place=$(LD_LIBRARY_PATH=$(pkg-config --variable=libdir tunesmith) "$scratch/place")
[[ $place == "$shipped" ]] || fail "the installed library finds '$place', not $shipped"

step "cpack"
generators=TGZ
command -v dpkg-shlibdeps >/dev/null && generators="TGZ;DEB" # lists the packages that a .deb needs
cpack --config "$build/CPackConfig.cmake" -G "$generators" -B "$scratch/packages" >"$scratch/cpack.log" 2>&1 || { cat "$scratch/cpack.log"; exit 1; }
mkdir "$scratch/unpacked"
tar -xzf "$scratch"/packages/*.tar.gz -C "$scratch/unpacked" --strip-components=1
"$scratch/unpacked/bin/tunesmith" ops | grep softmax >/dev/null || fail "the command line of the .tar.gz does not run"
# build_and_run NAME PREFIX: the example of a program, with the package unpacked in a folder.
build_and_run() {
  cmake -G Ninja -S "$source_folder/api/examples/consumer" -B "$scratch/$1-consumer" -DCMAKE_CXX_COMPILER="$cxx" \
    -DCMAKE_PREFIX_PATH="$2" >/dev/null
  cmake --build "$scratch/$1-consumer" >/dev/null
  "$scratch/$1-consumer/consumer" || fail "the program with the $1 gives a wrong result"
}
build_and_run tar.gz "$scratch/unpacked"
if [[ $generators == *DEB ]]; then
  dpkg-deb -x "$scratch"/packages/*.deb "$scratch/debian"
  "$scratch/debian/usr/bin/tunesmith" ops | grep softmax >/dev/null || fail "the command line of the .deb does not run"
  build_and_run deb "$scratch/debian/usr"
  dpkg-deb -f "$scratch"/packages/*.deb Depends | grep libsqlite3 >/dev/null || fail "the .deb does not depend on SQLite"
fi

step "FetchContent"
mkdir "$scratch/fetching"
cat >"$scratch/fetching/CMakeLists.txt" <<CMAKE
cmake_minimum_required(VERSION 3.25)
project(fetching LANGUAGES CXX)
include(FetchContent)
FetchContent_Declare(tunesmith SOURCE_DIR "$source_folder")
FetchContent_MakeAvailable(tunesmith)
add_executable(fetching "$source_folder/api/examples/consumer/main.cpp")
target_link_libraries(fetching PRIVATE tunesmith::tunesmith)
CMAKE
cmake -G Ninja -S "$scratch/fetching" -B "$scratch/fetching-build" -DCMAKE_CXX_COMPILER="$cxx" >"$scratch/fetching.log" ||
  { cat "$scratch/fetching.log"; exit 1; }
ninja -C "$scratch/fetching-build" -t query fetching | grep libtunesmith >/dev/null || fail "the program does not link the library"
[[ ! -d $scratch/fetching-build/_deps/tunesmith-build/tests ]] || fail "the tests are part of the program's build"

step "recipes" # scripts/packaging.sh builds and uses them
for folder in $(sed -n 's/.*folders = \[\(.*\)\]/\1/p' "$source_folder/packaging/conan/conanfile.py" | tr -d '",'); do
  [[ -d $source_folder/$folder ]] || fail "the Conan recipe exports $folder, which does not exist"
done
while read -r folder; do
  grep "folders = .*\"$folder\"" "$source_folder/packaging/conan/conanfile.py" >/dev/null || fail "the Conan recipe does not export $folder"
done < <(sed -n 's/^add_subdirectory(\(.*\))/\1/p' "$source_folder/CMakeLists.txt")

echo "the installed package works"
