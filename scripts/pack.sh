#!/usr/bin/env bash
# pack.sh [FOLDER]: builds the device preset and packs what a GPU machine needs of it, without debug information, in
# FOLDER.tar.xz (default build/gpu): the command line, the shipped records, libtunesmith.so, the tests with the label gpu,
# random_problems and the benchmarks, laid out like a build folder. On the other machine, in a checkout anywhere:
#
#   tar -xf build/gpu.tar.xz; scripts/demo.sh build/gpu; scripts/gpu_tests.sh build/gpu; scripts/bench.sh build/gpu
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

max_mib=64 # what is carried to a lent machine at once
build=build/device
package=${1:-build/gpu}
archive=$package.tar.xz
rm -rf "$package" "$archive" # an archive of an earlier commit is not carried by mistake while this one is being built
cmake --preset device
cmake --build --preset device --target gpu_tests random_problems tunesmith_cli tunesmith tunesmith_shipped tunesmith_bench tunesmith_cold_start \
  tunesmith_changing_shapes tunesmith_specialize

mkdir -p "$package"/{api/cli,share/tunesmith,tests,bench}
cp "$build/api/cli/tunesmith" "$package/api/cli/"
cp "$build/share/tunesmith/shipped.db" "$package/share/tunesmith/"
cp "$build"/tests/*_gpu_test "$build/tests/random_problems" "$package/tests/"
cp -P "$build"/api/libtunesmith.so* "$package/api/"
cp "$build"/bench/tunesmith_{bench,cold_start,changing_shapes,specialize} "$package/bench/"
benchmark=$(ldd "$build/bench/tunesmith_bench" | awk '/libbenchmark/ {print $3}')
[[ -z $benchmark ]] || cp "$benchmark" "$package/bench/"
git describe --always --dirty >"$package/commit" # printed by gpu_tests.sh
find "$package" -type f ! -name '*.db' ! -name commit -exec strip --strip-unneeded {} +

# Every program has the library in it: a dictionary that spans them all makes a third of what the default settings make.
tar --create --file - "$package" | xz --threads=1 --lzma2=preset=2,dict=192MiB >"$archive"
mib=$(du --summarize --block-size=1M "$archive" | cut -f1)
echo "$archive: $(find "$package" -type f | wc -l) files, $mib MiB"
((mib <= max_mib)) || {
  echo "pack.sh: $archive is $mib MiB; allowed: at most $max_mib" >&2
  exit 1
}
