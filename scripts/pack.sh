#!/usr/bin/env bash
# pack.sh [FOLDER]: builds the device preset and collects what a GPU machine needs of it, without debug information, in two
# folders that are laid out like a build folder. Both have the command line and the shipped records. FOLDER (default build/gpu)
# has the tests with the label gpu, FOLDER-bench the benchmarks and libtunesmith.so. On the other machine, in a checkout
# anywhere:
#
#   scripts/demo.sh build/gpu; scripts/gpu_tests.sh build/gpu; scripts/bench.sh build/gpu-bench
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
  mib=$(du --summarize --block-size=1M "$folder" | cut -f1)
  echo "$folder: $(find "$folder" -type f | wc -l) files, $mib MiB"
  ((mib <= max_mib)) || {
    echo "pack.sh: $folder is $mib MiB; allowed: at most $max_mib" >&2
    exit 1
  }
done
