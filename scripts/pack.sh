#!/usr/bin/env bash
# pack.sh [FOLDER]: builds the device preset and packs what a GPU machine needs of it, without debug information, in two
# archives that unpack to folders laid out like a build folder. Both have the command line and the shipped records.
# FOLDER.tar.xz (default build/gpu) has the tests with the label gpu, FOLDER-bench.tar.xz the benchmarks and libtunesmith.so.
# On the other machine, in a checkout anywhere:
#
#   tar -xf build/gpu.tar.xz; scripts/demo.sh build/gpu; scripts/gpu_tests.sh build/gpu
#   tar -xf build/gpu-bench.tar.xz; scripts/bench.sh build/gpu-bench
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

max_mib=64 # what is carried to a lent machine at once
build=build/device
package=${1:-build/gpu}
cmake --preset device
cmake --build --preset device --target gpu_tests tunesmith_cli tunesmith tunesmith_shipped tunesmith_bench tunesmith_cold_start \
  tunesmith_changing_shapes tunesmith_specialize

bench=$package-bench
rm -rf "$package" "$bench"
mkdir -p {"$package","$bench"}/{api/cli,share/tunesmith} "$package/tests" "$bench/bench"
for folder in "$package" "$bench"; do
  cp "$build/api/cli/tunesmith" "$folder/api/cli/"
  cp "$build/share/tunesmith/shipped.db" "$folder/share/tunesmith/"
done
cp "$build"/tests/*_gpu_test "$package/tests/"
cp -P "$build"/api/libtunesmith.so* "$bench/api/"
cp "$build"/bench/tunesmith_{bench,cold_start,changing_shapes,specialize} "$bench/bench/"
benchmark=$(ldd "$build/bench/tunesmith_bench" | awk '/libbenchmark/ {print $3}')
[[ -z $benchmark ]] || cp "$benchmark" "$bench/bench/"
find "$package" "$bench" -type f ! -name '*.db' -exec strip --strip-unneeded {} +

for folder in "$package" "$bench"; do
  archive=$folder.tar.xz
  XZ_OPT='-4 --threads=0' tar --create --xz --file "$archive" "$folder"
  mib=$(du --summarize --block-size=1M "$archive" | cut -f1)
  echo "$archive: $(find "$folder" -type f | wc -l) files, $mib MiB"
  ((mib <= max_mib)) || {
    echo "pack.sh: $archive is $mib MiB; allowed: at most $max_mib" >&2
    exit 1
  }
done
