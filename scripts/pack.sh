#!/usr/bin/env bash
# pack.sh [FOLDER]: builds the device preset and collects what a GPU machine needs of it in FOLDER (default build/gpu), which
# is laid out like a build folder: the command line, libtunesmith.so, the shipped records, the tests with the label gpu, and
# the benchmarks, without debug information. On the other machine, in a checkout anywhere:
#
#   scripts/demo.sh build/gpu; scripts/gpu_tests.sh build/gpu; scripts/bench.sh build/gpu
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

max_mib=64 # what is carried to a lent machine at once
build=build/device
package=${1:-build/gpu}
cmake --preset device
cmake --build --preset device --target gpu_tests tunesmith_cli tunesmith tunesmith_shipped tunesmith_bench tunesmith_cold_start \
  tunesmith_changing_shapes

rm -rf "$package"
mkdir -p "$package"/{api/cli,bench,share/tunesmith,tests}
copy() { # copy FOLDER FILE...: keeps symbolic links
  cp -P --target-directory="$package/$1" "${@:2}"
}
copy api/cli "$build/api/cli/tunesmith"
copy api "$build"/api/libtunesmith.so*
copy share/tunesmith "$build/share/tunesmith/shipped.db"
copy tests "$build"/tests/*_gpu_test
copy bench "$build"/bench/tunesmith_{bench,cold_start,changing_shapes}
benchmark=$(ldd "$build/bench/tunesmith_bench" | awk '/libbenchmark/ {print $3}')
[[ -z $benchmark ]] || cp "$benchmark" "$package/bench/"
find "$package" -type f ! -name '*.db' -exec strip --strip-unneeded {} +

mib=$(du --summarize --block-size=1M "$package" | cut -f1)
echo "$package: $(find "$package" -type f | wc -l) files, $mib MiB"
((mib <= max_mib)) || {
  echo "pack.sh: $package is $mib MiB; allowed: at most $max_mib" >&2
  exit 1
}
